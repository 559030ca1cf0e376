"""The engine's copies against one big copy of the same bytes, taking turns.

For rows of several sizes, packed and unpacked: the mover alone, and the whole engine with jobs of
16 chunks, one worker against one thread. Ratios compare best rounds; ``cpu`` compares the copying
thread's own time, which other load on the machine disturbs least. Then what the engine adds to the
copies of a job, with one worker and with two. Needs about 3 x --mib of memory.

    python benchmarks/copies.py [--mib 128] [--rounds 20] [--device cuda] [--busy]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import torch
from attrs import frozen

from kvengine.plan.plan import Group, Offload, Plan, Slot
from kvengine.runtime import HostTier, OffloadEngine, allocate
from kvengine.runtime.copies import Mover, make_mover
from kvengine.runtime.jobs import Job, Kind
from kvengine.runtime.rows import Move, rows_of

KIB = 1 << 10
STREAM = 8
CASES = (
    ("packed", 1, 256 * KIB),
    ("packed", 1, 1024 * KIB),
    ("packed", 1, 4096 * KIB),
    ("pools", 32, 32 * KIB),
    ("layer-outer", 32, 32 * KIB),
)


def plan_of(layout: str, layers: int, page_bytes: int, num_blocks: int) -> Plan:
    """One group; a packed row counts as one page here."""
    names = tuple(f"layer{number}" for number in range(layers))
    row_bytes = layers * page_bytes
    pools = layout == "pools"
    slots = tuple(
        Slot(
            layer=name,
            group=0,
            allocation=number if pools else 0,
            offset_bytes=0 if pools else number * page_bytes * num_blocks,
            stride_bytes=page_bytes,
            page_bytes=page_bytes,
        )
        for number, name in enumerate(names)
    )
    total = row_bytes * num_blocks
    return Plan(
        vllm="",
        layout=layout,
        packed=layers == 1,
        num_blocks=num_blocks,
        bytes_per_block=row_bytes,
        request_max_bytes=row_bytes,
        max_concurrency=1.0,
        capacity_tokens=num_blocks,
        max_model_len=num_blocks,
        cache_dtype="uint8",
        tokens_per_block=1,
        attention_backends=(),
        tokens_per_hash=1,
        scheduler_block_tokens=1,
        groups=(
            Group(
                kind="full",
                layers=names,
                tokens_per_block=1,
                page_bytes=page_bytes,
                row_bytes=row_bytes,
            ),
        ),
        allocations=(page_bytes * num_blocks,) * layers if pools else (total,),
        slots=slots,
        offload=Offload(
            blocks_per_chunk=(1,),
            tokens_per_chunk=(1,),
            chunk_bytes=(row_bytes,),
            vllm_bytes_per_chunk=row_bytes,
            vllm_num_chunks=None,
            replicated=False,
        ),
    )


@frozen
class Took:
    wall_s: float
    cpu_s: float


def timed(act: Callable[[], object], device: torch.device) -> Took:
    cpu_s, wall_s = time.thread_time(), time.perf_counter()
    act()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return Took(time.perf_counter() - wall_s, time.thread_time() - cpu_s)


def best(rounds: list[Took]) -> Took:
    return Took(min(took.wall_s for took in rounds), min(took.cpu_s for took in rounds))


def measure(case: tuple[str, int, int], args: argparse.Namespace) -> Iterator[str]:
    layout, layers, page_bytes = case
    row = layers * page_bytes
    blocks = (args.mib << 20) // row
    plan = plan_of(layout, layers, page_bytes, blocks)
    cache = allocate(plan, args.device)
    device = cache.device
    twin = torch.zeros(blocks * row, dtype=torch.uint8, device=device)
    budget = blocks * row
    with OffloadEngine(
        plan, cache, [HostTier(budget_bytes=budget)], threads=1, in_flight_bytes=2 * budget
    ) as engine:
        host = torch.from_numpy(engine.memory.bytes)
        mover = make_mover([rows_of(cache, 0)], engine.memory)
        names = ("big copy", "mover", "engine")
        took: dict[tuple[str, str], list[Took]] = {}
        for _ in range(args.rounds):
            ids = random.sample(range(blocks), blocks)
            moves = [Move(0, [block], ((at * row, row),)) for at, block in enumerate(ids)]
            keys = [os.urandom(16) + bytes(4) for _ in ids]
            for kind in (Kind.STORE, Kind.LOAD):
                to, source = (host, twin) if kind is Kind.STORE else (twin, host)
                acts = (
                    partial(to.copy_, source),
                    partial(move, mover, kind, moves),
                    partial(run_jobs, engine, kind, keys, ids),
                )
                for name, act in zip(names, acts, strict=True):
                    took.setdefault((kind.value, name), []).append(timed(act, device))
            engine.reset()
        for kind in ("store", "load"):
            limit, mine, whole = (best(took[kind, name]) for name in names)
            gib_s = blocks * row / limit.wall_s / (1 << 30)
            yield (
                f"{layout:12} {row // KIB:5} KiB rows of {page_bytes // KIB:5} {kind:5}  "
                f"big copy {gib_s:6.2f} GiB/s   mover {limit.wall_s / mine.wall_s:5.2f}"
                f" (cpu {limit.cpu_s / mine.cpu_s:5.2f})"
                f"   engine {limit.wall_s / whole.wall_s:5.2f}"
            )


def run_jobs(engine: OffloadEngine, kind: Kind, keys: list[bytes], ids: list[int]) -> None:
    """Jobs of 16 chunks, at most four under way; the caller submits the next while workers copy."""
    act = engine.store if kind is Kind.STORE else engine.load
    jobs: deque[Job] = deque()
    for at in range(0, len(keys), 16):
        if len(jobs) == 4:
            finish(engine, jobs.popleft())
        jobs.append(act(keys[at : at + 16], [[block] for block in ids[at : at + 16]]))
    for job in jobs:
        finish(engine, job)


def finish(engine: OffloadEngine, job: Job) -> None:
    engine.wait(job)
    assert job.succeeded


def move(mover: Mover, kind: Kind, moves: list[Move], step: int | None = None) -> None:
    """The copies alone, without books or threads."""
    act = mover.store if kind is Kind.STORE else mover.load
    step = step or len(moves)
    for at in range(0, len(moves), step):
        act(moves[at : at + step], mover.fence())


def overhead(args: argparse.Namespace, threads: int) -> str:
    """What the engine adds to the copies of jobs of 16 chunks of 1 MiB: in a stream, and alone."""
    row = 1 << 20
    blocks = args.mib // 16 * 16
    plan = plan_of("packed", 1, row, blocks)
    cache = allocate(plan, args.device)
    budget = blocks * row
    took: dict[str, list[Took]] = {}
    tier = HostTier(budget_bytes=budget)
    with OffloadEngine(plan, cache, [tier], threads=threads, in_flight_bytes=2 * budget) as engine:
        mover = make_mover([rows_of(cache, 0)], engine.memory)
        ids = random.sample(range(blocks), blocks)
        moves = [Move(0, [block], ((at * row, row),)) for at, block in enumerate(ids)]
        for _ in range(args.rounds):
            keys = [os.urandom(16) + bytes(4) for _ in range(STREAM * blocks)]
            acts = {
                "plain": partial(move, mover, Kind.STORE, moves * STREAM, 16),
                "stream": partial(run_jobs, engine, Kind.STORE, keys, ids * STREAM),
                "one": partial(move, mover, Kind.STORE, moves[:16]),
                "alone": partial(run_jobs, engine, Kind.STORE, keys[:16], ids[:16]),
            }
            for name, act in acts.items():
                took.setdefault(name, []).append(timed(act, cache.device))
    per_job = 1e6 / (STREAM * blocks // 16)
    us = {name: statistics.median(each.wall_s for each in rounds) for name, rounds in took.items()}
    return (
        f"job of 16 x 1 MiB, workers: {threads}, medians: in a stream {us['plain'] * per_job:.0f} "
        f"us of copies, the engine adds {us['stream'] / us['plain'] - 1:.1%}; one alone "
        f"{us['one'] * 1e6:.0f} us, the engine adds {(us['alone'] - us['one']) * 1e6:.0f} us; the "
        "caller's own time, most of it beside the copies, "
        f"{best(took['stream']).cpu_s * per_job:.0f} us a job"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--busy", action="store_true", help="with a thread that computes in Python")
    args = parser.parse_args()
    torch.set_num_threads(1)
    stop = threading.Event()
    if args.busy:
        threading.Thread(
            target=lambda: [None for _ in iter(stop.is_set, True)], daemon=True
        ).start()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    for case in CASES:
        for line in measure(case, args):
            print(line, flush=True)
    for threads in (1, 2):
        print(overhead(args, threads), flush=True)
    stop.set()


if __name__ == "__main__":
    main()
