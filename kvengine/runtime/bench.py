"""``kvengine bench``: the real engine on a scaled-down cache, every byte verified.

Each figure stands beside the limit measured in the same run, alternating with it: one big copy of
the same bytes between the device and the same host memory. Each copies with one thread, the engine
with one worker instead of its usual two. Both are given as their best round:
what else runs on the machine only ever takes time. A run takes ``memory_bytes``, in thirds:
the cache, host memory, and the other end of the big copy; 64 MiB more for a tier's raw storage.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from attrs import asdict, evolve, frozen

from kvengine.plan.plan import Offload, Plan
from kvengine.runtime.books import Bookkeeping, measure_books, measure_usable_share
from kvengine.runtime.cache import Cache, allocate
from kvengine.runtime.engine import HostTier, OffloadEngine
from kvengine.runtime.jobs import Job, Kind
from kvengine.runtime.shrink import shrink
from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier, TierError
from kvengine.runtime.tiers.raw import Raw

__all__ = ["BenchError", "BenchReport", "Progress", "Transfer", "run_bench"]

Progress = Callable[[str, float], None]
"""Told what is being measured, and which share of the whole is done, 0 to 1."""

_JOB_BYTES = 16 << 20
_TIER_BYTES = 64 << 20
_LEAST_ROUNDS = 3


class BenchError(AssertionError):
    """A byte came back wrong: the engine is broken, and no figure counts."""


@frozen(kw_only=True)
class Transfer:
    """One group in one direction, the best of many rounds; ``ratio`` is to the best big copy."""

    tier: str
    group: int
    layout: str
    direction: str
    bytes: int
    seconds: float
    limit_bytes_per_s: float | None
    ratio: float | None


@frozen(kw_only=True)
class BenchReport:
    """What a run found. ``usable_share`` is payload by budget, full, under a shifting mix."""

    usable_share: float
    transfers: tuple[Transfer, ...]
    bookkeeping: tuple[Bookkeeping, ...]
    verified_bytes: int
    memory_bytes: int
    device: str
    tier: str | None = None
    """The tier behind host memory: where it is and how it was used."""

    def to_dict(self) -> dict[str, Any]:
        """The report as ``bench --json`` prints it (``version`` 1)."""
        facts = {
            "version": 1,
            "usable_share": round(self.usable_share, 6),
            "transfers": [asdict(transfer) for transfer in self.transfers],
            "bookkeeping": [asdict(books) for books in self.bookkeeping],
        }
        return facts if self.tier is None else {**facts, "tier": self.tier}


def run_bench(
    plan: Plan,
    also: Sequence[Plan] = (),
    *,
    device: str = "cpu",
    tier: Tier | None = None,
    raw: Raw | None = None,
    memory_bytes: int = 384 << 20,
    seconds: float = 10.0,
    book_chunks: int = 10_000,
    progress: Progress | None = None,
) -> BenchReport:
    """Measure a plan, and the same model in other layouts (``also``).

    Transfers take about ``seconds`` in all. With ``tier`` some chunks go there and come back, too,
    each time beside ``raw``, its storage without it; the bench closes the tier. Raises
    :class:`BenchError` when a byte comes back wrong, TierError when the tier fails.
    """
    tell = progress or (lambda what, share: None)
    plans = [_chunked(_stage(each)) for each in (plan, *also)]
    per_plan = seconds / len(plans)
    transfers: list[Transfer] = []
    verified = 0
    for number, each in enumerate(plans):
        with _Run(each, device, memory_bytes) as run:
            for group in range(len(each.groups)):
                share = 0.9 * (number + group / len(each.groups)) / len(plans)
                tell(f"{each.layout}: group {group}", share)
                transfers += run.measure(group, per_plan / len(each.groups))
                if tier is not None and not number:
                    transfers += run.measure_tier(group, tier, raw)
            verified += run.verified_bytes
    described = raw.describe() if raw is not None else None
    if tier is not None:
        tier.close()
    tell("bookkeeping", 0.9)
    chunk_bytes = _offload(plans[0]).chunk_bytes
    report = BenchReport(
        usable_share=measure_usable_share(chunk_bytes),
        transfers=tuple(transfers),
        bookkeeping=tuple(measure_books(chunk_bytes, book_chunks)),
        verified_bytes=verified,
        memory_bytes=memory_bytes,
        device=device,
        tier=described,
    )
    tell("done", 1.0)
    return report


def _stage(plan: Plan) -> Plan:
    """The plan of one rank: of a pipeline, its first stage."""
    return plan if plan.ranks is None else plan.ranks[0]


def _offload(plan: Plan) -> Offload:
    assert isinstance(plan.offload, Offload)
    return plan.offload


def _chunked(plan: Plan) -> Plan:
    """The plan with chunks of one block, if it has none of its own."""
    if isinstance(plan.offload, Offload):
        return plan
    rows = tuple(group.row_bytes for group in plan.groups)
    tokens = tuple(group.tokens_per_block for group in plan.groups)
    return evolve(
        plan,
        offload=Offload(
            blocks_per_chunk=(1,) * len(rows),
            tokens_per_chunk=tokens,
            chunk_bytes=rows,
            vllm_bytes_per_chunk=max(rows),
            vllm_num_chunks=None,
            replicated=False,
        ),
    )


class _Run:
    """One layout: a cache, an engine and the other end of the big copy."""

    def __init__(self, plan: Plan, device: str, memory_bytes: int) -> None:
        third = memory_bytes // 3
        least = max(_offload(plan).blocks_per_chunk)
        blocks = max(least, min(plan.num_blocks, third // plan.bytes_per_block))
        self.plan = shrink(plan, min(blocks, plan.num_blocks))
        self.cache: Cache = allocate(self.plan, device)
        budget = max(third, *(2 * size for size in _offload(plan).chunk_bytes))
        self.engine = OffloadEngine(
            self.plan,
            self.cache,
            [HostTier(budget_bytes=budget)],
            threads=1,
            in_flight_bytes=2 * budget,
        )
        self.host = torch.from_numpy(self.engine.memory.bytes)
        self.twin = torch.zeros(budget, dtype=torch.uint8, device=device)
        self.intra_op = torch.get_num_threads()
        self.verified_bytes = 0

    def __enter__(self) -> _Run:
        torch.set_num_threads(1)
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.close()
        torch.set_num_threads(self.intra_op)

    def measure(self, group: int, seconds: float) -> list[Transfer]:
        """Store and load chunks of a group until the time is up."""
        offload = _offload(self.plan)
        size, per_chunk = offload.chunk_bytes[group], offload.blocks_per_chunk[group]
        count = min(self.plan.num_blocks // per_chunk, len(self.host) // size)
        total = count * size
        self._fill(group)
        stores: list[tuple[float, float]] = []
        loads: list[tuple[float, float]] = []
        until_s = time.perf_counter() + seconds
        while len(stores) < _LEAST_ROUNDS or time.perf_counter() < until_s:
            blocks = random.sample(range(count * per_chunk), count * per_chunk)
            chunks = [blocks[at : at + per_chunk] for at in range(0, len(blocks), per_chunk)]
            keys = [os.urandom(16) + group.to_bytes(4, "big") for _ in range(count)]
            limit = self._big_copy(total, store=True)
            stores.append((self._move(Kind.STORE, keys, chunks, size), limit))
            if len(loads) < 2:
                self._scribble(group)
            limit = self._big_copy(total, store=False)
            loads.append((self._move(Kind.LOAD, keys, chunks, size), limit))
            if len(loads) <= 2:
                self._verify(group, count * per_chunk)
            self.engine.reset()
        self._verify(group, count * per_chunk)
        name = self.plan.layout
        return [
            _transfer("host", group, name, "store", total, stores),
            _transfer("host", group, name, "load", total, loads),
        ]

    def measure_tier(self, group: int, tier: Tier, raw: Raw | None) -> list[Transfer]:
        """Put chunks of a group in a tier behind host memory, and get them back, batch by batch."""
        offload = _offload(self.plan)
        size, per_chunk = offload.chunk_bytes[group], offload.blocks_per_chunk[group]
        count = min(self.plan.num_blocks // per_chunk, max(1, _TIER_BYTES // size))
        chunks = [range(at * per_chunk, (at + 1) * per_chunk) for at in range(count)]
        puts: list[tuple[float, float]] = []
        gets: list[tuple[float, float]] = []
        self._fill(group)
        for _ in range(_LEAST_ROUNDS):
            keys = [os.urandom(16) + group.to_bytes(4, "big") for _ in range(count)]
            self._move(Kind.STORE, keys, chunks, size)
            found = [self.engine.pool.chunk(key) for key in keys]
            items = [
                (chunk.key, self.engine.memory.view(*chunk.place[0])) for chunk in found if chunk
            ]
            tier.resolve(keys, 60.0)  # as an engine asks for a prompt's chunks before it has them
            put_s = self._batches(tier.put, items, size)
            puts.append((put_s, _seconds(partial(raw.put, count, size) if raw else None)))
            for _, view in items:
                view[:] = bytes(size)
            get_s = self._batches(tier.get, items, size)
            gets.append((get_s, _seconds(partial(raw.get, count, size) if raw else None)))
            self._scribble(group)
            self._move(Kind.LOAD, keys, chunks, size)
            self._verify(group, count * per_chunk)
            tier.delete(keys)
            if raw is not None:
                raw.clear()
            self.engine.reset()
        name = self.plan.layout
        return [
            _transfer(tier.name, group, name, "store", count * size, puts),
            _transfer(tier.name, group, name, "load", count * size, gets),
        ]

    def _batches(
        self, act: Callable[[Sequence[Item]], Batch], items: Sequence[Item], size: int
    ) -> float:
        step = max(1, _JOB_BYTES // size)
        started_s = time.perf_counter()
        for at in range(0, len(items), step):
            batch = act(items[at : at + step])
            batch.wait_released(60.0)
            wrong = {its.value for its in batch.outcomes} - {Outcome.DONE.value}
            if wrong:
                raise TierError(f"the tier did not do its work: {', '.join(sorted(wrong))}")
        return time.perf_counter() - started_s

    def _move(
        self, kind: Kind, keys: Sequence[bytes], chunks: Sequence[Sequence[int]], size: int
    ) -> float:
        """Seconds from the first call until all jobs are done."""
        act = self.engine.store if kind is Kind.STORE else self.engine.load
        step = max(1, _JOB_BYTES // size)
        started_s = time.perf_counter()
        jobs: list[Job] = [
            act(keys[at : at + step], chunks[at : at + step]) for at in range(0, len(keys), step)
        ]
        for job in jobs:
            self.engine.wait(job)
        took_s = time.perf_counter() - started_s
        if not all(job.succeeded for job in jobs):
            raise BenchError(f"a {kind.value} did not succeed: {[job.failed for job in jobs]}")
        return took_s

    def _big_copy(self, num_bytes: int, *, store: bool) -> float:
        """Seconds of one copy between the twin and host memory."""
        host, twin = self.host[:num_bytes], self.twin[:num_bytes]
        if store:
            # What host memory holds is not needed: this copies into it.
            return _timed(lambda: host.copy_(twin), twin)
        return _timed(lambda: twin.copy_(host), twin)

    def _fill(self, group: int) -> None:
        for number, pages in self._layers(group):
            pages.copy_(_pattern(number, pages))

    def _scribble(self, group: int) -> None:
        for _, pages in self._layers(group):
            pages.fill_(0xA5)

    def _verify(self, group: int, blocks: int) -> None:
        for number, pages in self._layers(group):
            if not torch.equal(pages[:blocks], _pattern(number, pages)[:blocks]):
                raise BenchError(f"group {group} came back with wrong bytes in layer {number}")
            self.verified_bytes += blocks * pages.shape[1]

    def _layers(self, group: int) -> list[tuple[int, torch.Tensor]]:
        return [
            (number, self.cache.layers[slot.layer])
            for number, slot in enumerate(self.plan.slots)
            if slot.group == group
        ]


def _pattern(number: int, pages: torch.Tensor) -> torch.Tensor:
    """Bytes that differ from layer to layer, block to block, place to place."""
    generator = torch.Generator().manual_seed(number)
    words = -(-pages.shape[0] * pages.shape[1] // 8)
    noise = torch.empty(words, dtype=torch.int64).random_(generator=generator)
    return noise.view(torch.uint8)[: pages.numel()].view(pages.shape).to(pages.device)


def _seconds(act: Callable[[], object] | None) -> float:
    """How long it takes; 0 when there is nothing to do."""
    started_s = time.perf_counter()
    return (act(), time.perf_counter() - started_s)[1] if act else 0.0


def _timed(act: Callable[[], object], tensor: torch.Tensor) -> float:
    started_s = time.perf_counter()
    act()
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter() - started_s


def _transfer(
    tier: str,
    group: int,
    layout: str,
    direction: str,
    num_bytes: int,
    rounds: Sequence[tuple[float, float]],
) -> Transfer:
    seconds = min(took for took, _ in rounds)
    limit = min(limit for _, limit in rounds)  # 0: there was nothing to compare with
    return Transfer(
        tier=tier,
        group=group,
        layout=layout,
        direction=direction,
        bytes=num_bytes,
        seconds=seconds,
        limit_bytes_per_s=num_bytes / limit if limit else None,
        ratio=round(limit / seconds, 4) if limit else None,
    )
