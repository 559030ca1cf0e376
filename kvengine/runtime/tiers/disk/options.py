"""What can be set for a disk tier, with its defaults; keys as in ``secondary_tiers[]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import and_, ge, gt, in_, instance_of, min_len, optional

from kvengine.plan.tiers import (
    LEAST_SEGMENTS,
    least_limit_bytes,
    least_segment_bytes,
    segment_bytes_of,
)
from kvengine.runtime.tiers.base import TierError
from kvengine.units import format_bytes

__all__ = ["DiskOptions", "segment_bytes_for"]

_MIB = 1 << 20


def _count(least: int, default: int) -> Any:
    return field(default=default, validator=and_(instance_of(int), ge(least)))


@frozen(kw_only=True)
class DiskOptions:
    """A disk tier, as configured. ``root_dir`` and the thread counts are vLLM's own keys."""

    root_dir: str = field(validator=and_(instance_of(str), min_len(1)))
    max_bytes: int | None = field(default=None, validator=optional(and_(instance_of(int), ge(1))))
    """Hard limit over everything below ``root_dir``, all namespaces and processes together.

    None: nine tenths of what is free there at the start, and what the tier holds already.
    """
    segment_bytes: int | None = field(
        default=None, validator=optional(and_(instance_of(int), ge(_MIB)))
    )
    """Size of one segment file, the unit of eviction. None: a 128th of the limit, 1-256 MiB."""
    fsync: Literal["never", "seal", "put"] = field(
        default="never", validator=in_(("never", "seal", "put"))
    )
    """When to wait for the device: never (a killed process loses nothing that was stored, a power
    failure some, wrong bytes are impossible), soon after a segment is full (up to three and one per
    storing thread may wait), or before a put is done."""
    direct: bool | Literal["auto"] = field(default="auto", validator=in_((True, False, "auto")))
    """O_DIRECT: where it works, demanded, or not at all."""
    n_read_threads: int = _count(1, 4)
    n_write_threads: int = _count(1, 4)
    """Threads that load, and threads that store, and load when they have nothing to store; at most
    so many write at a time. One more of each kind computes checksums meanwhile."""
    queue_bytes: int = _count(1, 256 * _MIB)
    """Bytes that may wait in each queue; more is refused."""
    timeout_s: float = field(default=30.0, validator=gt(0))
    """Deadline of a batch that names none."""
    refresh_s: float = field(default=2.0, validator=gt(0))
    """How often to look for what other processes wrote, and after the directory itself."""


def segment_bytes_for(options: DiskOptions, max_bytes: int, chunk_bytes: Sequence[int]) -> int:
    """The size of a segment: as configured, else suited to the limit and the largest chunk.

    Raises TierError when a chunk does not fit, or the limit holds too few segments.
    """
    largest = max(chunk_bytes)
    size = segment_bytes_of(options.segment_bytes, max_bytes, largest)
    if size < least_segment_bytes(largest):
        raise TierError(
            f"segment_bytes of {format_bytes(size)} is too small for a chunk of "
            f"{format_bytes(largest)}; it takes {format_bytes(least_segment_bytes(largest))}"
        )
    if max_bytes < least_limit_bytes(size):
        raise TierError(
            f"max_bytes of {format_bytes(max_bytes)} is too small: "
            f"{LEAST_SEGMENTS} segments of {format_bytes(size)} and 1 MiB must fit"
        )
    return size
