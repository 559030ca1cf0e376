"""Hit rates of the eviction policies on a recorded conversation workload.

A block counts as hit while all blocks before it in the prompt hit too; then the prompt's blocks are
touched, or stored. The reference is an exact LRU over bytes, written down here in a few lines. The
second table gives chunks two sizes, as two groups have.

    python benchmarks/policies.py [--capacity 1000 5000 ...]
"""

from __future__ import annotations

import argparse
import lzma
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from kvengine.runtime.policies import POLICIES
from kvengine.runtime.pool import Found, HostPool

TRACE = Path(__file__).parent / "data" / "mooncake-conversation.txt.xz"
BLOCK_BYTES = 1 << 20


def read_trace(path: Path = TRACE) -> list[list[int]]:
    prompts = []
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        ids: list[int] = []
        for word in line.split():
            first, _, last = word.partition("-")
            ids += range(int(first), int(last or first) + 1)
        prompts.append(ids)
    return prompts


def keys_of(ids: Sequence[int], groups: int) -> list[bytes]:
    return [i.to_bytes(12, "big") + (i % groups).to_bytes(4, "big") for i in ids]


def pool_hits(
    prompts: Sequence[Sequence[bytes]], sizes: Sequence[int], budget: int, policy: str
) -> int:
    pool = HostPool(sizes, budget, policy=policy)
    hits = 0
    for keys in prompts:
        for found in pool.lookup(keys):
            if found is not Found.HIT:
                break
            hits += 1
        pool.touch(keys)
        pool.complete_store(pool.prepare_store(keys).keys)
    return hits


def lru_hits(prompts: Sequence[Sequence[bytes]], sizes: Sequence[int], budget: int) -> int:
    """Exact: bytes used never exceed the budget, the least recently used key leaves."""
    order: OrderedDict[bytes, int] = OrderedDict()
    used = hits = 0
    for keys in prompts:
        for key in keys:
            if key not in order:
                break
            hits += 1
        for key in keys:
            if key in order:
                order.move_to_end(key)
                continue
            order[key] = size = sizes[key[-1]]
            used += size
            while used > budget:
                used -= order.popitem(last=False)[1]
    return hits


def table(
    prompts: Sequence[Sequence[int]], sizes: Sequence[int], capacities: Sequence[int]
) -> None:
    keys = [keys_of(prompt, len(sizes)) for prompt in prompts]
    total = sum(map(len, keys))
    mean = sum(sizes) / len(sizes)
    print(f"{'blocks':>8} {'exact LRU':>10} " + " ".join(f"{name:>9}" for name in POLICIES))
    for capacity in capacities:
        budget = int(capacity * mean)
        rates = [lru_hits(keys, sizes, budget) / total]
        rates += [pool_hits(keys, sizes, budget, policy) / total for policy in POLICIES]
        print(f"{capacity:8} {rates[0]:10.2%} " + " ".join(f"{rate:9.2%}" for rate in rates[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--capacity", type=int, nargs="+", default=[1_000, 5_000, 10_000, 20_000, 50_000]
    )
    args = parser.parse_args()
    started_s = time.perf_counter()
    prompts = read_trace()
    blocks = sum(map(len, prompts))
    print(
        f"{len(prompts)} prompts, {blocks} blocks, {len({b for p in prompts for b in p})} different"
    )
    print("\nblocks of one size")
    table(prompts, [BLOCK_BYTES], args.capacity)
    print("\nblocks of two sizes, 1 : 1.45")
    table(prompts, [BLOCK_BYTES, int(1.45 * BLOCK_BYTES)], args.capacity[:3])
    print(f"\n{time.perf_counter() - started_s:.0f} s")


if __name__ == "__main__":
    main()
