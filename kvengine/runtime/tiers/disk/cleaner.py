"""Makes room ahead of need: the oldest segment's file becomes a spare, what was wanted moves on.

Plain first-in first-out loses a tenth of an LRU's hits on the Mooncake conversation trace; with
the chunks that somebody asked for since they were written moved to the newest segment (a clock
over segments) it has them, for a fifth more writes. At most half a segment is moved, so that
every round gains room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvengine.runtime.tiers.disk.blockio import aligned_buffer
from kvengine.runtime.tiers.disk.catalog import Catalog, Place
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES, MAX_EXTENT_ENTRIES, Entry
from kvengine.runtime.tiers.disk.journal import Journal, NoRoom
from kvengine.runtime.tiers.disk.segment import Device, Record, Segment
from kvengine.runtime.tiers.disk.space import Space
from kvengine.units import align_up

__all__ = ["Cleaner"]

_RUN_BYTES = 8 << 20


class Cleaner:
    """Keeps one spare file while the journal may not grow. Used by one thread."""

    def __init__(self, device: Device, catalog: Catalog, space: Space, journal: Journal) -> None:
        self._space = space
        self._device = device
        self._catalog = catalog
        self._journal = journal
        self.moved_bytes = 0
        """Payload that was written again because somebody wanted it."""

    def clean(self) -> None:
        """Turn the oldest segment into a spare if there is none and the limit is reached."""
        if not self._space.full or self._journal.num_spares:
            return
        victim = self._journal.oldest()
        if victim is not None:
            self._move_on(victim)
            self._journal.retire(victim, keep_file=True)

    def _move_on(self, victim: Segment) -> None:
        """Write the wanted chunks of a segment anew. OSError."""
        left_bytes = victim.header.segment_bytes // 2
        wanted = sorted(self._catalog.wanted_in(victim), key=lambda place: place.entry.offset)
        for run in _runs(wanted, min(_RUN_BYTES, victim.header.segment_bytes // 16)):
            run_bytes = sum(align_up(place.entry.length, BLOCK_BYTES) for place in run)
            left_bytes -= run_bytes
            if left_bytes < 0 or not self._move(victim, run, run_bytes):
                return

    def _move(self, victim: Segment, run: Sequence[Place], run_bytes: int) -> bool:
        room = aligned_buffer(run_bytes)
        payloads = _cut(room, [place.entry.length for place in run])
        if not victim.pin():
            return False
        try:
            for place, payload in zip(run, payloads, strict=True):
                self._device.read(victim.file, place.entry.offset, [payload])
        finally:
            victim.unpin()
        found = [
            Record.of(place.entry.key, payload)
            for place, payload in zip(run, payloads, strict=True)
        ]
        old = {place.entry.key: place for place in run}
        good = [record for record in found if record.checksum == old[record.key].entry.checksum]
        return not good or self._write(good, old)

    def _write(self, records: Sequence[Record], old: Mapping[bytes, Place]) -> bool:
        deleted: list[bytes] = []

        def enter(segment: Segment, entries: Sequence[Entry]) -> None:
            moved = [self._catalog.move(old[entry.key], segment, entry) for entry in entries]
            deleted.extend(e.key for e, found in zip(entries, moved, strict=True) if not found)

        try:
            self._journal.write(records, enter)
            if deleted:
                self._journal.write_deleted(deleted)
        except NoRoom:
            return False
        self.moved_bytes += sum(len(record.payload) for record in records)
        return True


def _runs(places: Sequence[Place], most_bytes: int) -> Iterator[list[Place]]:
    """Places in groups that one write moves, of ``most_bytes`` at most, or one larger chunk."""
    run: list[Place] = []
    run_bytes = 0
    for place in places:
        size = align_up(place.entry.length, BLOCK_BYTES)
        if run and (run_bytes + size > most_bytes or len(run) == MAX_EXTENT_ENTRIES):
            yield run
            run, run_bytes = [], 0
        run.append(place)
        run_bytes += size
    if run:
        yield run


def _cut(room: memoryview, lengths: Sequence[int]) -> list[memoryview]:
    """Payloads next to each other, each from the start of a block."""
    views = []
    start = 0
    for length in lengths:
        views.append(room[start : start + length])
        start += align_up(length, BLOCK_BYTES)
    return views
