"""What the books of host memory are written in: chunks, what is known of them, sums. No torch."""

from __future__ import annotations

import enum
from typing import NamedTuple

from attrs import frozen

from kvengine.runtime.places import Place
from kvengine.runtime.policies import Evictable

__all__ = ["Chunk", "Found", "PoolStats", "Prepared", "Span", "covers"]


class Found(enum.Enum):
    """What a tier knows of a chunk."""

    MISS = "miss"
    HIT = "hit"
    PENDING = "pending"
    """On its way in, or being found out; ask again soon."""
    BEHIND = "behind"
    """Not in host memory, but in a tier behind it."""


Span = tuple[int, int]
"""Blocks of a chunk: the first one's number within the chunk, and how many."""


class Chunk(Evictable):
    """One chunk in host memory, filled in by the pool. ``place`` is exactly its payload."""

    __slots__ = ("found", "pins", "place", "span")

    found: Found
    pins: int
    place: Place
    span: Span | None


class Prepared(NamedTuple):
    """What a store may write: ``keys[i]`` goes to ``places[i]``.

    ``present`` keys are there or on their way already, ``refused`` ones found no place or were
    not admitted, and ``evicted`` ones had to leave.
    """

    keys: list[bytes]
    places: list[Place]
    present: list[bytes]
    refused: list[bytes]
    evicted: list[bytes]


@frozen(kw_only=True)
class PoolStats:
    """Gauges, and counters since the pool was made."""

    capacity_bytes: int
    resident_bytes: int
    """Payload of the chunks that can be loaded."""
    pending_bytes: int
    pinned_bytes: int
    free_bytes: int
    resident_chunks: int
    pinned_chunks: int
    lookups: int
    hits: int
    misses: int
    stores: int
    failed_stores: int
    evictions: int
    not_admitted: int
    no_room: int


def covers(chunk: Chunk, span: Span | None) -> bool:
    """Whether a chunk has these blocks; None stands for all of them."""
    if chunk.span is None:
        return True
    if span is None:
        return False
    first, count = chunk.span
    return first <= span[0] and span[0] + span[1] <= first + count
