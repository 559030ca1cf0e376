"""What kvengine's own tiers make of chunks: how many fit, for how many tokens, in what I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import lcm
from typing import Any

from attrs import frozen

from kvengine.plan.plan import Tier
from kvengine.units import align_up, ceil_div

__all__ = [
    "DISK_BLOCK_BYTES",
    "LEAST_SEGMENTS",
    "OWN_SPEC",
    "STORE_PART_BYTES",
    "Chunks",
    "least_limit_bytes",
    "least_segment_bytes",
    "part_bytes",
    "segment_bytes_of",
    "tiers_of",
]

OWN_SPEC = "KVEngineOffloadingSpec"
"""The spec that these tiers belong to."""
DISK_BLOCK_BYTES = 4096
"""A chunk takes whole blocks of a disk, as direct I/O wants them."""
LEAST_SEGMENTS = 4
"""Segments that the limit of a disk has to hold."""
_MIB = 1 << 20
_MOST_SEGMENT_BYTES = 256 * _MIB
STORE_PART_BYTES = 1 << 20
"""The most that one value of a shared store holds of a chunk."""


@frozen(kw_only=True)
class Chunks:
    """The chunks of every group: payload and tokens of each, and how many ranks keep one."""

    num_bytes: Sequence[int]
    tokens: Sequence[int]
    copies: int


def part_bytes(chunk_bytes: int) -> int:
    """The size of the values that a store keeps a chunk in: about equal ones."""
    return align_up(ceil_div(chunk_bytes, ceil_div(chunk_bytes, STORE_PART_BYTES)), 64)


def least_segment_bytes(chunk_bytes: int) -> int:
    """The smallest segment of a disk that holds a chunk: with its header, a head, and an index."""
    return align_up(chunk_bytes, DISK_BLOCK_BYTES) + 5 * DISK_BLOCK_BYTES


def segment_bytes_of(configured: int | None, max_bytes: int, chunk_bytes: int) -> int:
    """The size of a disk's segments: as configured, else suited to limit and largest chunk."""
    size = configured
    if size is None:
        least = 2 * least_segment_bytes(chunk_bytes)
        size = min(max(max_bytes // 128, _MIB, least), max(_MOST_SEGMENT_BYTES, least))
    return align_up(size, DISK_BLOCK_BYTES)


def least_limit_bytes(segment_bytes: int) -> int:
    """The smallest limit of a disk with such segments, and 1 MiB for what lies beside them."""
    return LEAST_SEGMENTS * segment_bytes + _MIB


def tiers_of(extra: Any, budget_bytes: int | None, chunks: Chunks) -> tuple[Tier, ...]:
    """Host memory and what ``secondary_tiers`` put behind it, for all ranks of an engine."""
    found = [_tier("host", budget_bytes, chunks)] if budget_bytes else []
    for tier in getattr(extra, "secondary_tiers", None) or ():
        read = tier.get if isinstance(tier, Mapping) else partial(getattr, tier)
        found.append(_tier(str(read("type", "")), read("max_bytes", None), chunks))
    return tuple(found)


def _tier(kind: str, limit: Any, chunks: Chunks) -> Tier:
    sizes = list(chunks.num_bytes)
    io_bytes: tuple[int, ...] = ()
    if kind == "fs":
        sizes = [align_up(size, DISK_BLOCK_BYTES) for size in sizes]
        io_bytes = tuple(sizes)
    elif kind == "valkey":
        io_bytes = tuple(min(size, part_bytes(size)) if size else 0 for size in sizes)
    capacity = limit if isinstance(limit, int) and limit > 0 else None
    each = [size * chunks.copies for size in sizes]
    return Tier(
        type=kind,
        capacity_bytes=capacity,
        num_chunks=tuple(capacity // size if capacity and size else None for size in each),
        tokens=_tokens(capacity, each, chunks.tokens),
        io_bytes=io_bytes,
    )


def _tokens(capacity: int | None, sizes: Sequence[int], tokens: Sequence[int]) -> int | None:
    """Tokens whose chunks of every group fit together."""
    if capacity is None or not all(sizes) or not all(tokens):
        return None
    unit = lcm(*tokens)
    whole = sum(size * (unit // each) for size, each in zip(sizes, tokens, strict=True))
    return capacity // whole * unit
