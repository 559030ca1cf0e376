"""The scheduler's side without vLLM: what is where, who waits for what, what may be evicted.

Everything is bookkeeping; the only bytes that move here are those between host memory and the
tiers behind it. Single owner: vLLM calls a manager from one thread at a time.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Collection, Sequence

from attrs import frozen

from kvengine.integrations.vllm.behind import Behind
from kvengine.integrations.vllm.jobs import Board, Jobs
from kvengine.runtime.admission import Admission
from kvengine.runtime.places import Place
from kvengine.runtime.pool import Found, HostPool
from kvengine.runtime.tiers.base import Tier

__all__ = ["Answer", "Event", "Ledger", "Order"]

_HOLD_S = 30.0
"""How long a chunk that came up from a tier is kept for the request that waits for it."""


class Answer(enum.Enum):
    """Whether a chunk can be loaded."""

    MISS = "miss"
    HIT = "hit"
    PENDING = "pending"
    """It will be: on its way from the device or from a tier."""
    RETRY = "retry"
    """Not known yet whether a tier has it."""


@frozen
class Order:
    """What the ranks are to do: the places of the chunks, in order, and the job's ticket."""

    ticket: int
    keys: list[bytes]
    places: list[Place]
    evicted: list[bytes]


@frozen
class Event:
    """Chunks became loadable from host memory, or left it."""

    keys: list[bytes]
    removed: bool


