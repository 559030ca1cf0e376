"""One segment in use: where its next extent goes, what it holds, and who is reading it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from attrs import frozen
from xxhash import xxh3_128_digest

from kvengine.runtime.tiers.disk.blockio import BlockIO
from kvengine.runtime.tiers.disk.descriptors import Descriptors, FileName
from kvengine.runtime.tiers.disk.format import (
    BLOCK_BYTES,
    Entry,
    SegmentHeader,
    extent_head_bytes,
    index_bytes,
    pack_extent_head,
    pack_index,
)
from kvengine.units import align_up

__all__ = [
    "Device",
    "Record",
    "Reservation",
    "Segment",
    "extent_bytes",
    "seal",
    "unseal",
    "write_extent",
    "write_header",
]


class Device:
    """What segments need to reach their files: so many reads at a time.

    There is a thread more than may read, so that checksums are verified meanwhile.
    """

    def __init__(self, io: BlockIO, descriptors: Descriptors, *, reads: int) -> None:
        self.io = io
        self.descriptors = descriptors
        self._reads = threading.Semaphore(reads)

    def read(self, file: FileName, offset: int, pieces: Sequence[memoryview]) -> None:
        """Fill pieces from a file's bytes at ``offset``; OSError."""
        with self._reads, self.descriptors.borrow(file) as fd:
            self.io.read(fd, offset, pieces, file.path)

    def write(self, file: FileName, offset: int, pieces: Sequence[memoryview]) -> None:
        """Write pieces to a file at ``offset``; OSError."""
        with self.descriptors.borrow(file) as fd:
            self.io.write(fd, offset, pieces, file.path)


class Record(NamedTuple):
    """A chunk to be written."""

    key: bytes
    payload: memoryview
    checksum: bytes

    @classmethod
    def of(cls, key: bytes, payload: memoryview) -> Record:
        """With the checksum that belongs to it."""
        return cls(key, payload, xxh3_128_digest(payload))


@frozen
class Reservation:
    """The place of an extent that is about to be written."""

    segment: Segment
    offset: int
    lengths: tuple[int, ...]

    @property
    def payload_offsets(self) -> list[int]:
        """Where each payload goes."""
        offsets = []
        offset = self.offset + extent_head_bytes(len(self.lengths))
        for length in self.lengths:
            offsets.append(offset)
            offset += align_up(length, BLOCK_BYTES)
        return offsets


def extent_bytes(lengths: Sequence[int]) -> int:
    """What an extent of chunks of these lengths occupies."""
    return extent_head_bytes(len(lengths)) + sum(align_up(n, BLOCK_BYTES) for n in lengths)


class Segment:
    """A segment from the time its header is written until its file is used for another.

    ``gone`` segments are never read again: ``pin`` says so. The counts are guarded by ``lock``;
    the rest changes only under the lock of the ``Journal`` that the segment belongs to.
    """

    def __init__(self, file: FileName, header: SegmentHeader) -> None:
        self.file = file
        self.header = header
        self.lock = threading.Condition(threading.Lock())
        self.tail = BLOCK_BYTES
        self.entries: list[Entry] = []
        self.reserved = 0
        self.writing = 0
        self.sealed = False
        self.pins = 0
        self.gone = False

    def reserve(self, lengths: Sequence[int]) -> Reservation | None:
        """Room for an extent of the first of these chunks, and the index; None if none fits."""
        for count in range(len(lengths), 0, -1):
            some = tuple(lengths[:count])
            end = self.tail + extent_bytes(some)
            if end + index_bytes(self.reserved + count) <= self.header.segment_bytes:
                place = Reservation(self, self.tail, some)
                self.tail = end
                self.reserved += count
                self.writing += 1
                return place
        return None

    def pin(self) -> bool:
        """Keep the segment's bytes in place until ``unpin``; False if they are gone already."""
        with self.lock:
            if self.gone:
                return False
            self.pins += 1
            return True

    def unpin(self) -> None:
        """End what ``pin`` began."""
        with self.lock:
            self.pins -= 1
            if not self.pins:
                self.lock.notify_all()

    def retire(self, timeout_s: float) -> bool:
        """Let nobody begin to read; True once nobody reads any more."""
        with self.lock:
            self.gone = True
            return self.lock.wait_for(lambda: self.pins == 0, timeout_s)

    def restore(self, entries: Sequence[Entry], end: int = 0) -> None:
        """Know what was written to the segment earlier; ``end`` is where writing got to."""
        self.entries.extend(entries)
        self.reserved = len(self.entries)
        last = max(entries, key=itemgetter(1), default=None)  # by offset
        if last is not None:
            end = max(end, last.offset + align_up(last.length, BLOCK_BYTES))
        self.tail = max(self.tail, end)


def write_header(device: Device, file: FileName, header: SegmentHeader) -> Segment:
    """Begin a segment in a file: whatever it held is no more. OSError."""
    device.write(file, 0, [memoryview(header.pack())])
    return Segment(file, header)


def write_extent(device: Device, place: Reservation, records: Sequence[Record]) -> list[Entry]:
    """Write chunks where room was reserved for them; their entries. OSError."""
    entries = [
        Entry(record.key, offset, len(record.payload), record.checksum)
        for record, offset in zip(records, place.payload_offsets, strict=True)
    ]
    end = place.offset + extent_bytes(place.lengths)
    head = pack_extent_head(place.segment.header.nonce, place.offset, end, entries)
    pieces = [memoryview(head), *(record.payload for record in records)]
    device.write(place.segment.file, place.offset, pieces)
    return entries


def seal(device: Device, segment: Segment) -> None:
    """Write the index that spares the next start a scan. OSError."""
    index = pack_index(segment.header.nonce, segment.entries)
    offset = segment.header.segment_bytes - len(index)
    device.write(segment.file, offset, [memoryview(index)])


def unseal(device: Device, segment: Segment) -> None:
    """Take the index away, so that the segment can be written on. OSError."""
    zeros = memoryview(bytes(BLOCK_BYTES))
    device.write(segment.file, segment.header.segment_bytes - BLOCK_BYTES, [zeros])
    segment.sealed = False
