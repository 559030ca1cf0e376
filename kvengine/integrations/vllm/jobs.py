"""Jobs under way: which chunks a rank is copying, told apart by tickets in shared memory.

vLLM reports a job when every rank has, but never that one failed (its worker asserts success),
and after ``reset_cache`` it reports nothing at all of the jobs before. So every job carries a
ticket: each rank marks it in the shared region when it is through, well or not, and the scheduler
reads the marks. Only then are the places that the job wrote or read given to anybody else.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence

from attrs import define, field

__all__ = ["OPEN", "Board", "Job", "Jobs", "Mark"]


class Mark(enum.IntEnum):
    """What a rank says of a job."""

    OPEN = 0
    DONE = 1
    FAILED = 2


OPEN, _DONE, _FAILED = Mark


class Board:
    """One byte per rank and ticket, in memory that all processes share."""

    def __init__(self, memory: memoryview, num_ranks: int) -> None:
        self._memory = memory
        self.num_ranks = num_ranks
        self.num_tickets = len(memory) // num_ranks
        self._all_open = bytes(num_ranks)

    def set(self, rank: int, ticket: int, mark: Mark) -> None:
        """Say that this rank is through with the job of a ticket (or, to begin with, open)."""
        self._memory[rank * self.num_tickets + ticket] = mark

    def read(self, ranks: int, ticket: int) -> Mark:
        """``OPEN`` until the first ``ranks`` ranks are through; ``FAILED`` if one of them did."""
        marks = bytes(self._memory[ticket : ranks * self.num_tickets : self.num_tickets])
        if OPEN in marks:
            return OPEN
        return _FAILED if _FAILED in marks else _DONE

    def clear(self, ticket: int) -> None:
        """Make a ticket fit for the next job."""
        self._memory[ticket :: self.num_tickets] = self._all_open

    def release(self) -> None:
        """Let go of the memory."""
        self._memory.release()


@define(eq=False)
class Job:
    """Chunks that the ranks store or load in one go."""

    ticket: int
    stores: bool
    keys: tuple[bytes, ...]
    ranks: int = field(kw_only=True)
    """How many ranks, from the first, carry it out."""


class Jobs:
    """The open jobs, by ticket; a store also by its chunks, a load by its request."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._free = list(range(board.num_tickets - 1, -1, -1))
        self._open: dict[int, Job] = {}
        self._store_of: dict[bytes, Job] = {}
        self._loads_of: dict[str, list[Job]] = {}
        self._stale: list[Job] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._stale)

    @property
    def full(self) -> bool:
        """Whether no ticket is left: nothing more can be started now."""
        return not self._free

    @property
    def abandoned(self) -> bool:
        """Whether :meth:`finished` has jobs to watch."""
        return bool(self._stale)

    def store(self, keys: Sequence[bytes], *, ranks: int) -> Job:
        """Open a job that stores chunks."""
        job = self._begin(True, keys, ranks)
        self._store_of.update(dict.fromkeys(job.keys, job))
        return job

    def load(self, keys: Sequence[bytes], request: str, *, ranks: int) -> Job:
        """Open a job that loads chunks for a request."""
        job = self._begin(False, keys, ranks)
        self._loads_of.setdefault(request, []).append(job)
        return job

    def stored(self, keys: Iterable[bytes]) -> Iterator[tuple[Job, bool]]:
        """Close the store jobs of these chunks; each with whether every rank did it."""
        for key in keys:
            job = self._store_of.pop(key, None)
            if job is not None and self._open.get(job.ticket) is job:
                yield job, self._close(job) is not _FAILED

    def loaded(self, keys: Collection[bytes], request: str) -> Job | None:
        """Close the load job of a request that covers exactly these chunks; None if unknown."""
        jobs = self._loads_of.get(request, [])
        for index, job in enumerate(jobs):
            if len(job.keys) == len(keys) and not set(keys).difference(job.keys):
                del jobs[index]
                if not jobs:
                    del self._loads_of[request]
                self._close(job)
                return job
        return None

    def abandon(self) -> None:
        """Nobody will report the open jobs any more: watch their marks instead."""
        self._stale += self._open.values()
        self._open.clear()
        self._store_of.clear()
        self._loads_of.clear()

    def finished(self) -> Iterator[Job]:
        """Abandoned jobs that every rank is through with; each is closed."""
        still: list[Job] = []
        for job in self._stale:
            if self._board.read(job.ranks, job.ticket) is OPEN:
                still.append(job)
                continue
            self._retire(job)
            yield job
        self._stale = still

    def _begin(self, stores: bool, keys: Sequence[bytes], ranks: int) -> Job:
        job = Job(self._free.pop(), stores, tuple(keys), ranks=ranks)
        self._open[job.ticket] = job
        return job

    def _close(self, job: Job) -> Mark:
        del self._open[job.ticket]
        mark = self._board.read(job.ranks, job.ticket)
        self._retire(job)
        return mark

    def _retire(self, job: Job) -> None:
        self._board.clear(job.ticket)
        self._free.append(job.ticket)
