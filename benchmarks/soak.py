"""Minutes of stores, loads, failures, cancels and resets: memory and threads must not grow.

python benchmarks/soak.py [--seconds 120] [--mib 64]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import threading
import time
from pathlib import Path

import kvengine
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Offload
from kvengine.runtime import HostTier, OffloadEngine, allocate
from kvengine.runtime.jobs import Job, Kind
from kvengine.runtime.shrink import shrink

EXAMPLE = Path(__file__).parent.parent / "examples" / "gpt-oss-20b.toml"


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def fault(kind: Kind, key: bytes) -> None:
    """One copy in a hundred fails, one in a hundred is late."""
    if key[0] < 3:
        raise OSError("injected")
    if key[0] > 252:
        time.sleep(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--mib", type=int, default=64, help="of cache, and again of host memory")
    args = parser.parse_args()
    whole = make_plan(kvengine.load(EXAMPLE))
    budget = args.mib << 20
    plan = shrink(whole, budget // whole.bytes_per_block)
    assert isinstance(plan.offload, Offload)
    per_chunk = plan.offload.blocks_per_chunk
    cache = allocate(plan)
    engine = OffloadEngine(plan, cache, [HostTier(budget_bytes=budget // 2)], fault=fault)
    chance = random.Random(0)
    free = list(range(plan.num_blocks))
    open_jobs: list[Job] = []
    known: list[bytes] = []
    started_s = reported_s = time.monotonic()
    first = None
    print(f"{'s':>5} {'RSS MiB':>8} {'threads':>7} {'jobs':>8} {'GB moved':>9} {'failed':>7}")
    while (now_s := time.monotonic()) - started_s < args.seconds:
        group = chance.randrange(len(plan.groups))
        size = per_chunk[group]
        count = min(chance.randint(1, 4), len(free) // size)
        blocks = [[free.pop() for _ in range(size)] for _ in range(count)]
        if chance.random() < 0.5 or not known:
            keys = [os.urandom(16) + group.to_bytes(4, "big") for _ in range(count)]
            known = [*known[-200:], *keys]
            open_jobs.append(engine.store(keys, blocks))
        else:
            mine = list({key for key in known if key[-1] == group})
            keys = chance.sample(mine, min(count, len(mine)))
            free += [block for some in blocks[len(keys) :] for block in some]
            open_jobs.append(engine.load(keys, blocks[: len(keys)]))
        if chance.random() < 0.05:
            engine.cancel(chance.choice(open_jobs))
        if chance.random() < 0.001:
            engine.reset()
        if len(free) < 8 * max(per_chunk):
            engine.wait(open_jobs[0])
        engine.poll()
        for job in [job for job in open_jobs if job.done]:
            open_jobs.remove(job)
            free += [block for some in job.blocks for block in some]
        if now_s - reported_s > args.seconds / 8:
            reported_s = now_s
            gc.collect()
            stats = engine.stats()
            moved = (stats.store.num_bytes + stats.load.num_bytes) / 1e9
            failed = stats.store.failed_chunks + stats.load.failed_chunks
            line = (resident_mib(), threading.active_count())
            first = first or line
            print(
                f"{now_s - started_s:5.0f} {line[0]:8.1f} {line[1]:7} "
                f"{stats.store.jobs + stats.load.jobs:8} {moved:9.1f} {failed:7}",
                flush=True,
            )
    engine.close()
    last = (resident_mib(), threading.active_count())
    assert first is not None
    print(f"RSS {first[0]:.1f} -> {last[0]:.1f} MiB, threads {first[1]} -> {last[1]} after close")


if __name__ == "__main__":
    main()
