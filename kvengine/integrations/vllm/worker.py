"""A rank's side: copies between vLLM's cache and the shared region, beside the forward pass.

One thread loads and one stores, so that no request waits for a store. A job waits for an earlier
one of the other thread that has a place in common with it, which happens only after a reset of the
cache. vLLM's connector ends the engine when a job fails, so a store that fails is reported as
finished to vLLM and as failed on the shared board: the scheduler turns its chunks into misses. A
load was promised and has no such way out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from attrs import field, frozen

from kvengine.integrations.vllm.jobs import Board, Mark
from kvengine.integrations.vllm.rows import part
from kvengine.runtime.copies import Mover
from kvengine.runtime.places import Place
from kvengine.runtime.rows import Move

__all__ = ["Geometry", "Result", "Transfers"]

_log = logging.getLogger(__name__)


class Geometry:
    """This rank's part of a chunk, per group: its row, and where it begins in the chunk.

    ``starts`` is asked once, at the first job: by then every rank has registered.
    """

    def __init__(
        self,
        blocks_per_chunk: int,
        row_bytes: Sequence[int],
        starts: Callable[[], Sequence[int]],
    ) -> None:
        self.row_bytes = tuple(row_bytes)
        self._blocks_per_chunk = blocks_per_chunk
        self._starts = starts

    @cached_property
    def start_bytes(self) -> tuple[int, ...]:
        """First byte of this rank's part in a chunk, per group."""
        return tuple(self._starts())

    def moves(
        self,
        blocks: Sequence[int],
        group_sizes: Sequence[int],
        first_blocks: Sequence[int],
        places: Sequence[Place],
    ) -> list[Move]:
        """vLLM's flat list of blocks and ours of places, as moves of chunks.

        Each group has ``group_sizes`` blocks, which follow one another from the request's block
        number ``first_blocks``: that may be in the middle of a chunk. ValueError when the
        chunks are not as many as the places.
        """
        chunks = list(self._chunks(blocks, group_sizes, first_blocks))
        if len(chunks) != len(places):
            raise ValueError(f"a job of {len(chunks)} chunks came with {len(places)} places")
        return [
            Move(group, ids, part(place, self.start_bytes[group], self._bytes(group)), first)
            for (group, first, ids), place in zip(chunks, places, strict=True)
            if self.row_bytes[group]
        ]

    def _bytes(self, group: int) -> int:
        return self.row_bytes[group] * self._blocks_per_chunk

    def _chunks(
        self, blocks: Sequence[int], group_sizes: Sequence[int], first_blocks: Sequence[int]
    ) -> Iterator[tuple[int, int, Sequence[int]]]:
        at = 0
        for group, count in enumerate(group_sizes):
            skip = first_blocks[group] % self._blocks_per_chunk
            end = at + count
            while at < end:
                taken = min(self._blocks_per_chunk - skip, end - at)
                yield group, skip, blocks[at : at + taken]
                at, skip = at + taken, 0


@frozen(eq=False)
class Result:
    """A job that is through: what vLLM wants to know of it."""

    job: int
    num_bytes: int
    seconds: float
    fit: bool = True
    """False ends the engine: blocks that were promised have no bytes."""


@frozen(eq=False)
class _Task:
    job: int
    ticket: int
    stores: bool
    moves: Sequence[Move]
    starts: frozenset[int]
    """Where its places begin in host memory: two tasks with one in common keep their order."""
    fence: object = field(repr=False)


class Transfers:
    """The queues and threads of one rank. ``finished`` and ``wait`` are for its owner."""

    def __init__(self, mover: Mover, geometry: Geometry, board: Board, rank: int) -> None:
        self._mover = mover
        self._geometry = geometry
        self._board = board
        self._rank = rank
        self._queues: dict[bool, deque[_Task]] = {False: deque(), True: deque()}
        """Waiting loads and stores."""
        self._open: dict[int, _Task] = {}
        """Every job that is waiting or running."""
        self._results: list[Result] = []
        self._closing = False
        self._changed = threading.Condition()
        self._started = threading.Barrier(3)
        self._threads = [
            threading.Thread(target=self._work, args=(stores,), name=name, daemon=True)
            for stores, name in ((False, "kvengine-loads"), (True, "kvengine-stores"))
        ]
        intra_op = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        self._started.wait()
        torch.set_num_threads(intra_op)  # what the threads wished for themselves alone

    def submit(
        self,
        job: int,
        ticket: int,
        places: Sequence[Place],
        gpu: Any,
        *,
        stores: bool,
        first: bool = False,
    ) -> None:
        """Queue a job, in front of the loads when it is to be ``first``.

        ``gpu`` is vLLM's ``GPULoadStoreSpec``.
        """
        blocks = gpu.block_ids.tolist()
        moves = self._geometry.moves(blocks, gpu.group_sizes, gpu.block_indices, places)
        starts = frozenset(run[0] for place in places for run in place)
        task = _Task(job, ticket, stores, moves, starts, self._mover.fence())
        with self._changed:
            self._open[job] = task
            queue = self._queues[stores]
            (queue.appendleft if first else queue.append)(task)
            self._changed.notify_all()

    def finished(self) -> list[Result]:
        """Jobs that are through since the last call."""
        with self._changed:
            results, self._results = self._results, []
        return results

    def wait(self, jobs: Iterable[int]) -> None:
        """Block until these jobs are through; unknown ones are."""
        wanted = set(jobs)
        with self._changed:
            self._changed.wait_for(lambda: not wanted & self._open.keys())

    def close(self) -> None:
        """Finish what is queued, and end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._mover.close()

    def _work(self, stores: bool) -> None:
        torch.set_num_threads(1)
        self._started.wait()
        while (task := self._next(stores)) is not None:
            result, mark = self._run(task)
            self._board.set(self._rank, task.ticket, mark)
            with self._changed:
                del self._open[task.job]
                self._results.append(result)
                self._changed.notify_all()

    def _next(self, stores: bool) -> _Task | None:
        queue = self._queues[stores]
        with self._changed:
            while True:
                if queue and not self._behind_another(queue[0]):
                    return queue.popleft()
                if self._closing and not queue:
                    return None
                self._changed.wait()

    def _behind_another(self, task: _Task) -> bool:
        """Whether an earlier job of the other direction has a place in common."""
        return any(
            other.stores is not task.stores
            and other.job < task.job
            and not other.starts.isdisjoint(task.starts)
            for other in self._open.values()
        )

    def _run(self, task: _Task) -> tuple[Result, Mark]:
        move = self._mover.store if task.stores else self._mover.load
        started = time.perf_counter()
        mark = Mark.DONE
        try:
            move(task.moves, task.fence)
        except Exception as error:  # whatever a device says: a store becomes a miss
            what = "store" if task.stores else "load"
            _log.exception("%s job %d failed: %s: %s", what, task.job, type(error).__name__, error)
            mark = Mark.FAILED
        num_bytes = sum(
            len(move.blocks) * self._geometry.row_bytes[move.group] for move in task.moves
        )
        seconds = time.perf_counter() - started
        return Result(task.job, num_bytes, seconds, task.stores or mark is Mark.DONE), mark
