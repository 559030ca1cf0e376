"""Reading chunks into the caller's buffers, each verified; trouble ends in an outcome."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence

from xxhash import xxh3_128_digest

from kvengine.runtime.tiers.base import Outcome
from kvengine.runtime.tiers.complaints import Complaints
from kvengine.runtime.tiers.disk.catalog import Catalog, Place
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES, MAX_EXTENT_ENTRIES
from kvengine.runtime.tiers.disk.segment import Device
from kvengine.runtime.tiers.tally import Tally
from kvengine.units import align_up

__all__ = ["Reader", "Want", "runs"]

_log = logging.getLogger(__name__)
_FILE_GONE = {errno.ENOENT, errno.ESTALE, errno.ELOOP, errno.EPERM}
Want = tuple[int, Place, memoryview]
"""A chunk to be read: its index in the batch, where it lies, where it goes."""


def runs(wants: Sequence[Want], most_bytes: int) -> Iterator[list[Want]]:
    """Chunks in groups read in one go: next to each other on disk, ``most_bytes`` at most."""
    run: list[Want] = []
    run_bytes = 0
    for want in sorted(wants, key=lambda w: (w[1].segment.header.sequence, w[1].entry.offset)):
        size = align_up(want[1].entry.length, BLOCK_BYTES)
        if run and not (
            run[-1][1].segment is want[1].segment
            and _end(run[-1][1]) == want[1].entry.offset
            and run_bytes + size <= most_bytes
            and len(run) < MAX_EXTENT_ENTRIES
        ):
            yield run
            run, run_bytes = [], 0
        run.append(want)
        run_bytes += size
    if run:
        yield run


class Reader:
    """Reads what a catalog leads to. Thread-safe."""

    def __init__(self, device: Device, catalog: Catalog, tally: Tally) -> None:
        self._device = device
        self._catalog = catalog
        self._tally = tally
        self._complaints = Complaints(_log)

    def read(self, run: Sequence[Want]) -> list[tuple[int, Outcome]]:
        """What became of each chunk of a run; those that are ``DONE`` are verified."""
        segment = run[0][1].segment
        if not segment.pin():
            return self._read_moved(run)
        try:
            pieces = [view for _, _, view in run]
            self._device.read(segment.file, run[0][1].entry.offset, pieces)
            return [(index, self._verify(place, view)) for index, place, view in run]
        except OSError as error:
            if len(run) == 1:
                return [(run[0][0], self._failed(run[0][1], error))]
        finally:
            segment.unpin()
        return [outcome for want in run for outcome in self.read([want])]

    def _read_moved(self, run: Sequence[Want]) -> list[tuple[int, Outcome]]:
        """Try again, each by itself, where the catalog says that a chunk lies now."""
        outcomes: list[tuple[int, Outcome]] = []
        places = self._catalog.find([place.entry.key for _, place, _ in run])
        for (index, old, view), place in zip(run, places, strict=True):
            if place is None or place.segment is old.segment or place.entry.length != len(view):
                if place is old:
                    self._catalog.drop(old)
                outcomes.append((index, Outcome.MISS))
            else:
                outcomes += self.read([(index, place, view)])
        return outcomes

    def _verify(self, place: Place, view: memoryview) -> Outcome:
        if xxh3_128_digest(view) == place.entry.checksum:
            return Outcome.DONE
        if not self._catalog.drop(place) or not place.segment.file.writable:
            return Outcome.MISS  # somebody else found out, or its owner used the file anew
        self._complaints.say(
            "corrupt",
            "%s: the %d bytes at %d are not what was written there; the chunk is a miss",
            place.segment.file.path,
            place.entry.length,
            place.entry.offset,
        )
        return Outcome.CORRUPT

    def _failed(self, place: Place, error: OSError) -> Outcome:
        name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
        self._tally.failed(name)
        self._complaints.say(name, "%s cannot be read (%s): a miss", place.segment.file.path, error)
        if error.errno in _FILE_GONE:
            self._catalog.drop_segment(place.segment)
        else:
            self._catalog.drop(place)
        return Outcome.FAILED


def _end(place: Place) -> int:
    return place.entry.offset + align_up(place.entry.length, BLOCK_BYTES)