class Ledger:
    """The books of one engine's host memory; chunks hold the bytes of all ranks.

    ``writers`` is how many ranks store a chunk: 1 where all hold the same bytes.
    """

    def __init__(
        self,
        pool: HostPool,
        data: memoryview,
        board: Board,
        tiers: Sequence[Tier] = (),
        *,
        writers: int,
        store_threshold: int = 0,
    ) -> None:
        self.pool = pool
        self.behind = Behind(pool, data, tiers)
        self._jobs = Jobs(board)
        self._readers = board.num_ranks
        self._writers = writers
        self._admission = Admission(store_threshold)
        self._held: dict[str, list[bytes]] = {}
        self._held_until: dict[str, float] = {}
        self._events: list[Event] = []
        self._tidied = False
        self.counts = dict.fromkeys(
            (
                "lookup_hits",
                "lookup_misses",
                "stored_chunks",
                "stored_bytes",
                "loaded_chunks",
                "loaded_bytes",
                "evicted_chunks",
                "refused_chunks",
                "failed_stores",
            ),
            0,
        )

    def lookup(self, key: bytes, request: str, allowed: Collection[int]) -> Answer:
        """Whether a chunk can be loaded; asks the ``allowed`` tiers for one that is not here."""
        if not self._tidied:
            self._tidy()
        found = Found.MISS if self._jobs.full else self.pool.lookup_one(key)
        if found is Found.HIT:
            self.counts["lookup_hits"] += 1
            return Answer.HIT
        if found is Found.PENDING:
            self.behind.wait_for(key, request)
            return Answer.PENDING
        coming = self.behind.find(key, request, allowed) if allowed else False
        if coming is None:
            return Answer.RETRY
        if coming:
            return Answer.PENDING
        self.counts["lookup_misses"] += 1
        return Answer.MISS

    def touch(self, keys: Sequence[bytes]) -> None:
        """The chunks of a prefix were used."""
        self.pool.touch(keys)

    def prepare_load(self, keys: Sequence[bytes], request: str) -> Order | None:
        """Pin chunks that answered ``HIT``; None when one of them is gone or no ticket is free."""
        places = [] if self._jobs.full else self.pool.prepare_load(keys)
        pinned = [key for key, place in zip(keys, places, strict=False) if place is not None]
        if len(pinned) < len(keys):
            self.pool.complete_load(pinned)
            return None
        self.pool.complete_load(self._held.pop(request, []))
        self._held_until.pop(request, None)
        job = self._jobs.load(keys, request, ranks=self._readers)
        return Order(job.ticket, list(keys), [place for place in places if place], [])

    def complete_load(self, keys: Collection[bytes], request: str) -> None:
        """Every rank has loaded the chunks of a job of this request."""
        job = self._jobs.loaded(keys, request)
        if job is None:
            return
        self.counts["loaded_chunks"] += len(job.keys)
        self.counts["loaded_bytes"] += self._bytes(job.keys)
        self.pool.complete_load(job.keys)

    def prepare_store(self, keys: Sequence[bytes]) -> Order | None:
        """Make room for chunks that are not here; None when none of the wanted ones has any.

        What is given room is in the order of ``keys``; nothing of ``keys`` is evicted.
        """
        self._tidy()
        offered = [key for key in keys if self._admits(key)]
        if self._jobs.full:
            return None
        prepared = self.pool.prepare_store(offered)
        self.pool.touch(prepared.present)  # in use, though the device had them
        self.counts["refused_chunks"] += len(prepared.refused)
        self._left(prepared.evicted)
        if not prepared.keys:
            return None if prepared.refused else Order(-1, [], [], prepared.evicted)
        job = self._jobs.store(prepared.keys, ranks=self._writers)
        return Order(job.ticket, prepared.keys, prepared.places, prepared.evicted)

    def complete_store(self, keys: Collection[bytes], success: bool = True) -> None:
        """Every rank is through with the store of these chunks; whether well is on the board."""
        for job, done in self._jobs.stored(keys):
            good = done and success
            resident = [key for key in job.keys if self.pool.chunk(key) is not None]
            self.pool.complete_store(job.keys, success=good)
            if not good:
                self.counts["failed_stores"] += 1
                continue
            self.counts["stored_chunks"] += len(job.keys)
            self.counts["stored_bytes"] += self._bytes(job.keys)
            if resident:
                self._events.append(Event(resident, removed=False))
                self.behind.write(resident)

    def finish(self, request: str) -> None:
        """A request is over: nothing is kept for it any more."""
        self.pool.complete_load(self._held.pop(request, []))
        self._held_until.pop(request, None)

    def end_step(self) -> None:
        """Begin what the look-ups of a step asked of the tiers, and note what came."""
        self.behind.start()
        self._left(self.behind.evicted)
        self.behind.evicted = []
        self._tidy()
        self._tidied = False

    def reset(self) -> None:
        """Forget every chunk; places come back when the ranks and tiers are through with them."""
        for request in list(self._held):
            self.finish(request)
        self.pool.reset()
        self.behind.forget()
        self._jobs.abandon()
        self._events.clear()

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def busy(self) -> bool:
        """Whether a tier works on something that a request may wait for."""
        return self.behind.busy

    def values(self) -> dict[tuple[str, str], float]:
        """Every metric by name and tier."""
        books = self.pool.stats()
        values: dict[tuple[str, str], float] = {
            ("host_capacity_bytes", ""): books.capacity_bytes,
            ("host_resident_bytes", ""): books.resident_bytes,
            ("host_resident_chunks", ""): books.resident_chunks,
            ("host_pinned_bytes", ""): books.pinned_bytes + books.pending_bytes,
            **{(name, ""): count for name, count in self.counts.items()},
        }
        for tier, counted in zip(self.behind.tiers, self.behind.counts, strict=True):
            values |= {(name, tier.name): count for name, count in counted.items()}
            values["tier_in_service", tier.name] = float(tier.stats().in_service)
        return values

    def close(self, timeout_s: float = 10.0) -> None:
        """End the tiers; chunks that they took are written first, for at most ``timeout_s``."""
        self.behind.close(timeout_s)

    def _admits(self, key: bytes) -> bool:
        """Whether a chunk is here already, which keeps it here, or was offered often enough."""
        if self.pool.lookup_one(key) is not Found.MISS or self._admission.admits(key):
            return True
        self.counts["refused_chunks"] += 1
        return False

    def _bytes(self, keys: Collection[bytes]) -> int:
        return sum(self.pool.chunk_bytes[self.pool.group_of(key)] for key in keys)

    def _left(self, evicted: list[bytes]) -> None:
        if evicted:
            self.counts["evicted_chunks"] += len(evicted)
            self._events.append(Event(evicted, removed=True))

    def _tidy(self) -> None:
        """Note finished transfers, give places of abandoned jobs back, end holds that are old."""
        self._tidied = True
        self.behind.poll()
        now = time.monotonic()
        for key, requests in self.behind.arrived:
            self._events.append(Event([key], removed=False))
            request = min(requests)
            self._held.setdefault(request, []).append(key)
            self._held_until[request] = now + _HOLD_S
        self.behind.arrived = []
        for job in self._jobs.finished():
            if job.stores:
                self.pool.complete_store(job.keys, success=False)
            else:
                self.pool.complete_load(job.keys)
        for request in [r for r, until_s in self._held_until.items() if until_s < now]:
            self.finish(request)
