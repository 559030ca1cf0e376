"""Store blocks in host memory, scribble over them, load them back, compare. Needs torch.

python examples/round_trip.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import kvengine
from kvengine.runtime import HostTier, OffloadEngine, allocate
from kvengine.runtime.shrink import shrink


def main(file: str) -> None:
    plan = shrink(kvengine.make_plan(kvengine.load(file)), num_blocks=64)
    cache = allocate(plan, "cpu")
    group, layer = 0, cache.layers[plan.groups[0].layers[0]]
    blocks = [*range(plan.offload.blocks_per_chunk[group])]
    for block in blocks:
        layer[block].random_(0, 256)
    before = layer[blocks].clone()
    key = b"hash of these tokens" + group.to_bytes(4, "big")
    with OffloadEngine(plan, cache, [HostTier(budget_bytes=64 << 20)]) as engine:
        stored = engine.wait(engine.store([key], [blocks]))
        layer.zero_()
        loaded = engine.wait(engine.load([key], [blocks]))
        print(f"store: {stored}, load: {loaded}")
    print("the same bytes" if layer[blocks].equal(before) else "WRONG BYTES")


if __name__ == "__main__":
    main(*sys.argv[1:] or [str(Path(__file__).parent / "gpt-oss-20b.toml")])
