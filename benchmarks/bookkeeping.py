"""Cost of bookkeeping per chunk, beside vLLM's CPUOffloadingManager and beside a plain dict.

Where vLLM 0.32 is importable (run this with its Python, and this folder's parent on PYTHONPATH),
both keep books of the same keys in the same process, taking turns. Times are the thread's own, so
that other load on the machine counts little. The last table says how the
cost grows from 1e4 to 1e6 chunks, beside what ``dict.get`` of such keys grows.

    python benchmarks/bookkeeping.py [--chunks 10000 100000] [--runs 5] [--grow]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kvengine.runtime.pool import HostPool

BATCH = 64
CHUNK_BYTES = 1 << 20
Batches = list[list[bytes]]


def make_keys(count: int) -> Batches:
    keys = [os.urandom(32) + bytes(4) for _ in range(count)]
    return [keys[at : at + BATCH] for at in range(0, count, BATCH)]


def timed(act: Callable[[], None]) -> float:
    gc.collect()
    gc.disable()
    started_s = time.thread_time()
    act()
    took_s = time.thread_time() - started_s
    gc.enable()
    return took_s


def ours(policy: str, chunks: int, old: Batches, new: Batches) -> Iterator[tuple[str, float]]:
    pool = HostPool((CHUNK_BYTES,), chunks * CHUNK_BYTES, policy=policy)

    def store(batches: Batches) -> None:
        for keys in batches:
            pool.complete_store(pool.prepare_store(keys).keys)

    def lookup(batches: Batches) -> None:
        for keys in batches:
            pool.lookup(keys)

    def lookup_one_by_one() -> None:
        for keys in old:
            for key in keys:
                pool.lookup_one(key)

    def touch() -> None:
        for keys in old:
            pool.touch(keys)

    def load() -> None:
        for keys in old:
            pool.prepare_load(keys)
            pool.complete_load(keys)

    yield "store, filling", timed(lambda: store(old))
    yield "lookup hit", timed(lambda: lookup(old))
    yield "lookup hit, one by one", timed(lookup_one_by_one)
    yield "lookup miss", timed(lambda: lookup(new))
    yield "touch", timed(touch)
    yield "load", timed(load)
    yield "store, evicting", timed(lambda: store(new))


def vllms(policy: str, chunks: int, old: Batches, new: Batches) -> Iterator[tuple[str, float]]:
    from vllm.v1.kv_offload.base import ReqContext
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    manager = CPUOffloadingManager(num_chunks=chunks, cache_policy=policy)

    def contexts(batches: Batches, tag: str) -> list[Any]:
        made = [ReqContext(req_id=f"{tag}{number}") for number in range(len(batches))]
        for context in made:
            manager.on_new_request(context)
        return made

    def store(batches: Batches, requests: Iterable[Any]) -> None:
        for keys, request in zip(batches, requests, strict=True):
            assert manager.prepare_store(keys, request) is not None
            manager.complete_store(keys, request)

    def lookup(batches: Batches, request: Any) -> None:
        for keys in batches:
            for key in keys:
                manager.lookup(key, request)

    def touch(requests: Iterable[Any]) -> None:
        for keys, request in zip(old, requests, strict=True):
            manager.touch(keys, request)

    def load(requests: Iterable[Any]) -> None:
        for keys, request in zip(old, requests, strict=True):
            manager.prepare_load(keys, request)
            manager.complete_load(keys, request)

    a, b, c = (contexts(old, tag) for tag in "abc")
    e = contexts(new, "e")
    one = contexts(old[:1], "f")[0]
    yield "store, filling", timed(lambda: store(old, a))
    yield "lookup hit", timed(lambda: lookup(old, one))
    yield "lookup hit, one by one", timed(lambda: lookup(old, one))
    yield "lookup miss", timed(lambda: lookup(new, one))
    yield "touch", timed(lambda: touch(b))
    yield "load", timed(lambda: load(c))
    yield "store, evicting", timed(lambda: store(new, e))


Keeper = Callable[[str, int, Batches, Batches], Iterator[tuple[str, float]]]


def compare(policy: str, chunks: int, runs: int) -> None:
    keepers: dict[str, Keeper] = {"kvengine": ours}
    if importlib.util.find_spec("vllm") and policy != "s3fifo":
        keepers["vllm"] = vllms
    best: dict[tuple[str, str], float] = {}
    for _ in range(runs):
        old, new = make_keys(chunks), make_keys(chunks)
        for key in [*old, *new]:
            hash(tuple(key))  # bytes keep their hash: nobody pays for it, whoever comes first
        for name, keeper in keepers.items():
            for operation, took_s in keeper(policy, chunks, old, new):
                at = (name, operation)
                best[at] = min(best.get(at, took_s), took_s)
    print(f"\n{policy}, {chunks} chunks, best of {runs}, us per chunk")
    for name, operation in best:
        if name == "kvengine":
            mine = best[name, operation] / chunks * 1e6
            theirs = best.get(("vllm", operation))
            beside = "" if theirs is None else f"   vLLM {theirs / chunks * 1e6:7.2f}"
            times = "" if theirs is None else f"   {theirs / chunks * 1e6 / mine:5.1f} x"
            print(f"  {operation:24} {mine:7.3f}{beside}{times}")


def grow(policy: str, runs: int) -> None:
    """The same operations at 1e4 and 1e6 chunks, in turn with a plain dict."""
    costs: dict[tuple[str, int], float] = {}
    for _ in range(runs):
        for chunks in (10_000, 1_000_000):
            old, new = make_keys(chunks), make_keys(chunks)
            plain = {key: index for index, key in enumerate(k for keys in old for k in keys)}
            again = [bytes(bytearray(key)) for keys in old for key in keys]  # unhashed, elsewhere

            def get(plain: dict[bytes, int] = plain, again: list[bytes] = again) -> None:
                for key in again:
                    plain.get(key)

            copies = [again[at : at + BATCH] for at in range(0, chunks, BATCH)]
            found = [("dict.get", timed(get)), *ours(policy, chunks, copies, new)]
            for operation, took_s in found:
                at = (operation, chunks)
                costs[at] = min(costs.get(at, took_s / chunks), took_s / chunks)
    base = costs["dict.get", 1_000_000] / costs["dict.get", 10_000]
    print(f"\n{policy}: growth from 1e4 to 1e6 chunks; dict.get grows {base:.2f} times")
    for operation, chunks in costs:
        if chunks == 10_000:
            small, large = costs[operation, 10_000], costs[operation, 1_000_000]
            print(
                f"  {operation:24} {small * 1e6:7.3f} -> {large * 1e6:7.3f} us   "
                f"{large / small:5.2f} times, {large / small / base:5.2f} of the dict's"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--policy", nargs="+", default=["lru", "arc", "s3fifo"])
    parser.add_argument("--grow", action="store_true", help="only the growth to 1e6 chunks")
    args = parser.parse_args()
    for policy in args.policy:
        if args.grow:
            grow(policy, min(args.runs, 3))
        else:
            for chunks in args.chunks:
                compare(policy, chunks, args.runs)


if __name__ == "__main__":
    main()
