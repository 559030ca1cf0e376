"""Which bytes move: a chunk's blocks -> ranges of the allocations, and copies to a host slot.

A *host slot* holds one chunk of one group and nothing else, block after block, in each block
layer after layer::

    byte of page (i, layer) = i * row_bytes + pages of the layers before it

That order is the same for every layout, so a chunk that was stored from a packed cache can be
loaded into an unpacked one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from kvengine.plan.plan import Plan, Slot

__all__ = ["Copy", "Lane", "Range", "chunk_copies", "chunk_ranges", "copies", "lanes", "ranges"]


@frozen
class Lane:
    """Pages of one or more layers that lie next to each other in every block.

    Block ``b`` is the byte range of ``num_bytes`` at ``offset_bytes + b * stride_bytes`` of the
    allocation; in a host slot its block ``i`` starts at ``i * row_bytes + row_offset_bytes``.
    Packed, a group has one lane; otherwise one per layer.
    """

    allocation: int
    offset_bytes: int
    stride_bytes: int
    num_bytes: int
    row_offset_bytes: int


@frozen
class Range:
    """Contiguous bytes of one allocation."""

    allocation: int
    offset_bytes: int
    num_bytes: int


@frozen
class Copy:
    """Contiguous bytes of an allocation, and where they stand in the host slot of the chunk.

    The direction is the caller's: from the device to the slot to store, back to load.
    """

    allocation: int
    offset_bytes: int
    slot_offset_bytes: int
    num_bytes: int


def lanes(plan: Plan, group: int) -> tuple[Lane, ...]:
    """The lanes of a group, in the order of a row; their bytes add up to its ``row_bytes``."""
    found: list[Lane] = []
    row_bytes = 0
    for slot in plan.slots:
        if slot.group != group:
            continue
        last = found[-1] if found else None
        if last is not None and _continues(last, slot):
            found[-1] = Lane(
                last.allocation,
                last.offset_bytes,
                last.stride_bytes,
                last.num_bytes + slot.page_bytes,
                last.row_offset_bytes,
            )
        else:
            found.append(
                Lane(
                    slot.allocation,
                    slot.offset_bytes,
                    slot.stride_bytes,
                    slot.page_bytes,
                    row_bytes,
                )
            )
        row_bytes += slot.page_bytes
    return tuple(found)


def _continues(lane: Lane, slot: Slot) -> bool:
    return (
        lane.allocation == slot.allocation
        and lane.stride_bytes == slot.stride_bytes
        and lane.offset_bytes + lane.num_bytes == slot.offset_bytes
    )


def ranges(lanes: Iterable[Lane], blocks: Sequence[int]) -> tuple[Range, ...]:
    """The bytes of some blocks, in order of address, adjacent ones merged."""
    pieces = sorted(
        (lane.allocation, lane.offset_bytes + block * lane.stride_bytes, lane.num_bytes)
        for lane in lanes
        for block in blocks
    )
    merged: list[Range] = []
    for allocation, offset, size in pieces:
        last = merged[-1] if merged else None
        if last and last.allocation == allocation and last.offset_bytes + last.num_bytes == offset:
            merged[-1] = Range(allocation, last.offset_bytes, last.num_bytes + size)
        else:
            merged.append(Range(allocation, offset, size))
    return tuple(merged)


def copies(
    lanes: Sequence[Lane], blocks: Sequence[int], *, first_block: int = 0
) -> tuple[Copy, ...]:
    """The copies between some blocks of a group and the host slot of their chunk.

    ``blocks[0]`` is the chunk's block number ``first_block``, so a request that enters a chunk
    in its middle passes the number of blocks to skip. The copies come in the order of the slot;
    neighbours that are adjacent on both sides are one copy.
    """
    merged: list[Copy] = []
    for copy in _pieces(lanes, blocks, first_block):
        last = merged[-1] if merged else None
        if last is not None and _follows(last, copy):
            merged[-1] = Copy(
                last.allocation,
                last.offset_bytes,
                last.slot_offset_bytes,
                last.num_bytes + copy.num_bytes,
            )
        else:
            merged.append(copy)
    return tuple(merged)


def _pieces(lanes: Sequence[Lane], blocks: Sequence[int], first_block: int) -> Iterator[Copy]:
    row_bytes = sum(lane.num_bytes for lane in lanes)
    for index, block in enumerate(blocks, start=first_block):
        for lane in lanes:
            yield Copy(
                lane.allocation,
                lane.offset_bytes + block * lane.stride_bytes,
                index * row_bytes + lane.row_offset_bytes,
                lane.num_bytes,
            )


def _follows(last: Copy, copy: Copy) -> bool:
    return (
        last.allocation == copy.allocation
        and last.offset_bytes + last.num_bytes == copy.offset_bytes
        and last.slot_offset_bytes + last.num_bytes == copy.slot_offset_bytes
    )


def chunk_ranges(plan: Plan, group: int, blocks: Sequence[int]) -> tuple[Range, ...]:
    """The bytes that a chunk of ``group`` with these block ids occupies on the device.

    One range per block when packed, one per layer and block when not; adjacent ones merged.
    """
    return ranges(lanes(plan, group), blocks)


def chunk_copies(
    plan: Plan, group: int, blocks: Sequence[int], *, first_block: int = 0
) -> tuple[Copy, ...]:
    """The copies that store or load these blocks of a chunk of ``group``: see :func:`copies`.

    The slot is ``blocks_per_chunk * plan.groups[group].row_bytes`` long.
    """
    return copies(lanes(plan, group), blocks, first_block=first_block)
