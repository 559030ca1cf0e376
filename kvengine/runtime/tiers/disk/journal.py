"""The segments of one owner, in the order of writing: the newest is written, the oldest leaves.

A segment's file is made once, at its full size, and used again for newer segments when it is the
oldest and the limit is reached: nothing grows, and writing needs no new blocks from the file
system. A write costs the same however much there is, and readers never wait for it (case R15).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from kvengine.runtime.tiers.complaints import Complaints
from kvengine.runtime.tiers.disk.catalog import Catalog
from kvengine.runtime.tiers.disk.descriptors import FileName
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import Entry, SegmentHeader
from kvengine.runtime.tiers.disk.segment import (
    Device,
    Record,
    Reservation,
    Segment,
    seal,
    unseal,
    write_extent,
    write_header,
)
from kvengine.runtime.tiers.disk.space import Space
from kvengine.units import format_bytes

__all__ = ["Fsync", "Journal", "NoRoom"]

_log = logging.getLogger(__name__)
_RETIRE_S = 1.0
_MOST_UNSEALED = 2  # more are sealed by those who write; a start after a kill scans them

Fsync = Literal["never", "seal", "put"]
Enter = Callable[[Segment, Sequence[Entry]], None]


class NoRoom(Exception):  # noqa: N818 - an answer, not a fault
    """There is no room for a segment, and nothing that could make some."""


class Journal:
    """Where this owner's chunks are written. Thread-safe."""

    def __init__(
        self, files: Files, device: Device, space: Space, catalog: Catalog, fsync: Fsync
    ) -> None:
        self.evictions = 0
        """Chunks that left because their segment's file was needed."""
        self.on_full: Callable[[], None] = lambda: None
        """Called when a segment was closed and another begun, and when one can be sealed."""
        self._files = files
        self._device = device
        self._space = space
        self._catalog = catalog
        self._fsync = fsync
        self._complaints = Complaints(_log)
        self._lock = threading.RLock()
        self._active: Segment | None = None
        self._closed: list[Segment] = []
        self._full: list[Segment] = []
        self._sealing: list[Segment] = []
        self._spares: list[FileName] = []
        self._starting: FileName | None = None
        self._next: Segment | None = None
        self._sequence = 0

    @property
    def used_bytes(self) -> int:
        """What the segment files of this owner occupy."""
        with self._lock:
            sizes = [segment.header.segment_bytes for segment in self._segments()]
            num_empty = len(self._spares) + (self._starting is not None)
            return sum(sizes) + num_empty * self._space.segment_bytes

    @property
    def num_spares(self) -> int:
        """Files that lie ready for the next segments."""
        return len(self._spares) + (self._next is not None)

    def prepare(self) -> None:
        """Have a file ready for the next segment while this one is written, if there is room."""
        with self._lock:
            if self.num_spares or self._active is None or self._space.full:
                return
            own_bytes = self.used_bytes
        file = self._grow(own_bytes)
        if file is not None:
            with self._lock:
                self._spares.append(file)

    def begin_next(self) -> None:
        """Begin the next segment in a spare file, so that no write has to wait for that. OSError.

        Used by one thread.
        """
        with self._lock:
            if self._next is not None or self._active is None or not self._spares:
                return
            file = self._starting = self._spares.pop(0)
        try:
            begun = self._begin(file)
        except OSError:
            with self._lock:
                self._starting = None
            raise
        with self._lock:
            self._starting = None
            if self._active and self._active.header.sequence < begun.header.sequence:
                self._next = begun
            else:  # writers were quicker
                self._spares.append(begun.file)

    def write(self, records: Sequence[Record], enter: Enter | None = None) -> None:
        """Write chunks next to each other; when they are on disk, ``enter`` makes them known.

        Those that do not fit into the segment that is being written go to the next. Raises
        ``NoRoom``, or ``OSError``; then none of those that are left is known.
        """
        while records:
            place = self._reserve([len(record.payload) for record in records])
            count = len(place.lengths)
            self._write(place, records[:count], enter or self._catalog.add)
            records = records[count:]

    def write_deleted(self, keys: Sequence[bytes]) -> None:
        """Write that keys were deleted, for the next start. Raises as ``write`` does."""
        self.write([Record.of(key, memoryview(b"")) for key in keys], lambda *_: None)

    def oldest(self) -> Segment | None:
        """The segment that leaves next; None when there is none that could."""
        with self._lock:
            return next(self._victims(), None)

    def retire(self, segment: Segment, *, keep_file: bool) -> bool:
        """Give a segment up and keep its file for the next, or remove it; False if it is read."""
        with self._lock:
            if segment not in self._closed:
                return True
            self.evictions += self._catalog.drop_segment(segment)
            if not segment.retire(_RETIRE_S):
                _log.warning("%s is still being read; another goes first", segment.file.path)
                return False
            self._closed.remove(segment)
            if keep_file and segment.header.segment_bytes == self._space.segment_bytes:
                self._spares.append(segment.file)
            else:
                self._space.remove(segment.file)
            return True

    def add(self, found: Sequence[Segment]) -> None:
        """Take over complete segments of the lane, as of a former owner."""
        with self._lock:
            for segment in sorted(found, key=lambda segment: segment.header.sequence):
                self._catalog.add(segment, segment.entries)
                self._closed.append(segment)
                if not segment.sealed:
                    self._full.append(segment)
            self._closed.sort(key=lambda segment: segment.header.sequence)
            if self._closed:
                self._sequence = max(self._sequence, self._closed[-1].header.sequence)

    def resume(self) -> None:
        """Write on in the newest segment if there is much room, seal what a crash left."""
        with self._lock:
            newest = self._closed[-1] if self._closed else None
            if newest and newest.tail < newest.header.segment_bytes // 4 * 3:
                try:
                    if newest.sealed:
                        unseal(self._device, newest)
                    self._active = self._closed.pop()
                    self._full = [segment for segment in self._full if segment is not newest]
                except OSError as error:
                    _log.warning("%s cannot be written on: %s", newest.file.path, error)
        self.seal_full()

    @property
    def num_unsealed(self) -> int:
        """Full segments that still lack their index, and with fsync "seal" their place on disk."""
        with self._lock:
            return len(self._full) + len(self._sealing)

    def seal_full(self) -> None:
        """Write the index of each full segment that nobody writes to any more."""
        while self._seal_one():
            pass

    def shrink(self, most_bytes: int) -> None:
        """Remove segments, oldest first, until this owner occupies ``most_bytes`` at most."""
        while self.used_bytes > most_bytes:
            with self._lock:
                self._spare_next()
                if self._spares:
                    self._space.remove(self._spares.pop())
                    continue
            oldest = self.oldest()
            if oldest is None or not self.retire(oldest, keep_file=False):
                return

    def drop_missing(self) -> None:
        """Forget segments whose files somebody removed, so that their space is free. OSError."""
        with self._lock:
            names = self._space.names()
            self._spare_next()
            self._spares = [file for file in self._spares if file.name in names]
            if self._active is not None and self._active.file.name not in names:
                self._closed.append(self._active)
                self._active = None
            for segment in [s for s in self._closed if s.file.name not in names]:
                _log.warning("%s is gone, and the chunks in it", segment.file.path)
                self.retire(segment, keep_file=False)

    def abandon(self) -> None:
        """Give everything up without touching the files, which are not ours any more."""
        with self._lock:
            self._spare_next()
            left = self._segments()
            files = [*(segment.file for segment in left), *self._spares]
            self._active, self._closed, self._full, self._spares = None, [], [], []
        for segment in left:
            self._catalog.drop_segment(segment)
            segment.retire(0.0)
        for file in files:
            self._device.descriptors.forget(file)

    def close(self) -> None:
        """Seal what is being written, so that the next start need not scan it."""
        with self._lock:
            active, self._active = self._active, None
            self._spare_next()
            for file in self._spares:
                self._space.remove(file)
            self._spares = []
            if active is not None:
                self._closed.append(active)
                self._full.append(active)
        self.seal_full()

    def _write(self, place: Reservation, records: Sequence[Record], enter: Enter) -> None:
        try:
            entries = write_extent(self._device, place, records)
            if self._fsync == "put":
                self._sync(place.segment)
            with self._lock:
                place.segment.entries.extend(entries)
            enter(place.segment, entries)
        finally:
            with self._lock:
                place.segment.writing -= 1
                full = place.segment is not self._active and not place.segment.writing
            if full:
                self.on_full()
            while self.num_unsealed > _MOST_UNSEALED and self._seal_one():
                pass

    def _victims(self) -> Iterator[Segment]:
        """Segments that could leave now, the oldest first."""
        busy = self._sealing
        return (one for one in self._closed if not one.writing and one not in busy)

    def _segments(self) -> list[Segment]:
        return [*self._closed, *(s for s in (self._active, self._next) if s is not None)]

    def _spare_next(self) -> None:
        begun, self._next = self._next, None
        if begun is not None:
            self._spares.append(begun.file)

    def _reserve(self, lengths: Sequence[int]) -> Reservation:
        with self._lock:
            place = self._active.reserve(lengths) if self._active else None
            if place is None:
                place = self._roll().reserve(lengths)
        if place is None:
            raise NoRoom("the chunk is larger than a segment")
        return place

    def _roll(self) -> Segment:
        """Close the segment being written and begin another."""
        begun, self._next = self._next, None
        if begun is None:
            begun = self._begin(self._next_file())
        begun.file = self._taken(begun.file)
        full, self._active = self._active, begun
        if full is not None:
            self._closed.append(full)
            self._full.append(full)
        self.on_full()
        return begun

    def _begin(self, file: FileName) -> Segment:
        """A segment newer than all others; its file is a spare again after OSError."""
        with self._lock:
            self._sequence = max(self._sequence + 1, time.time_ns())
            header = SegmentHeader(
                self._space.segment_bytes,
                secrets.token_bytes(16),
                self._sequence,
                self._space.namespace,
            )
        try:
            file = self._space.lay_by(file)
            return write_header(self._device, file, header)
        except OSError:
            with self._lock:
                self._spares.append(file)
            raise

    def _taken(self, file: FileName) -> FileName:
        try:
            return self._space.take(file)
        except OSError:
            self._spares.append(file)
            raise

    def _next_file(self) -> FileName:
        """A file for the next segment: a spare one, a new one, or the oldest one's."""
        file = self._spares.pop(0) if self._spares else self._grow(self.used_bytes)
        for victim in list(self._victims()):
            if file is not None:
                break
            if self.retire(victim, keep_file=True):
                file = self._spares.pop(0) if self._spares else self._grow(self.used_bytes)
        if file is None:
            self._space.say_hungry(True)
            raise NoRoom("the limit is reached and no segment of ours could leave")
        return file

    def _grow(self, own_bytes: int) -> FileName | None:
        try:
            return self._space.grow(own_bytes)
        except OSError as error:
            if self.oldest() is None:
                raise
            self._space.full = True
            self._complaints.say(
                "grow", "%s cannot grow (%s): the oldest leaves", self._space.path, error
            )
            return None

    def _seal_one(self) -> bool:
        """Seal a segment that is full and written; False if there is none."""
        with self._lock:
            segment = next((segment for segment in self._full if not segment.writing), None)
            if segment is None:
                return False
            self._full.remove(segment)
            self._sealing.append(segment)
        try:
            self._seal(segment)
        finally:
            with self._lock:
                self._sealing.remove(segment)
        return True

    def _seal(self, segment: Segment) -> None:
        if not segment.pin():
            return
        segment.sealed = True
        try:
            seal(self._device, segment)
            if self._fsync != "never":
                self._sync(segment)
        except OSError as error:
            segment.sealed = False
            _log.warning(
                "%s stays without an index (%s): the next start scans its %s",
                segment.file.path,
                error,
                format_bytes(segment.header.segment_bytes),
            )
        finally:
            segment.unpin()

    def _sync(self, segment: Segment) -> None:
        with self._device.descriptors.borrow(segment.file) as fd:
            self._files.datasync(fd)
