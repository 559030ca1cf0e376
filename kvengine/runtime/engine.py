"""The offload engine: chunks of KV blocks go to host memory, and on to tiers behind it, and back.

Asynchronous: ``store`` and ``load`` return a job at once, worker threads copy. What can go wrong
with a chunk ends as an outcome of its job, never as an exception, and the worst outcome is a miss:
the chunk is forgotten and its place comes back. Exceptions are for calls that make no sense.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal

from attrs import field, frozen
from attrs.validators import ge, in_

from kvengine.plan.plan import Offload, Plan
from kvengine.runtime.cache import Cache
from kvengine.runtime.claims import Claims
from kvengine.runtime.copies import make_mover
from kvengine.runtime.gateway import Gateway
from kvengine.runtime.jobs import Job, Kind
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.places import Place
from kvengine.runtime.policies import POLICIES
from kvengine.runtime.pool import Found, HostPool, Span
from kvengine.runtime.prefix import host_tokens
from kvengine.runtime.rows import Move, rows_of
from kvengine.runtime.stats import EngineStats
from kvengine.runtime.tiers.base import Outcome, Tier
from kvengine.runtime.transfers import Fault, Slice, Transfers
from kvengine.units import ceil_div

__all__ = ["HostTier", "OffloadEngine"]

_log = logging.getLogger(__name__)

_SLICE_BYTES = 16 << 20
_LEAST_SLICE_BYTES = 2 << 20
_MANY_STORES = 1000
_POLL_S = 0.05


@frozen(kw_only=True)
class HostTier:
    """The host memory of one rank: how many bytes, and who may stay in them.

    ``memory`` is memory that exists already, such as this rank's part of a shared region.
    """

    budget_bytes: int = field(validator=ge(1))
    eviction_policy: str = field(default="lru", validator=in_(POLICIES))
    store_threshold: int = field(default=0, validator=ge(0))
    memory: HostMemory | None = None


class OffloadEngine:
    """Stores and loads the chunks of one rank. Thread-safe; a context manager.

    ``tiers`` are the host tier and what is behind it, nearest first; the engine closes them. A
    chunk goes on to the tiers behind when it is stored (``write="through"``) or when host memory
    runs low (``write="late"``). At most ``in_flight_bytes`` are queued or being copied; what is
    beyond is ``REFUSED`` at once. The caller prepares copies, ``threads`` copy and settle; those
    that are idle share a job. ``fault`` makes copies fail or wait, for tests.
    """

    def __init__(
        self,
        plan: Plan,
        cache: Cache,
        tiers: Sequence[HostTier | Tier],
        *,
        threads: int = 2,
        in_flight_bytes: int = 1 << 30,
        write: Literal["through", "late"] = "through",
        fault: Fault | None = None,
    ) -> None:
        if not isinstance(plan.offload, Offload):
            raise ValueError("the plan does not offload")
        hosts = [tier for tier in tiers if isinstance(tier, HostTier)]
        behind = [tier for tier in tiers if isinstance(tier, Tier)]
        if len(hosts) != 1 or len(hosts) + len(behind) != len(tiers) or tiers[0] is not hosts[0]:
            raise ValueError("the first tier, and no other, is a HostTier")
        host = hosts[0]
        self.plan = plan
        self.blocks_per_chunk = plan.offload.blocks_per_chunk
        self.memory = host.memory or HostMemory(host.budget_bytes)
        if self.memory.num_bytes < host.budget_bytes:
            raise ValueError(
                f"the host tier has {host.budget_bytes} bytes, its memory {self.memory.num_bytes}"
            )
        self.pool = HostPool(
            plan.offload.chunk_bytes,
            host.budget_bytes,
            policy=host.eviction_policy,
            store_threshold=host.store_threshold,
        )
        self._claims = Claims(in_flight_bytes)
        self._failures: Counter[str] = Counter()
        self._finished: deque[Job] = deque()
        self._closed = False
        self._lock = threading.RLock()
        rows = [rows_of(cache, group) for group in range(len(plan.groups))]
        self._mover = make_mover(rows, self.memory)
        self._gateway = Gateway(self.pool, self.memory, behind, self._lock, late=write == "late")
        self._transfers = Transfers(self._mover, self._on_slice, threads=threads, fault=fault)
        _log.info(
            "host tier: bytes=%d tokens=%d unit_bytes=%d chunk_bytes=%s policy=%s behind=%s",
            self.pool.places.capacity_bytes,
            host_tokens(plan, self.pool.places.capacity_bytes),
            self.pool.places.unit_bytes,
            list(self.pool.chunk_bytes),
            host.eviction_policy,
            [tier.name for tier in behind],
        )

    def __enter__(self) -> OffloadEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def lookup(self, keys: Sequence[bytes], spans: Sequence[Span] | None = None) -> list[Found]:
        """What is known of each chunk; with ``spans`` (first block, count), of a part of each.

        ``BEHIND`` chunks are in a tier behind host memory: a load brings them, and takes longer;
        ``prefetch`` brings them beforehand.
        """
        with self._lock:
            found = self.pool.lookup(keys, spans)
        if self._gateway.tiers and Found.MISS in found:
            self._gateway.look_behind(keys, found)
        return found

    def touch(self, keys: Sequence[bytes]) -> None:
        """The chunks of a prefix are in use elsewhere, and worth keeping."""
        with self._lock:
            self.pool.touch(keys)

    def store(
        self,
        keys: Sequence[bytes],
        blocks: Sequence[Sequence[int]],
        first_blocks: Sequence[int] | None = None,
    ) -> Job:
        """Copy chunks out of the cache: ``blocks[i]`` are the blocks of ``keys[i]``, in order.

        Fewer blocks than a chunk has, from its block ``first_blocks[i]`` on, make a chunk that is
        held in part: a hit for those blocks only, and not passed on to other tiers. Chunks become
        visible when their bytes are in host memory. On CUDA the copies wait for what the current
        stream has been given so far (case R02).
        """
        job = self._job(Kind.STORE, keys, blocks, first_blocks)
        with self._lock:
            self._begin(job)
            count = self._claims.room_for(job.sizes)
            prepared = self.pool.prepare_store(keys[:count], job.spans and job.spans[:count])
            if len(prepared.keys) == len(keys):
                self._launch(job, range(count), prepared.places)
            else:
                index_of = dict(zip(keys, range(count), strict=False))
                self._launch(job, [index_of[key] for key in prepared.keys], prepared.places)
                job.settle([index_of[key] for key in prepared.present], Outcome.DONE)
                self._refuse(job, [index_of[key] for key in prepared.refused])
                self._refuse(job, range(count, len(keys)))
        return job

    def load(
        self,
        keys: Sequence[bytes],
        blocks: Sequence[Sequence[int]],
        first_blocks: Sequence[int] | None = None,
    ) -> Job:
        """Copy chunks into the cache, whole or from their block ``first_blocks[i]`` on.

        Loads go before stores that wait. Chunks in tiers behind come through host memory. One that
        does not arrive is forgotten, so that the next lookup misses (case R19); its blocks then
        hold anything.
        """
        job = self._job(Kind.LOAD, keys, blocks, first_blocks)
        with self._lock:
            self._begin(job)
            count = self._claims.room_for(job.sizes)
            absent = self._pin(job, range(count))
            # Blocks and bytes of what is still to come are in use already.
            self._claim(job, absent)
            self._refuse(job, range(count, len(keys)))
        if absent:
            self._gateway.fetch(
                [keys[index] for index in absent],
                lambda outcomes: self._arrived(job, absent, outcomes),
            )
        return job

    def prefetch(self, keys: Sequence[bytes]) -> Job:
        """Bring chunks from the tiers behind into host memory."""
        with self._lock:
            self._check_open()
            job = Job(Kind.PREFETCH, keys, [()] * len(keys), self._finished.append)
        if keys:
            self._gateway.fetch(keys, lambda outcomes: self._settle(job, outcomes))
        else:
            job.finish()
        return job

    def poll(self) -> list[Job]:
        """The jobs that got done since the last call, oldest first; each is returned once."""
        self._gateway.poll()
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def wait(self, job: Job, timeout_s: float | None = None) -> bool:
        """Wait until a job is done; False when ``timeout_s`` was too short."""
        if not self._gateway.tiers:
            return job.wait(timeout_s)
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _POLL_S if until_s is None else min(_POLL_S, until_s - time.monotonic())
            if job.wait(left_s):
                return True
            if left_s < _POLL_S:
                return False
            self._gateway.poll()

    def cancel(self, job: Job) -> bool:
        """Take back what of a job has not begun: those chunks are ``REFUSED``.

        True when the job is done by that; otherwise something is being copied: wait for it.
        """
        job.cancelled = True
        self._take_back(self._transfers.withdraw(job))
        return job.done

    def reset(self) -> None:
        """Forget all chunks of host memory; what is on its way is forgotten when it arrives."""
        with self._lock:
            self.pool.reset()

    def stats(self) -> EngineStats:
        """What was done and is held."""
        tiers = tuple(tier.stats() for tier in self._gateway.tiers)
        with self._lock:
            host = self.pool.stats()
            load = self._transfers.stats(Kind.LOAD)
            return EngineStats(
                host=host,
                reserved_bytes=self.memory.mapped_bytes,
                in_flight_bytes=self._claims.in_flight_bytes,
                in_flight_limit_bytes=self._claims.limit_bytes,
                store=self._transfers.stats(Kind.STORE),
                load=load,
                promoted_chunks=self._gateway.promoted,
                demoted_chunks=self._gateway.demoted,
                failures=dict(self._failures),
                tiers=tiers,
                stores_without_hits=host.stores > _MANY_STORES and not load.chunks,
            )

    def close(self) -> None:
        """Cancel what has not begun, finish what has, end all threads; idempotent.

        Afterwards the tiers are closed, and no byte of the cache is touched any more.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for part in (waiting := self._transfers.withdraw()):
            part.job.cancelled = True
        self._take_back(waiting)
        self._gateway.close()
        self._transfers.close()
        self._mover.close()

    def _job(
        self,
        kind: Kind,
        keys: Sequence[bytes],
        blocks: Sequence[Sequence[int]],
        first_blocks: Sequence[int] | None,
    ) -> Job:
        """Check what a caller can get wrong (case R05)."""
        if len(blocks) != len(keys) or (first_blocks and len(first_blocks) != len(keys)):
            raise ValueError("keys, blocks and first blocks are lists of one length")
        if len(set(keys)) != len(keys):
            raise ValueError("a job names each chunk once")
        job = Job(kind, keys, blocks, self._finished.append)
        shapes = self.pool.shapes_of(keys)
        job.groups = [group for group, _ in shapes]
        job.sizes = [num_bytes for _, num_bytes in shapes]
        counts = [self.blocks_per_chunk[group] for group in job.groups]
        if first_blocks is not None or counts != [len(some) for some in blocks]:
            firsts = first_blocks or [0] * len(keys)
            job.spans = [
                None if len(some) == count else (first, len(some))
                for some, first, count in zip(blocks, firsts, counts, strict=True)
            ]
            _check_spans(blocks, firsts, counts)
        ids = [block for some in blocks for block in some]
        if ids and not 0 <= min(ids) <= max(ids) < self.plan.num_blocks:
            raise ValueError(
                f"block ids are 0 to {self.plan.num_blocks - 1}, not {min(ids)} to {max(ids)}"
            )
        return job

    # What follows is called with the lock held, if not said otherwise.

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the engine is closed")

    def _begin(self, job: Job) -> None:
        self._check_open()
        self._claims.check(job.blocks, write=job.kind is Kind.LOAD)
        self._transfers.directions[job.kind].jobs += 1
        job.fence = self._mover.fence()
        if not job.keys:
            job.finish()

    def _pin(self, job: Job, indices: Sequence[int]) -> list[int]:
        """Send the chunks that are in host memory on their way; which ones are not?"""
        spans = job.spans
        places = self.pool.prepare_load(
            [job.keys[index] for index in indices],
            None if spans is None else [spans[index] for index in indices],
        )
        found = zip(indices, places, strict=True)
        ready = [(index, place) for index, place in found if place is not None]
        self._launch(job, [index for index, _ in ready], [place for _, place in ready])
        return [index for index, place in zip(indices, places, strict=True) if place is None]

    def _launch(self, job: Job, indices: Sequence[int], places: Sequence[Place]) -> None:
        """Cut the chunks in slices and queue them."""
        if not indices:
            return
        self._claim(job, indices)
        groups, blocks = job.groups, job.blocks
        spans = job.spans or (None,) * len(groups)
        moves = [
            Move(groups[index], blocks[index], place, span[0] if (span := spans[index]) else 0)
            for index, place in zip(indices, places, strict=True)
        ]
        sizes = [job.sizes[index] for index in indices]
        slices = [
            Slice(job, indices[begin:end], moves[begin:end], num_bytes, job.fence)
            for begin, end, num_bytes in _cut(sizes, self._transfers.num_idle)
        ]
        for part in slices:
            part.open = slices
        self._transfers.submit(slices[::-1])

    def _claim(self, job: Job, indices: Iterable[int], *, back: bool = False) -> None:
        blocks = [block for index in indices for block in job.blocks[index]]
        num_bytes = sum([job.sizes[index] for index in indices])
        act = self._claims.give if back else self._claims.take
        act(blocks, num_bytes, write=job.kind is Kind.LOAD)

    def _arrived(self, job: Job, indices: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """Chunks have come into host memory from behind, or have not."""
        self._claim(job, indices, back=True)
        came = [i for i, outcome in zip(indices, outcomes, strict=True) if outcome is Outcome.DONE]
        gone = set(came if self._closed or job.cancelled else self._pin(job, came))
        for index, outcome in zip(indices, outcomes, strict=True):
            if index in gone:
                self._refuse(job, [index])
            elif outcome is not Outcome.DONE:
                self._failures[outcome.value] += 1
                job.settle([index], outcome)

    def _settle(self, job: Job, outcomes: Sequence[Outcome]) -> None:
        for index, outcome in enumerate(outcomes):
            if outcome is not Outcome.DONE:
                self._failures[outcome.value] += 1
            job.settle([index], outcome)

    def _refuse(self, job: Job, indices: Sequence[int]) -> None:
        if indices:
            self._failures[Outcome.REFUSED.value] += len(indices)
            job.settle(indices, Outcome.REFUSED)

    def _take_back(self, slices: Iterable[Slice]) -> None:
        for part in slices:
            self._on_slice(part, [Outcome.REFUSED] * len(part.moves))

    def _on_slice(self, part: Slice, outcomes: list[Outcome]) -> None:
        """A slice was copied, or withdrawn: bring the books up to date, then tell the job.

        The slices of a prefix are booked from its end, which leaves first (see ``HostPool``): one
        that is done early waits for those behind it. Called without the lock, from a worker.
        """
        booked: list[tuple[Slice, list[Outcome], list[bytes]]] = []
        with self._lock:
            part.outcomes = outcomes
            while part.open and (found := part.open[-1].outcomes) is not None:
                last = part.open.pop()
                booked.append((last, found, self._book(last, found)))
        for last, found, good in booked:
            if last.job.kind is Kind.STORE and good:
                self._gateway.pass_on(good)
            if len(good) == len(found):
                last.job.settle(last.indices, Outcome.DONE)
                continue
            for outcome in set(found):
                which = zip(last.indices, found, strict=True)
                last.job.settle([index for index, its in which if its is outcome], outcome)

    def _book(self, part: Slice, outcomes: Sequence[Outcome]) -> list[bytes]:
        """Enter what became of a slice; the keys of what arrived."""
        job = part.job
        keys = good = [job.keys[index] for index in part.indices]
        self._claim(job, part.indices, back=True)
        if outcomes.count(Outcome.DONE) < len(outcomes):
            good = self._not_arrived(job, keys, outcomes)
        if job.kind is Kind.STORE:
            self.pool.complete_store(good)
        else:
            self.pool.complete_load(keys)
        return good

    def _not_arrived(
        self, job: Job, keys: Sequence[bytes], outcomes: Sequence[Outcome]
    ) -> list[bytes]:
        """Forget the chunks that failed; the other keys."""
        bad = [key for key, its in zip(keys, outcomes, strict=True) if its is not Outcome.DONE]
        self._failures.update(its.value for its in outcomes if its is not Outcome.DONE)
        if job.kind is Kind.STORE:
            self.pool.complete_store(bad, success=False)
        else:
            failed = zip(keys, outcomes, strict=True)
            self.pool.discard(key for key, its in failed if its is Outcome.FAILED)
        return [key for key, its in zip(keys, outcomes, strict=True) if its is Outcome.DONE]


def _cut(sizes: Sequence[int], idle: int) -> list[tuple[int, int, int]]:
    """Where slices of chunks of these sizes begin and end, and their bytes.

    So many workers have nothing to do: they share a job.
    """
    total = sum(sizes)
    most_bytes = _SLICE_BYTES
    if idle > 1:
        most_bytes = max(_LEAST_SLICE_BYTES, min(_SLICE_BYTES, ceil_div(total, idle)))
    if total <= most_bytes:
        return [(0, len(sizes), total)]
    cuts: list[tuple[int, int, int]] = []
    begin = num_bytes = 0
    for end, size in enumerate(sizes, start=1):
        num_bytes += size
        if num_bytes >= most_bytes or end == len(sizes):
            cuts.append((begin, end, num_bytes))
            begin, num_bytes = end, 0
    return cuts


def _check_spans(
    blocks: Sequence[Sequence[int]], firsts: Sequence[int], counts: Sequence[int]
) -> None:
    for index, (some, first, count) in enumerate(zip(blocks, firsts, counts, strict=True)):
        if not some or first < 0 or first + len(some) > count:
            raise ValueError(
                f"chunk {index} has blocks 0 to {count - 1}, not {len(some)} from {first} on"
            )
