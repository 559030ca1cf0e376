"""The tier interface: places for chunks behind host memory, asked in batches, never in the way.

A tier answers at once or later, and never with an exception: trouble is an ``Outcome``, and what
is not ``DONE`` is a miss. Buffers stay the caller's; a tier reads or fills them in place, and a
caller may reuse one only when its batch is ``released`` (cases R01, R10, R21).
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import field, frozen

from kvengine.errors import KVEngineError

__all__ = ["Batch", "Item", "Outcome", "Tier", "TierError", "TierStats"]

_log = logging.getLogger(__name__)

Item = tuple[bytes, memoryview]
"""A chunk on the move: its key, and the host bytes (contiguous, exactly the group's payload)."""


class TierError(KVEngineError):
    """A tier that cannot be opened as configured; afterwards tiers raise nothing."""


class Outcome(enum.Enum):
    """What became of one chunk of a batch."""

    DONE = "done"
    """Get: the bytes are in the buffer, checksum verified. Put: stored, or there already."""
    MISS = "miss"
    """Get: the tier does not hold the chunk with these bytes and this length."""
    REFUSED = "refused"
    """Not tried: the queue is full, the tier is closed or out of service, or there is no room."""
    CORRUPT = "corrupt"
    """Get: the bytes found are not those that were stored; the tier has forgotten the chunk."""
    FAILED = "failed"
    """The device or the server failed."""
    TIMEOUT = "timeout"
    """The deadline passed first."""


class Batch:
    """The chunks of one ``put`` or ``get`` on their way, and what became of each.

    Two things happen to a batch, in this order: it is *done* when every outcome is known, at the
    latest at its deadline; it is *released* when no thread or device touches its buffers any more,
    which a device that hangs can delay beyond the deadline. Thread-safe.
    """

    __slots__ = (
        "_changed",
        "_holders",
        "_open",
        "_outcomes",
        "_when_done",
        "_when_released",
        "deadline_s",
        "keys",
    )

    def __init__(self, keys: Iterable[bytes], timeout_s: float) -> None:
        self.keys: tuple[bytes, ...] = tuple(keys)
        self.deadline_s = time.monotonic() + timeout_s
        self._outcomes: list[Outcome | None] = [None] * len(self.keys)
        self._open = len(self.keys)
        self._holders = 0
        self._changed = threading.Condition(threading.Lock())
        self._when_done: list[Callable[[Batch], None]] = []
        self._when_released: list[Callable[[Batch], None]] = []

    @property
    def done(self) -> bool:
        """Whether every outcome is known."""
        return self._open == 0

    @property
    def released(self) -> bool:
        """Whether the buffers are the caller's alone again; implies ``done``."""
        return self._open == 0 and self._holders == 0

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """One outcome per key, in the order of ``keys``; call it when the batch is ``done``."""
        outcomes = tuple(outcome for outcome in self._outcomes if outcome is not None)
        assert len(outcomes) == len(self.keys), "outcomes of a batch that is not done"
        return outcomes

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the batch is done, at most ``timeout_s`` and never beyond its deadline.

        Afterwards the batch is done, or ``timeout_s`` was shorter than the deadline and False is
        returned.
        """
        until_s = self.deadline_s
        if timeout_s is not None:
            until_s = min(until_s, time.monotonic() + timeout_s)
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0, max(0.0, until_s - time.monotonic()))
        self.expire()
        return self.done

    def wait_released(self, timeout_s: float) -> bool:
        """Wait until the buffers are free for reuse; False when ``timeout_s`` was too short."""
        until_s = time.monotonic() + timeout_s
        if not self.wait(timeout_s):
            return False
        with self._changed:
            left_s = max(0.0, until_s - time.monotonic())
            return self._changed.wait_for(lambda: self._holders == 0, left_s)

    def when_done(self, call: Callable[[Batch], None]) -> None:
        """Call ``call(batch)`` once when the batch is done, from whichever thread finds out."""
        with self._changed:
            if self._open:
                self._when_done.append(call)
                return
        self._run([call])

    def when_released(self, call: Callable[[Batch], None]) -> None:
        """Call ``call(batch)`` once when the buffers are free for reuse (after ``when_done``)."""
        with self._changed:
            if self._open or self._holders:
                self._when_released.append(call)
                return
        self._run([call])

    # What follows is for tiers.

    def hold(self) -> bool:
        """Begin to touch buffers; False, and nothing to drop, when the batch is done already."""
        if time.monotonic() >= self.deadline_s:
            self.expire()
        with self._changed:
            if not self._open:
                return False
            self._holders += 1
            return True

    def drop(self) -> None:
        """End what ``hold`` began."""
        with self._changed:
            self._holders -= 1
            calls = self._take_calls()
        self._run(calls)

    def settle(self, index: int, outcome: Outcome) -> None:
        """Say what became of the chunk at ``index``; the first word counts."""
        self.settle_many((index,), outcome)

    def settle_many(self, indices: Iterable[int], outcome: Outcome) -> None:
        """Say the same of several chunks."""
        with self._changed:
            for index in indices:
                if self._outcomes[index] is None:
                    self._outcomes[index] = outcome
                    self._open -= 1
            calls = self._take_calls()
        self._run(calls)

    def settle_all(self, outcome: Outcome) -> None:
        """Say the same of every chunk that nothing was said of."""
        self.settle_many(range(len(self.keys)), outcome)

    def expire(self) -> bool:
        """Turn what is open into ``TIMEOUT`` if the deadline has passed; True if it did."""
        if self._open and time.monotonic() >= self.deadline_s:
            self.settle_all(Outcome.TIMEOUT)
            return True
        return False

    def _take_calls(self) -> list[Callable[[Batch], None]]:
        calls: list[Callable[[Batch], None]] = []
        if self._open == 0:
            calls += self._when_done
            self._when_done = []
            if self._holders == 0:
                calls += self._when_released
                self._when_released = []
            self._changed.notify_all()
        return calls

    def _run(self, calls: list[Callable[[Batch], None]]) -> None:
        for call in calls:
            try:
                call(self)
            except Exception:
                _log.exception("a callback of a batch failed")


@frozen(kw_only=True)
class TierStats:
    """Counters since opening, and gauges, of one tier.

    ``used_bytes`` counts everything the tier occupies, ``resident_bytes`` the payload of the
    chunks that can be read. A store that others write to knows neither (None).
    """

    name: str
    in_service: bool = True
    outages: int = 0
    """How often the tier was taken out of service."""
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    resident_bytes: int | None = None
    resident_chunks: int | None = None
    queued_bytes: int = 0
    stores: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    stored_bytes: int = 0
    loaded_bytes: int = 0
    store_seconds: float = 0.0
    load_seconds: float = 0.0
    failures: Mapping[str, int] = field(factory=dict)
    """How often what went wrong: an ``Outcome`` value, or ``errno`` name such as ``"ENOSPC"``."""
    io_bytes: Mapping[str, int] = field(factory=dict)
    """Bytes per way of I/O: ``"direct"``, ``"buffered"``, and ``"copied"`` through a bounce."""
    io_sizes: Mapping[int, int] = field(factory=dict)
    """I/O calls by size: power of two not below it -> how many."""


class Tier(ABC):
    """A place for chunks. Every method is thread-safe; none but ``close`` and ``resolve`` waits.

    Order within a tier: queued loads go before queued stores. A ``put`` of a key that is there
    already is ``DONE`` without writing. Chunks of one key always have the same bytes, so that it
    never matters which copy answers.
    """

    name: str

    @abstractmethod
    def exists(self, keys: Sequence[bytes]) -> list[bool | None]:
        """Whether a ``get`` would probably hit; None: being found out, ask again soon.

        A disk answers from memory. A shared store answers from what it learnt lately.
        """

    def resolve(self, keys: Sequence[bytes], timeout_s: float) -> list[bool]:
        """``exists`` without None: waits for the answer, at most ``timeout_s``; late is False."""
        return [bool(found) for found in self.exists(keys)]

    @abstractmethod
    def put(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Store chunks; ``REFUSED`` ones were not taken (back-pressure: try later, or skip).

        ``timeout_s`` defaults to the tier's configured one.
        """

    @abstractmethod
    def get(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Fill writable buffers, each with exactly the bytes stored under its key, or miss.

        After any outcome but ``DONE`` a buffer may hold anything.
        """

    @abstractmethod
    def delete(self, keys: Sequence[bytes]) -> None:
        """Forget chunks; later ``exists`` and ``get`` miss, space comes back when it can."""

    @abstractmethod
    def stats(self) -> TierStats:
        """What happened so far; cheap enough to ask every second."""

    def probe(self, timeout_s: float) -> bool:
        """Whether the tier works right now, by trying it; may wait up to ``timeout_s``."""
        return True

    @abstractmethod
    def close(self, timeout_s: float = 10.0) -> None:
        """Finish or settle what is under way and end every thread; idempotent."""

    def __enter__(self) -> Tier:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
