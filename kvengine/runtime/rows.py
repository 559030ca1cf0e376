"""The rows of a group on the device: where each block's bytes are, in how many pieces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen

from kvengine.plan.chunks import lanes
from kvengine.runtime.cache import Cache
from kvengine.runtime.places import Place

__all__ = ["Lane", "Move", "Rows", "check_blocks", "rows_from_tensors", "rows_of"]


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


@frozen(eq=False)
class Rows:
    """The rows of one group, cut into lanes, in the order of a host row."""

    lanes: tuple[Lane, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of one block over all lanes: what it takes in host memory."""
        return sum(lane.num_bytes for lane in self.lanes)

    @property
    def num_blocks(self) -> int:
        """Block ids run from 0 to this."""
        return min(lane.pages.shape[0] for lane in self.lanes)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.lanes[0].pages.device


@frozen
class Move:
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
        tuple(
            Lane(
                cache.allocations[lane.allocation].as_strided(
                    (num_blocks, lane.num_bytes), (lane.stride_bytes, 1), lane.offset_bytes
                ),
                lane.row_offset_bytes,
            )
            for lane in lanes(cache.plan, group)
        )
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
    return Rows(tuple(joined))


def _continues(lane: Lane, page: torch.Tensor) -> bool:
    return (
        lane.pages.untyped_storage().data_ptr() == page.untyped_storage().data_ptr()
        and lane.pages.shape[0] == page.shape[0]
        and lane.stride_bytes == page.stride(0)
        and lane.address + lane.num_bytes == page.data_ptr()
        and lane.num_bytes + page.shape[1] <= lane.stride_bytes
    )


def check_blocks(rows: Sequence[Rows], moves: Sequence[Move]) -> None:
    """Raise ValueError before anything is copied where a block or a place is out of range."""
    for move in moves:
        group = rows[move.group]
        if move.blocks and not (min(move.blocks) >= 0 and max(move.blocks) < group.num_blocks):
            raise ValueError(
                f"blocks of group {move.group} run from 0 to {group.num_blocks - 1}, "
                f"not {min(move.blocks)} to {max(move.blocks)}"
            )
        end_bytes = (move.first_block + len(move.blocks)) * group.row_bytes
        place_bytes = sum(num_bytes for _, num_bytes in move.place)
        if move.first_block < 0 or end_bytes > place_bytes:
            raise ValueError(
                f"a chunk of group {move.group} has {place_bytes // group.row_bytes} blocks, "
                f"not {move.first_block + len(move.blocks)}"
            )
