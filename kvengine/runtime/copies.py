"""The mover of caches in host memory: whole batches in single calls that run without the GIL.

A copy of many equal pieces is a gather (to store) or a scatter (to load). Both see the pieces of
all allocations as rows of one array that starts at the lowest address, whose row ``i`` begins ``i``
steps behind it, the step being the greatest common divisor of all distances. So one call moves any
number of blocks and layers, packed or not::

    gather    torch.index_select(out=)           at the speed of one big copy or more,
    scatter   numpy, array[rows] = values        when pieces have 32 to 128 KiB

The scatter has to be one of rows of words: of single void elements, numpy keeps the GIL when there
are fewer than 500. ``index_copy_`` is half as fast. One ``memmove`` per piece takes the GIL back
after each piece, and waits for it while another thread computes.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvengine.runtime.memory import HostMemory
from kvengine.runtime.places import Place, Run
from kvengine.runtime.rows import Lane, Move, Rows, Stretch, batches
from kvengine.units import ceil_div

__all__ = ["CpuMover", "Mover", "make_mover", "within"]

_MOST_PIECE_BYTES = 128 << 10
"""``index_select`` moves larger pieces each by a copy of its own, an eighth slower."""

_Indices = npt.NDArray[np.int64]
_Words = npt.NDArray[Any]


class Mover(ABC):
    """Copies between the rows of a device and host memory.

    ``store`` and ``load``, and what ``prepared`` gives, return when the bytes are there, and are
    called from worker threads; ``prepared`` itself is called by whoever submits.
    """

    def fence(self) -> object:
        """A point behind all work queued for the device so far, to give to ``store`` or ``load``.

        Called by the thread that queued that work (case R02).
        """
        return None

    @abstractmethod
    def store(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the device to the places, not before the device has passed ``fence``."""

    @abstractmethod
    def load(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the places to the device, not before the device has passed ``fence``."""

    def prepared(
        self, moves: Sequence[Move], fence: object = None, *, store: bool
    ) -> Callable[[], None]:
        """A store or a load as one call; what can be computed before that call is computed now."""
        return partial(self.store if store else self.load, moves, fence)

    def close(self) -> None:  # noqa: B027
        """Let go of what the mover holds; no call may follow."""


class CpuMover(Mover):
    """Moves chunks of caches that are in host memory themselves."""

    def __init__(self, rows: Sequence[Rows], host: HostMemory) -> None:
        self._rows = tuple(rows)
        self._host = host
        self._combs = [_combs(group, host) for group in rows]

    def store(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the device to the places."""
        self.prepared(moves, store=True)()

    def load(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the places to the device."""
        self.prepared(moves, store=False)()

    def prepared(
        self, moves: Sequence[Move], fence: object = None, *, store: bool
    ) -> Callable[[], None]:
        """A store or a load as one call, all its indexes computed: a few library calls are left."""
        calls: list[Callable[[], object]] = []
        for batch in batches(moves, self._rows):
            blocks = np.array(batch.blocks, dtype=np.int64)
            for comb in self._combs[batch.group]:
                calls += comb.calls(blocks, batch.stretches, to_host=store)
            calls += [partial(self._move_pieces, move, to_host=store) for move in batch.scattered]

        def copy() -> None:
            for call in calls:
                call()

        return copy

    def _move_pieces(self, move: Move, *, to_host: bool) -> None:
        """A chunk whose place has several runs: piece by piece."""
        row_bytes = self._rows[move.group].row_bytes
        for index, block in enumerate(move.blocks, start=move.first_block):
            for lane in self._rows[move.group].lanes:
                device = lane.address + block * lane.stride_bytes
                start = index * row_bytes + lane.row_offset_bytes
                for offset, num_bytes in within(move.place, start, lane.num_bytes):
                    host = self._host.address + offset
                    if to_host:
                        ctypes.memmove(host, device, num_bytes)
                    else:
                        ctypes.memmove(device, host, num_bytes)
                    device += num_bytes


def make_mover(rows: Sequence[Rows], host: HostMemory) -> Mover:
    """The mover for the device that the rows are on."""
    if rows[0].device.type == "cpu":
        with torch.inference_mode(False):  # what is made in that mode, no other thread may write to
            return CpuMover(rows, host)
    from kvengine.runtime.cuda import CudaMover

    return CudaMover(rows, host)


class _Comb:
    """Lanes of equal pieces that stand at equal distances in a host row: its teeth.

    Tooth ``t`` of the ``r``-th row from ``start`` is at
    ``start + offset_bytes + (r * teeth + t) * distance_bytes`` of host memory.
    """

    def __init__(self, lanes: Sequence[Lane], distance_bytes: int, host: HostMemory) -> None:
        self.teeth = len(lanes)
        self._lanes = lanes  # keeps the device memory
        self._offset_bytes = lanes[0].row_offset_bytes
        self._distance_bytes = distance_bytes
        self._piece_bytes = lanes[0].num_bytes
        base = min(lane.address for lane in lanes)
        step = 0
        for lane in lanes:
            step = gcd(step, lane.address - base, lane.stride_bytes)
        step = step or self._piece_bytes
        self._base, self._step = base, step
        self._first = np.array([(lane.address - base) // step for lane in lanes], dtype=np.int64)
        self._stride = np.array([lane.stride_bytes // step for lane in lanes], dtype=np.int64)
        # A single lane's rows are numbered like its blocks.
        self._plain = self.teeth == 1 and self._stride[0] == 1
        last = max(
            (lane.address - base + (lane.pages.shape[0] - 1) * lane.stride_bytes) // step
            for lane in lanes
        )
        span_bytes = last * step + self._piece_bytes
        memory: Any = (ctypes.c_ubyte * span_bytes).from_address(base)
        words = (step, self._piece_bytes, distance_bytes, self._offset_bytes, base)
        self._word = np.int64 if not any(number % 8 for number in words) else np.uint8
        self._word_bytes = size = np.dtype(self._word).itemsize
        self._width = self._piece_bytes // size
        self._pieces: _Words = np.ndarray(
            (last + 1, self._width), dtype=self._word, buffer=memory, strides=(step, size)
        )
        self._source = torch.from_numpy(self._pieces)
        self._host = host
        whole = host.num_bytes // size * size
        self._host_words = torch.from_numpy(host.bytes[:whole].view(self._word))

    def calls(
        self, blocks: _Indices, stretches: Sequence[Stretch], *, to_host: bool
    ) -> Iterator[Callable[[], object]]:
        """What moves the pieces of all blocks: one call per stretch of host rows."""
        rows = blocks
        if not self._plain:
            rows = (self._first + blocks[:, None] * self._stride).reshape(-1)
        wanted = torch.from_numpy(rows)
        for host_start, first, count in stretches:
            start = host_start + self._offset_bytes
            begin, end = first * self.teeth, (first + count) * self.teeth
            mine = rows[begin:end]
            if end - begin == 1:
                yield partial(self._move_one, int(mine[0]), start, to_host=to_host)
            elif not to_host:
                yield partial(self._scatter, mine, self._host_pieces(end - begin, start))
            elif start % self._word_bytes:
                yield partial(self._gather, mine, self._host_pieces(end - begin, start))
            else:
                places = self._host_words.as_strided(
                    (end - begin, self._width),
                    (self._distance_bytes // self._word_bytes, 1),
                    start // self._word_bytes,
                )
                yield partial(torch.index_select, self._source, 0, wanted[begin:end], out=places)

    def _scatter(self, rows: _Indices, host: _Words) -> None:
        self._pieces[rows] = host

    def _gather(self, rows: _Indices, host: _Words) -> None:
        host[:] = self._pieces[rows]

    def _move_one(self, row: int, host_start: int, *, to_host: bool) -> None:
        device = self._base + row * self._step
        host = self._host.address + host_start
        if to_host:
            ctypes.memmove(host, device, self._piece_bytes)
        else:
            ctypes.memmove(device, host, self._piece_bytes)

    def _host_pieces(self, count: int, start: int) -> _Words:
        pieces: _Words = np.ndarray(
            (count, self._width),
            dtype=self._word,
            buffer=self._host.bytes,
            offset=start,
            strides=(self._distance_bytes, self._word_bytes),
        )
        return pieces


def _combs(rows: Rows, host: HostMemory) -> list[_Comb]:
    """One comb for all pieces of a size that stand at equal distances, else one for each lane."""
    by_size: dict[int, list[Lane]] = {}
    for lane in rows.lanes:
        by_size.setdefault(lane.num_bytes, []).append(lane)
    combs: list[_Comb] = []
    for num_bytes, lanes in by_size.items():
        distance, rest = divmod(rows.row_bytes, len(lanes))
        start = lanes[0].row_offset_bytes
        regular = not rest and all(
            lane.row_offset_bytes == start + index * distance for index, lane in enumerate(lanes)
        )
        if regular and distance == num_bytes:  # the whole row
            parts = [part for lane in lanes for part in _cut(lane)]
            combs.append(_Comb(parts, parts[0].num_bytes, host))
        elif regular:
            combs.append(_Comb(lanes, distance, host))
        else:
            combs.extend(_Comb([lane], rows.row_bytes, host) for lane in lanes)
    return combs


def _cut(lane: Lane) -> list[Lane]:
    """A lane of large pieces as several, next to each other, of pieces that move fastest."""
    least = ceil_div(lane.num_bytes, _MOST_PIECE_BYTES)
    for count in range(least, 2 * least):
        num_bytes, rest = divmod(lane.num_bytes, count)
        if not (rest or num_bytes % 8):
            starts = range(0, lane.num_bytes, num_bytes)
            return [
                Lane(lane.pages[:, start : start + num_bytes], lane.row_offset_bytes + start)
                for start in starts
            ]
    return [lane]


def within(place: Place, start: int, num_bytes: int) -> Iterator[Run]:
    """The host bytes of ``num_bytes`` of a chunk from its byte ``start`` on."""
    for run_start, run_bytes in place:
        if start < run_bytes:
            count = min(num_bytes, run_bytes - start)
            yield run_start + start, count
            num_bytes -= count
            start = 0
            if not num_bytes:
                return
        else:
            start -= run_bytes
