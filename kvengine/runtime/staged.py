"""Moving chunks of a device through a staging buffer: how, apart from streams and events.

Rows that are long and in one piece are copied directly, one copy per block. All others are gathered
in a staging buffer on the device, row after row, and leave it in one copy per stretch of host rows;
loads go the other way. Whoever runs this makes sure that its steps happen in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from kvengine.runtime.copies import Mover, within
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.rows import Batch, Lane, Move, Rows, Stretch, batches

__all__ = ["StagedMover"]

_DIRECT_BYTES = 256 << 10
_STAGING_BYTES = 32 << 20


class StagedMover(Mover):
    """The steps of a store or a load, queued one after the other on one queue of the device.

    A staging buffer is filled again only by a step behind the one that empties it, in the same
    queue (case R01); each queue has a buffer of its own.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        host: HostMemory,
        *,
        staging_bytes: int = _STAGING_BYTES,
        direct_bytes: int = _DIRECT_BYTES,
    ) -> None:
        self._rows = tuple(rows)
        self._host = torch.from_numpy(host.bytes)
        self._staging_bytes = max(staging_bytes, *(group.row_bytes for group in rows))
        self._direct_bytes = direct_bytes
        self.device = rows[0].device

    def store(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the device to the places."""
        self._queue(moves, self.make_staging(), to_host=True)

    def load(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the places to the device."""
        self._queue(moves, self.make_staging(), to_host=False)

    def make_staging(self) -> torch.Tensor:
        """A staging buffer, ``(bytes,) uint8`` on the device."""
        return torch.empty(self._staging_bytes, dtype=torch.uint8, device=self.device)

    def _queue(self, moves: Sequence[Move], staging: torch.Tensor, *, to_host: bool) -> None:
        for batch in batches(moves, self._rows):
            lanes = self._rows[batch.group].lanes
            if len(lanes) == 1 and lanes[0].num_bytes >= self._direct_bytes:
                self._direct(batch, lanes[0], to_host=to_host)
            else:
                self._staged(batch, staging, to_host=to_host)
            for move in batch.scattered:
                self._pieces(move, to_host=to_host)

    def _direct(self, batch: Batch, lane: Lane, *, to_host: bool) -> None:
        for start, first, count in batch.stretches:
            for index in range(count):
                at = start + index * lane.num_bytes
                page = lane.pages[batch.blocks[first + index]]
                _copy(self._host[at : at + lane.num_bytes], page, to_host=to_host)

    def _staged(self, batch: Batch, staging: torch.Tensor, *, to_host: bool) -> None:
        rows = self._rows[batch.group]
        row_bytes = rows.row_bytes
        for first, stretches in _parts(batch.stretches, row_bytes, self._staging_bytes):
            count = sum(length for _, length in stretches)
            ids = torch.tensor(batch.blocks[first : first + count], device=self.device)
            buffer = staging[: count * row_bytes]
            if to_host:
                _gather(rows, ids, buffer)
            at = 0
            for start, length in stretches:
                size = length * row_bytes
                _copy(self._host[start : start + size], buffer[at : at + size], to_host=to_host)
                at += size
            if not to_host:
                _scatter(rows, ids, buffer)

    def _pieces(self, move: Move, *, to_host: bool) -> None:
        rows = self._rows[move.group]
        for index, block in enumerate(move.blocks, start=move.first_block):
            for lane in rows.lanes:
                page = lane.pages[block]
                start = index * rows.row_bytes + lane.row_offset_bytes
                for offset, num_bytes in within(move.place, start, lane.num_bytes):
                    host = self._host[offset : offset + num_bytes]
                    _copy(host, page[:num_bytes], to_host=to_host)
                    page = page[num_bytes:]


def _copy(host: torch.Tensor, device: torch.Tensor, *, to_host: bool) -> None:
    if to_host:
        host.copy_(device, non_blocking=True)
    else:
        device.copy_(host, non_blocking=True)


def _parts(
    stretches: Sequence[Stretch], row_bytes: int, buffer_bytes: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Cut stretches so that each part fits the buffer.

    A part is the index of its first block, and where its host rows start and how many they are.
    """
    most = buffer_bytes // row_bytes
    begin = room = 0
    part: list[tuple[int, int]] = []
    for stretch_start, first, count in stretches:
        start, left = stretch_start, count
        while left:
            if not room:
                if part:
                    yield begin, part
                begin, room, part = first + count - left, most, []
            length = min(room, left)
            part.append((start, length))
            start += length * row_bytes
            room -= length
            left -= length
    if part:
        yield begin, part


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """The widest view of rows of bytes that their size, distance and place allow."""
    for dtype in (torch.int64, torch.int32, torch.int16):
        numbers = (tensor.shape[1], tensor.stride(0), tensor.data_ptr())
        if not any(number % dtype.itemsize for number in numbers):
            return tensor.view(dtype)
    return tensor


def _matched(lane: Lane, buffer: torch.Tensor, row_bytes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The pages of a lane, and its column of the staged rows, in words of one size."""
    rows = buffer.view(-1, row_bytes)
    column = rows[:, lane.row_offset_bytes : lane.row_offset_bytes + lane.num_bytes]
    pages, staged = _words(lane.pages), _words(column)
    if pages.dtype.itemsize > staged.dtype.itemsize:
        pages = lane.pages.view(staged.dtype)
    elif pages.dtype.itemsize < staged.dtype.itemsize:
        staged = column.view(pages.dtype)
    return pages, staged


def _gather(rows: Rows, ids: torch.Tensor, buffer: torch.Tensor) -> None:
    for lane in rows.lanes:
        pages, staged = _matched(lane, buffer, rows.row_bytes)
        torch.index_select(pages, 0, ids, out=staged)


def _scatter(rows: Rows, ids: torch.Tensor, buffer: torch.Tensor) -> None:
    for lane in rows.lanes:
        pages, staged = _matched(lane, buffer, rows.row_bytes)
        pages.index_copy_(0, ids, staged)
