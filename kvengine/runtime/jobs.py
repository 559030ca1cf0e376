"""What a caller holds of a store or a load: a job, with an outcome per chunk."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable, Sequence

from kvengine.runtime.tiers.base import Outcome

__all__ = ["Job", "Kind"]

_numbers = itertools.count()


class Kind(enum.Enum):
    """What a job does."""

    STORE = "store"
    LOAD = "load"
    PREFETCH = "prefetch"


class Job:
    """Chunks on their way, and what became of each.

    ``keys[i]`` goes from or to ``blocks[i]``. The blocks belong to the job until it is done: not
    to be written before a store has read them, not to be read before a load has written them.
    Made by the engine; thread-safe.
    """

    __slots__ = (
        "_finished",
        "_latch",
        "_lock",
        "_open",
        "_outcomes",
        "blocks",
        "cancelled",
        "fence",
        "groups",
        "keys",
        "kind",
        "number",
        "sizes",
        "spans",
    )

    def __init__(
        self,
        kind: Kind,
        keys: Sequence[bytes],
        blocks: Sequence[Sequence[int]],
        finished: Callable[[Job], None],
    ) -> None:
        self.number = next(_numbers)
        self.kind = kind
        self.keys = keys
        self.blocks = blocks
        # Of the engine: per chunk its group, its bytes, and (first block, count) of a part.
        self.groups: Sequence[int] = ()
        self.sizes: Sequence[int] = ()
        self.spans: Sequence[tuple[int, int] | None] | None = None
        self.cancelled = False
        self.fence: object = None
        self._outcomes: list[Outcome | None] = [None] * len(keys)
        self._open = len(keys)
        self._finished = finished
        self._lock = threading.Lock()
        self._latch = threading.Lock()
        self._latch.acquire()

    def __repr__(self) -> str:
        state = "done" if self.done else f"{self._open} of {len(self.keys)} open"
        return f"<Job {self.number}: {self.kind.value}, {state}>"

    @property
    def done(self) -> bool:
        """Whether every outcome is known and the blocks are the caller's again."""
        return not self._latch.locked()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """One outcome per key, once the job is done.

        ``DONE``: stored (or there already), or loaded. Anything else is a miss: ``MISS`` was not
        there, ``REFUSED`` was not tried (no room, not admitted, too much in flight, cancelled),
        ``FAILED``, ``CORRUPT`` and ``TIMEOUT`` were tried.
        """
        if not self.done:
            raise RuntimeError(f"{self!r} has no outcomes yet")
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    @property
    def succeeded(self) -> bool:
        """Whether the job is done and every chunk arrived."""
        return self.done and all(outcome is Outcome.DONE for outcome in self._outcomes)

    @property
    def failed(self) -> tuple[tuple[bytes, Sequence[int], Outcome], ...]:
        """Key, blocks and outcome of each chunk that did not arrive (cases R10, R20)."""
        return tuple(
            (key, blocks, outcome)
            for key, blocks, outcome in zip(self.keys, self.blocks, self.outcomes, strict=True)
            if outcome is not Outcome.DONE
        )

    # What follows is for the engine.

    def settle(self, indices: Sequence[int], outcome: Outcome) -> None:
        """Say what became of some chunks, each exactly once."""
        with self._lock:
            outcomes = self._outcomes
            for index in indices:
                assert outcomes[index] is None, "a chunk has one outcome"
                outcomes[index] = outcome
            self._open -= len(indices)
            done = not self._open
        if done:
            self.finish()

    def finish(self) -> None:
        """Every outcome is known: wake who waits."""
        if self._latch.locked():
            self._latch.release()
            self._finished(self)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the job is done."""
        if self._latch.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s)):
            self._latch.release()
            return True
        return False
