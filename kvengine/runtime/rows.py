"""The rows of a group on the device: where each block's bytes are, in how many pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from attrs import frozen

from kvengine.plan.chunks import lanes
from kvengine.runtime.cache import Cache
from kvengine.runtime.places import Place

__all__ = ["Batch", "Lane", "Move", "Rows", "Stretch", "batches", "rows_from_tensors", "rows_of"]


@frozen(eq=False)
class Lane:
    """One piece of every row: ``pages`` is ``(num_blocks, num_bytes) uint8``.

    Only the last dimension has to be contiguous. In a row the piece starts at
    ``row_offset_bytes``.
    """

    pages: torch.Tensor
    row_offset_bytes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of one block."""
        return self.pages.shape[1]

    @property
    def stride_bytes(self) -> int:
        """From one block to the next."""
        return self.pages.stride(0)

    @property
    def address(self) -> int:
        """Of the first block."""
        return self.pages.data_ptr()


class Rows:
    """The rows of one group, cut into lanes, in the order of a host row.

    A row has ``row_bytes`` over all lanes; block ids run from 0 to ``num_blocks - 1``.
    """

    __slots__ = ("lanes", "num_blocks", "row_bytes")

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = tuple(lanes)
        self.row_bytes = sum(lane.num_bytes for lane in lanes)
        self.num_blocks = min(lane.pages.shape[0] for lane in lanes)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.lanes[0].pages.device


class Move(NamedTuple):
    """A chunk on its way between the device and its place in host memory, or a part of it.

    ``blocks`` are the device's block ids of the chunk's blocks ``first_block`` and following.
    """

    group: int
    blocks: Sequence[int]
    place: Place
    first_block: int = 0


def rows_of(cache: Cache, group: int) -> Rows:
    """The rows of a planned group: one lane when packed, one per layer when not."""
    num_blocks = cache.plan.num_blocks
    return Rows(
        [
            Lane(
                cache.allocations[lane.allocation].as_strided(
                    (num_blocks, lane.num_bytes), (lane.stride_bytes, 1), lane.offset_bytes
                ),
                lane.row_offset_bytes,
            )
            for lane in lanes(cache.plan, group)
        ]
    )


def rows_from_tensors(pages: Sequence[torch.Tensor]) -> Rows:
    """The rows of tensors that somebody else allocated, in the order given.

    Each is ``(num_blocks, bytes)`` of one-byte elements, contiguous along the bytes. Pages that
    lie next to each other in every block are joined, so that packed layers move as one piece.
    """
    joined: list[Lane] = []
    row_offset_bytes = 0
    for tensor in pages:
        if tensor.dim() != 2 or tensor.element_size() != 1 or tensor.stride(1) != 1:
            raise ValueError("pages are (num_blocks, bytes) tensors of bytes, contiguous per block")
        page = tensor.view(torch.uint8)
        last = joined[-1] if joined else None
        if last is not None and _continues(last, page):
            joined[-1] = Lane(
                last.pages.as_strided(
                    (page.shape[0], last.num_bytes + page.shape[1]), (last.stride_bytes, 1)
                ),
                last.row_offset_bytes,
            )
        else:
            joined.append(Lane(page, row_offset_bytes))
        row_offset_bytes += page.shape[1]
    return Rows(joined)


def _continues(lane: Lane, page: torch.Tensor) -> bool:
    return (
        lane.pages.untyped_storage().data_ptr() == page.untyped_storage().data_ptr()
        and lane.pages.shape[0] == page.shape[0]
        and lane.stride_bytes == page.stride(0)
        and lane.address + lane.num_bytes == page.data_ptr()
        and lane.num_bytes + page.shape[1] <= lane.stride_bytes
    )


Stretch = tuple[int, int, int]
"""Host rows next to each other: where they start, the index of their first block, how many."""


class Batch:
    """The moves of one group: their block ids, and the stretches of host rows these go to.

    ``scattered`` are the moves whose place has several runs; their blocks are not in ``blocks``.
    """

    __slots__ = ("blocks", "group", "scattered", "stretches")

    def __init__(self, group: int) -> None:
        self.group = group
        self.blocks: list[int] = []
        self.stretches: list[Stretch] = []
        self.scattered: list[Move] = []


def batches(moves: Sequence[Move], rows: Sequence[Rows]) -> list[Batch]:
    """Moves by group, neighbours joined.

    Raises ValueError where a block or a place is out of range, so before anything is copied
    (case R05).
    """
    found: dict[int, Batch] = {}
    batch: Batch | None = None
    for move in moves:
        group, blocks, place, first_block = move
        if not blocks:
            continue
        if batch is None or batch.group != group:
            batch = found.get(group)
            if batch is None:
                batch = found[group] = Batch(group)
            row_bytes = rows[group].row_bytes
            stretches, ids = batch.stretches, batch.blocks
        count = len(blocks)
        start, place_bytes = place[0]
        if len(place) > 1:
            place_bytes = sum([num_bytes for _, num_bytes in place])
        if first_block < 0 or (first_block + count) * row_bytes > place_bytes:
            raise ValueError(
                f"a chunk of group {group} has {place_bytes // row_bytes} blocks, "
                f"not {first_block} to {first_block + count - 1}"
            )
        if len(place) > 1:
            batch.scattered.append(move)
            continue
        start += first_block * row_bytes
        if stretches and stretches[-1][0] + stretches[-1][2] * row_bytes == start:
            begin, first, joined = stretches[-1]
            stretches[-1] = (begin, first, joined + count)
        else:
            stretches.append((start, len(ids), count))
        ids += blocks
    for batch in found.values():
        _check_ids(batch, rows[batch.group].num_blocks)
    return list(found.values())


def _check_ids(batch: Batch, num_blocks: int) -> None:
    blocks = batch.blocks
    if batch.scattered:
        blocks = [*blocks, *(block for move in batch.scattered for block in move.blocks)]
    low, high = min(blocks), max(blocks)
    if low < 0 or high >= num_blocks:
        raise ValueError(
            f"blocks of group {batch.group} are 0 to {num_blocks - 1}, not {low} to {high}"
        )
