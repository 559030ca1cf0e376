"""How a segment looks on disk: every structure names its segment and carries its own checksum.

A segment is one file of fixed size, laid out in blocks of 4096 bytes::

    header                      magic, size, nonce, sequence, identity
    extent, extent, ...         a head with its entries, then their payloads, each from a block's
                                start; written in one go, possibly with gaps between extents
    index                       all entries again and a trailer at the very end: sealed

The nonce is drawn anew whenever a segment is (re)used, so that nothing left over in a reused file
can be taken for its content. An entry holds the checksum of its payload (xxh3-128), which is
verified on every read. Integers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attrs import frozen
from xxhash import xxh3_128_digest

from kvengine.plan.tiers import DISK_BLOCK_BYTES
from kvengine.units import align_up

__all__ = [
    "BLOCK_BYTES",
    "FORMAT_VERSION",
    "MAX_EXTENT_ENTRIES",
    "MAX_KEY_BYTES",
    "Entry",
    "Extent",
    "SegmentHeader",
    "extent_head_bytes",
    "index_bytes",
    "pack_extent_head",
    "pack_index",
    "parse_extent_head",
    "parse_index",
    "parse_trailer",
]

FORMAT_VERSION = 1
BLOCK_BYTES = DISK_BLOCK_BYTES
MAX_KEY_BYTES = 67
MAX_EXTENT_ENTRIES = 256

_ENTRY = struct.Struct("<16sQIB67s")
_HEADER = struct.Struct("<8sIQ16sQ32s")
_EXTENT = struct.Struct("<8s16sQII")
_TRAILER = struct.Struct("<8s16sQI16s")
_SUM_BYTES = 16


class Entry(NamedTuple):
    """One chunk in a segment; with ``length`` 0 it says that the key was deleted."""

    key: bytes
    offset: int
    length: int
    checksum: bytes


@frozen
class SegmentHeader:
    """The first block of a segment."""

    segment_bytes: int
    nonce: bytes
    sequence: int
    """Order of use within a namespace; never the same twice."""
    identity: str

    def pack(self) -> bytes:
        """One block."""
        body = _HEADER.pack(
            b"kvsegmnt",
            FORMAT_VERSION,
            self.segment_bytes,
            self.nonce,
            self.sequence,
            self.identity.encode(),
        )
        return (body + xxh3_128_digest(body)).ljust(BLOCK_BYTES, b"\0")

    @classmethod
    def parse(cls, block: memoryview) -> SegmentHeader | None:
        """The header in a block; None if it is none, torn, or of another format version."""
        body = bytes(block[: _HEADER.size])
        checksum = bytes(block[_HEADER.size : _HEADER.size + _SUM_BYTES])
        if len(body) < _HEADER.size or xxh3_128_digest(body) != checksum:
            return None
        magic, version, size, nonce, sequence, identity = _HEADER.unpack(body)
        if magic != b"kvsegmnt" or version != FORMAT_VERSION:
            return None
        return cls(size, nonce, sequence, identity.decode("ascii", "replace"))


@frozen
class Extent:
    """What the head of an extent says: where it ends and what it holds."""

    end: int
    entries: Sequence[Entry]


def extent_head_bytes(num_entries: int) -> int:
    """Bytes before the first payload of an extent."""
    return align_up(_EXTENT.size + num_entries * _ENTRY.size + _SUM_BYTES, BLOCK_BYTES)


def index_bytes(num_entries: int) -> int:
    """Bytes at the end of a segment that sealing it takes."""
    return align_up(num_entries * _ENTRY.size + _TRAILER.size + _SUM_BYTES, BLOCK_BYTES)


def pack_extent_head(nonce: bytes, offset: int, end: int, entries: Sequence[Entry]) -> bytes:
    """The head of the extent at ``offset:end`` of a segment."""
    body = _EXTENT.pack(b"kvextent", nonce, offset, end - offset, len(entries))
    body += _pack_entries(entries)
    return (body + xxh3_128_digest(body)).ljust(extent_head_bytes(len(entries)), b"\0")


def parse_extent_head(
    room: memoryview, header: SegmentHeader, offset: int, room_at: int = 0
) -> Extent | None:
    """The extent at ``offset`` of a segment, of which ``room`` holds the bytes from ``room_at`` on.

    None if no extent of this use of the segment begins there.
    """
    at = offset - room_at
    magic, nonce, own_offset, extent_bytes, count = _EXTENT.unpack_from(room, at)
    if magic != b"kvextent" or nonce != header.nonce or own_offset != offset:
        return None
    end, body_bytes = offset + extent_bytes, _EXTENT.size + count * _ENTRY.size
    body = room[at : at + body_bytes]
    checksum = room[at + body_bytes : at + body_bytes + _SUM_BYTES]
    if end > header.segment_bytes or xxh3_128_digest(body) != bytes(checksum):
        return None
    return Extent(end, _parse_entries(body[_EXTENT.size :]))


def pack_index(nonce: bytes, entries: Sequence[Entry]) -> bytes:
    """What goes to the very end of a segment to seal it; its last bytes are the trailer."""
    body = _pack_entries(entries)
    trailer = _TRAILER.pack(b"kvtrailr", nonce, len(entries), 0, xxh3_128_digest(body))
    trailer += xxh3_128_digest(trailer)
    return body.rjust(index_bytes(len(entries)) - len(trailer), b"\0") + trailer


def parse_trailer(last_block: memoryview, nonce: bytes) -> int | None:
    """The bytes of the index that ends with this block; None if the segment is not sealed."""
    start = len(last_block) - _TRAILER.size - _SUM_BYTES
    body = bytes(last_block[start : start + _TRAILER.size])
    if xxh3_128_digest(body) != bytes(last_block[start + _TRAILER.size :]):
        return None
    magic, trailer_nonce, count, _, _ = _TRAILER.unpack(body)
    if magic != b"kvtrailr" or trailer_nonce != nonce:
        return None
    return index_bytes(count)


def parse_index(index: memoryview) -> Sequence[Entry] | None:
    """The entries of a whole index whose trailer was found good; None if they are torn."""
    start = len(index) - _TRAILER.size - _SUM_BYTES
    _, _, count, _, checksum = _TRAILER.unpack_from(index, start)
    body = index[start - count * _ENTRY.size : start]
    return _parse_entries(body) if xxh3_128_digest(body) == checksum else None


def _pack_entries(entries: Iterable[Entry]) -> bytes:
    pack = _ENTRY.pack
    return b"".join(
        pack(checksum, offset, length, len(key), key) for key, offset, length, checksum in entries
    )


def _parse_entries(body: memoryview) -> list[Entry]:
    return [
        Entry(key[:key_bytes], offset, length, checksum)
        for checksum, offset, length, key_bytes, key in _ENTRY.iter_unpack(body)
    ]
