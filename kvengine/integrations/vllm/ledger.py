"""The scheduler's side without vLLM: what is where, who waits for what, what may be evicted.

Everything is bookkeeping; the only bytes that move here are those between host memory and the
tiers behind it. Single owner: vLLM calls a manager from one thread at a time.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

from kvengine.integrations.vllm.behind import Behind
from kvengine.integrations.vllm.jobs import Board, Jobs
from kvengine.runtime.admission import Admission
from kvengine.runtime.places import Place
from kvengine.runtime.pool import Found, HostPool
from kvengine.runtime.tiers.base import Tier

__all__ = ["Answer", "Event", "Ledger", "Order"]

_HOLD_S = 30.0
"""How long a chunk that came up from a tier is kept for the request that waits for it."""


_COUNTS = (
    "lookup_hits",
    "lookup_misses",
    "stored_chunks",
    "stored_bytes",
    "loaded_chunks",
    "loaded_bytes",
    "evicted_chunks",
    "refused_chunks",
    "failed_stores",
)


class Answer(enum.IntEnum):
    """Whether a chunk can be loaded."""

    MISS = 0
    HIT = 1
    PENDING = 2
    """It will be: on its way from the device or from a tier."""
    RETRY = 3
    """Not known yet whether a tier has it."""


_FOUND_HIT, _FOUND_PENDING, _FOUND_MISS = Found.HIT, Found.PENDING, Found.MISS
_MISS, _HIT, _PENDING, _RETRY = Answer.MISS, Answer.HIT, Answer.PENDING, Answer.RETRY


class Order(NamedTuple):
    """What the ranks are to do: the places of the chunks, in order, and the job's ticket."""

    ticket: int
    keys: list[bytes]
    places: Sequence[Place]
    evicted: list[bytes]


class Event(NamedTuple):
    """Chunks became loadable from host memory, or left it; or a tier took them."""

    keys: Sequence[bytes]
    removed: bool
    tier: int | None = None


