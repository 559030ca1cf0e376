"""Worker threads that copy: loads before stores, in slices, one failed chunk at a time.

Jobs are cut in slices of a few MiB, so that a load waits for a slice of a store, not for all of
it, and so that the memory a mover stages through stays small.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

import torch
from attrs import asdict, define, field

from kvengine.runtime.copies import Mover
from kvengine.runtime.jobs import Job, Kind
from kvengine.runtime.rows import Move
from kvengine.runtime.stats import DirectionStats
from kvengine.runtime.tiers.base import Outcome
from kvengine.runtime.tiers.complaints import Complaints

__all__ = ["Fault", "Slice", "Transfers"]

_log = logging.getLogger(__name__)

Fault = Callable[[Kind, bytes], None]
"""Called with each chunk just before it is copied; may sleep, or raise to make the copy fail."""


@define(eq=False)
class Slice:
    """Chunks of a job that are copied together: ``moves[i]`` is ``job.keys[indices[i]]``.

    ``copy`` copies them all; it is set when the slice is submitted, and ``outcomes`` when it was
    copied. ``open`` are the slices launched together with this one whose outcomes the books do not
    know yet.
    """

    job: Job
    indices: Sequence[int]
    moves: Sequence[Move]
    num_bytes: int
    fence: object = None
    open: list[Slice] = field(factory=list)
    copy: Callable[[], None] = field(init=False)
    outcomes: list[Outcome] | None = None


@define
class _Direction:
    """Counters of one direction."""

    jobs: int = 0
    chunks: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    failed_chunks: int = 0
    slices_by_bytes: Counter[int] = field(factory=Counter)


class Transfers:
    """Queues and threads. ``finished(slice, outcomes)`` is called on a worker after each slice."""

    def __init__(
        self,
        mover: Mover,
        finished: Callable[[Slice, list[Outcome]], None],
        *,
        threads: int = 1,
        fault: Fault | None = None,
    ) -> None:
        self._mover = mover
        self._finished = finished
        self._fault = fault
        self._complaints = Complaints(_log)
        self._lock = threading.Lock()
        self._loads: deque[Slice] = deque()
        self._stores: deque[Slice] = deque()
        self._parked: list[threading.Lock] = []  # one per worker that has nothing to do
        self._closed = False
        self.directions = {Kind.STORE: _Direction(), Kind.LOAD: _Direction()}
        self._threads = [
            threading.Thread(target=self._work, name=f"kvengine-copy-{number}", daemon=True)
            for number in range(threads)
        ]
        started = threading.Barrier(threads + 1)
        self._started = started
        for thread in self._threads:
            thread.start()
        # Each worker copies with one thread; what PyTorch gives to threads that come later stays.
        intra_op = torch.get_num_threads()
        started.wait()
        torch.set_num_threads(intra_op)

    @property
    def num_idle(self) -> int:
        """Workers that have nothing to do."""
        return len(self._parked)

    def submit(self, slices: Sequence[Slice]) -> None:
        """Queue slices; those of loads go before all stores that have not begun.

        The caller computes what a worker needs: meanwhile workers copy.
        """
        for part in slices:
            part.copy = self._prepared(part, part.moves)
            with self._lock:
                (self._stores if part.job.kind is Kind.STORE else self._loads).append(part)
                latch = self._parked.pop() if self._parked else None
            if latch is not None:
                latch.release()

    def withdraw(self, job: Job | None = None) -> list[Slice]:
        """Take back what has not begun, of one job or of all."""
        with self._lock:
            taken: list[Slice] = []
            for waiting in (self._loads, self._stores):
                mine = [part for part in waiting if job is None or part.job is job]
                for part in mine:
                    waiting.remove(part)
                taken += mine
            return taken

    def stats(self, kind: Kind) -> DirectionStats:
        """What was copied so far in one direction."""
        with self._lock:
            counters = asdict(self.directions[kind])
        return DirectionStats(**counters)

    def close(self) -> None:
        """End the threads when they have finished what they are doing; nothing may be queued."""
        with self._lock:
            self._closed = True
            woken, self._parked = self._parked, []
        for latch in woken:
            latch.release()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)
        self._started.wait()
        latch = threading.Lock()
        latch.acquire()
        while True:
            with self._lock:
                part = self._next()
                if part is None:
                    if self._closed:
                        return
                    self._parked.append(latch)
            if part is None:
                latch.acquire()
                continue
            try:
                self._finished(part, self._copy(part))
            except Exception:
                _log.exception("a worker goes on after an error of ours: job=%r", part.job)
            del part

    def _next(self) -> Slice | None:
        if self._loads:
            return self._loads.popleft()
        return self._stores.popleft() if self._stores else None

    def _copy(self, part: Slice) -> list[Outcome]:
        started_s = time.perf_counter()
        outcomes = [Outcome.DONE] * len(part.moves)
        good = self._try_faults(part, outcomes)
        if not self._try(part, good):
            for index in good:
                if not self._try(part, [index]):
                    outcomes[index] = Outcome.FAILED
        self._count(part, outcomes, time.perf_counter() - started_s)
        return outcomes

    def _try_faults(self, part: Slice, outcomes: list[Outcome]) -> Sequence[int]:
        if self._fault is None:
            return range(len(part.moves))
        good: list[int] = []
        for index, number in enumerate(part.indices):
            try:
                self._fault(part.job.kind, part.job.keys[number])
            except Exception as error:
                self._complain(part, error)
                outcomes[index] = Outcome.FAILED
            else:
                good.append(index)
        return good

    def _try(self, part: Slice, which: Sequence[int]) -> bool:
        """Whether these chunks were copied, all of them."""
        copy = part.copy
        if len(which) < len(part.moves):
            copy = self._prepared(part, [part.moves[index] for index in which])
        try:
            copy()
        except Exception as error:
            self._complain(part, error)
            return False
        return True

    def _prepared(self, part: Slice, moves: Sequence[Move]) -> Callable[[], None]:
        try:
            return self._mover.prepared(moves, part.fence, store=part.job.kind is Kind.STORE)
        except Exception as error:
            return partial(_fail, error)

    def _complain(self, part: Slice, error: Exception) -> None:
        kind = part.job.kind.value
        self._complaints.say(
            f"{kind} {type(error).__name__}",
            "copy failed: direction=%s job=%d bytes=%d error=%r",
            kind,
            part.job.number,
            part.num_bytes,
            error,
        )

    def _count(self, part: Slice, outcomes: list[Outcome], seconds: float) -> None:
        failed = len(outcomes) - outcomes.count(Outcome.DONE)
        size = 1 << max(0, part.num_bytes - 1).bit_length()
        with self._lock:
            direction = self.directions[part.job.kind]
            direction.num_bytes += part.num_bytes if not failed else 0
            direction.chunks += len(outcomes) - failed
            direction.failed_chunks += failed
            direction.seconds += seconds
            direction.slices_by_bytes[size] += 1


def _fail(error: Exception) -> None:
    raise error
