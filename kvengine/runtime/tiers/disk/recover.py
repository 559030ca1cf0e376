"""What a segment file holds, told from the file alone (cases R14, R15): by its index, or a scan."""

from __future__ import annotations

import logging

from xxhash import xxh3_128_digest

from kvengine.runtime.tiers.disk.blockio import aligned_buffer
from kvengine.runtime.tiers.disk.descriptors import FileName
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import (
    BLOCK_BYTES,
    MAX_EXTENT_ENTRIES,
    Entry,
    Extent,
    SegmentHeader,
    extent_head_bytes,
    parse_extent_head,
    parse_index,
    parse_trailer,
)
from kvengine.runtime.tiers.disk.segment import Device, Segment

__all__ = ["load", "read_extent", "read_header", "read_sealed", "scan"]

_log = logging.getLogger(__name__)
_PIECE_BYTES = 8 << 20


def load(files: Files, device: Device, file: FileName, namespace: str) -> Segment | None:
    """The segment in a file, as far as it is whole; None, and a log line, if it is none of ours.

    A sealed segment takes two or three reads; any other is read completely and each payload is
    verified, so that nothing torn is ever found. OSError if the file cannot be read.
    """
    found_bytes = files.stat(file.name, file.dir_fd).st_size
    header = read_header(device, file) if found_bytes >= BLOCK_BYTES else None
    if header is None:
        _log.info("%s holds no segment", file.path)
        return None
    if header.identity != namespace or found_bytes != header.segment_bytes:
        _log.warning(
            "%s is no whole segment of this namespace (%d of %d bytes)",
            file.path,
            found_bytes,
            header.segment_bytes,
        )
        return None
    return read_sealed(device, file, header) or scan(device, file, header)


def read_header(device: Device, file: FileName) -> SegmentHeader | None:
    """The header of a file; None if it has no good one. OSError."""
    block = aligned_buffer(BLOCK_BYTES)
    device.read(file, 0, [block])
    return SegmentHeader.parse(block)


def read_sealed(device: Device, file: FileName, header: SegmentHeader) -> Segment | None:
    """A segment by its index; None if it has no good one. OSError."""
    block = aligned_buffer(BLOCK_BYTES)
    device.read(file, header.segment_bytes - BLOCK_BYTES, [block])
    size = parse_trailer(block, header.nonce)
    if size is None or size > header.segment_bytes - BLOCK_BYTES:
        return None
    index = aligned_buffer(size)
    device.read(file, header.segment_bytes - size, [index])
    entries = parse_index(index)
    if entries is None:
        return None
    segment = Segment(file, header)
    segment.restore(entries)
    segment.sealed = True
    return segment


def scan(device: Device, file: FileName, header: SegmentHeader) -> Segment:
    """A segment by its extents, each payload verified; what is torn is left out. OSError."""
    room = aligned_buffer(header.segment_bytes)
    for start in range(0, len(room), _PIECE_BYTES):
        device.read(file, start, [room[start : start + _PIECE_BYTES]])
    entries: list[Entry] = []
    offset = end = BLOCK_BYTES
    while offset < len(room):
        extent = parse_extent_head(room, header, offset)
        if extent is None:
            offset += BLOCK_BYTES
            continue
        end = max(end, extent.end)
        good = [entry for entry in extent.entries if _verified(room, entry)]
        entries += good
        offset = extent.end if len(good) == len(extent.entries) else offset + BLOCK_BYTES
    segment = Segment(file, header)
    segment.restore(entries, end)
    return segment


def read_extent(device: Device, segment: Segment, offset: int) -> Extent | None:
    """The extent at an offset of a segment that another process writes; None if none is there.

    Its payloads may still be on their way: reading one verifies it. OSError.
    """
    room_bytes = min(extent_head_bytes(MAX_EXTENT_ENTRIES), segment.header.segment_bytes - offset)
    if room_bytes < BLOCK_BYTES:
        return None
    room = aligned_buffer(room_bytes)
    device.read(segment.file, offset, [room])
    return parse_extent_head(room, segment.header, offset, room_at=offset)


def _verified(room: memoryview, entry: Entry) -> bool:
    payload = room[entry.offset : entry.offset + entry.length]
    return len(payload) == entry.length and xxh3_128_digest(payload) == entry.checksum