class Ledger:
    """The books of one engine's host memory; chunks hold the bytes of all ranks.

    ``writers`` is how many ranks store a chunk: 1 where all hold the same bytes. What
    ``announced`` tiers take makes an event too.
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
        announced: Collection[int] = (),
    ) -> None:
        self.pool = pool
        self.behind = Behind(pool, data, tiers, announced)
        self._jobs = Jobs(board)
        self._readers = board.num_ranks
        self._writers = writers
        self._admission = Admission(store_threshold)
        self._held: dict[str, list[bytes]] = {}
        self._held_until: dict[str, float] = {}
        self._events: list[Event] = []
        self._tidied = False
        self._bytes_of = {
            group.to_bytes(4, "big"): size for group, size in enumerate(pool.chunk_bytes)
        }
        self._only_bytes = pool.chunk_bytes[0] if len(set(pool.chunk_bytes)) == 1 else 0
        self.changed = True
        """Whether :meth:`values` are worth a report; set back by who reads them.

        A job that begins is not: its end follows, and reports cost more than jobs.
        """
        self.counts = dict.fromkeys(_COUNTS, 0)

    def lookup(self, key: bytes, request: str, allowed: Collection[int]) -> Answer:
        """Whether a chunk can be loaded; asks the ``allowed`` tiers for one that is not here."""
        if not self._tidied:
            self._tidy()
        found = self.pool.lookup_one(key)
        if found is _FOUND_HIT and not self._jobs.full:
            self.changed = True
            self.counts["lookup_hits"] += 1
            return _HIT
        if found is _FOUND_PENDING:
            self.behind.wait_for(key, request)
            return _PENDING
        absent = found is _FOUND_MISS  # a hit without a ticket is a miss
        coming = self.behind.find(key, request, allowed) if allowed and absent else False
        if coming is None:
            return _RETRY
        if coming:
            return _PENDING
        self.changed = True
        self.counts["lookup_misses"] += 1
        return _MISS

    def touch(self, keys: Sequence[bytes]) -> None:
        """The chunks of a prefix were used."""
        self.pool.touch(keys)

    def prepare_load(self, keys: Sequence[bytes], request: str) -> Order | None:
        """Pin chunks that answered ``HIT``; None when one of them is gone or no ticket is free."""
        if self._jobs.full:
            return None
        places = self.pool.prepare_load(keys)
        if None in places:
            pinned = zip(keys, places, strict=True)
            self.pool.complete_load([key for key, place in pinned if place is not None])
            return None
        if request in self._held:
            self._let_go(request)
        job = self._jobs.load(keys, request, ranks=self._readers)
        return Order(job.ticket, list(keys), cast("Sequence[Place]", places), [])

    def complete_load(self, keys: Collection[bytes], request: str) -> None:
        """Every rank has loaded the chunks of a job of this request."""
        job = self._jobs.loaded(keys, request)
        if job is None:
            return
        self.changed = True
        self.counts["loaded_chunks"] += len(job.keys)
        self.counts["loaded_bytes"] += self._bytes(job.keys)
        self.pool.complete_load(job.keys)

    def prepare_store(self, keys: Sequence[bytes]) -> Order | None:
        """Make room for chunks that are not here; None when none of the wanted ones has any.

        What is given room is in the order of ``keys``; nothing of ``keys`` is evicted.
        """
        self._tidy()
        offered = keys if self._admission.open else [key for key in keys if self._admits(key)]
        if self._jobs.full:
            return None
        prepared = self.pool.prepare_store(offered)
        if prepared.present:
            self.pool.touch(prepared.present)  # in use, though the device had them
        self.counts["refused_chunks"] += len(prepared.refused)
        if prepared.evicted:
            self._left(prepared.evicted)
        if not prepared.keys:
            self.changed = True
            return None if prepared.refused else Order(-1, [], [], prepared.evicted)
        job = self._jobs.store(prepared.keys, ranks=self._writers)
        return Order(job.ticket, prepared.keys, prepared.places, prepared.evicted)

    def complete_store(self, keys: Collection[bytes], success: bool = True) -> None:
        """Every rank is through with the store of these chunks; whether well is on the board."""
        self.changed = True
        for job, done in self._jobs.stored(keys):
            good = done and success
            self.pool.complete_store(job.keys, success=good)
            if not good:
                self.counts["failed_stores"] += 1
                continue
            self.counts["stored_chunks"] += len(job.keys)
            self.counts["stored_bytes"] += self._bytes(job.keys)
            self._events.append(Event(list(job.keys), False))
            if self.behind.tiers:
                self.behind.write(job.keys)

    def finish(self, request: str) -> None:
        """A request is over: nothing is kept for it any more."""
        if request in self._held:
            self._let_go(request)

    def end_step(self) -> None:
        """Begin what the look-ups of a step asked of the tiers, and note what came."""
        if self.behind.busy:
            self.behind.start()
            if self.behind.evicted:
                self._left(self.behind.evicted)
                self.behind.evicted = []
        self._tidy()
        self._tidied = False

    def reset(self) -> None:
        """Forget every chunk; places come back when the ranks and tiers are through with them."""
        self.changed = True
        for request in list(self._held):
            self._let_go(request)
        self.pool.reset()
        self.behind.forget()
        self._jobs.abandon()
        self._events.clear()

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def announcing(self) -> bool:
        """Whether something is under way that will make an event."""
        return bool(self.behind.announced) and self.behind.busy

    def values(self) -> list[float]:
        """Every metric, in the order of :data:`.metrics.METRICS`; tier by tier behind the rest."""
        books = self.pool.stats()
        values: list[float] = [
            books.capacity_bytes,
            books.resident_bytes,
            books.resident_chunks,
            books.pinned_bytes + books.pending_bytes,
            *self.counts.values(),
        ]
        for index, counted in enumerate(self.behind.counts):
            values += counted.values()
            values.append(self.behind.in_service(index))
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

    def _bytes(self, keys: Sequence[bytes]) -> int:
        if self._only_bytes:
            return self._only_bytes * len(keys)
        bytes_of = self._bytes_of
        return sum([bytes_of[key[-4:]] for key in keys])

    def _left(self, evicted: list[bytes]) -> None:
        self.counts["evicted_chunks"] += len(evicted)
        self._events.append(Event(evicted, True))

    def _let_go(self, request: str) -> None:
        """The chunks that came up for a request may leave again."""
        self.pool.complete_load(self._held.pop(request))
        del self._held_until[request]

    def _tidy(self) -> None:
        """Note finished transfers, give places of abandoned jobs back, end holds that are old."""
        self._tidied = True
        if self.behind.busy:
            self.changed = True
            self.behind.poll()
            self._hold_arrived()
            written, self.behind.written = self.behind.written, []
            self._events += [Event(keys, False, tier) for tier, keys in written]
        if self._jobs.abandoned:
            for job in self._jobs.finished():
                self.changed = True
                if job.stores:
                    self.pool.complete_store(job.keys, success=False)
                else:
                    self.pool.complete_load(job.keys)
        if self._held:
            now = time.monotonic()
            for request in [r for r, until_s in self._held_until.items() if until_s < now]:
                self._let_go(request)

    def _hold_arrived(self) -> None:
        """Keep what came up from a tier for the request that waits for it."""
        arrived, self.behind.arrived = self.behind.arrived, []
        for key, requests in arrived:
            self._events.append(Event([key], False))
            request = min(requests)
            self._held.setdefault(request, []).append(key)
            self._held_until[request] = time.monotonic() + _HOLD_S
