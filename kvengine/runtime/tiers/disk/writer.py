"""Writing chunks from the caller's buffers, neighbours in one go; trouble is an outcome."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterator, Sequence
from functools import partial

from attrs import define

from kvengine.runtime.tiers.base import Batch, Outcome
from kvengine.runtime.tiers.complaints import Complaints
from kvengine.runtime.tiers.disk.catalog import Catalog
from kvengine.runtime.tiers.disk.format import MAX_EXTENT_ENTRIES, Entry
from kvengine.runtime.tiers.disk.journal import Journal, NoRoom
from kvengine.runtime.tiers.disk.segment import Record, Segment
from kvengine.runtime.tiers.tally import Tally

__all__ = ["Pending", "Put", "PutExtent", "Writer", "extents"]

_log = logging.getLogger(__name__)
Put = tuple[int, bytes, memoryview]
"""A chunk to be written: its index in the batch, its key, its bytes (none: it is deleted)."""


def extents(puts: Sequence[Put], most_bytes: int) -> Iterator[list[Put]]:
    """Chunks in groups written in one go, of ``most_bytes`` at most, or one larger chunk."""
    extent: list[Put] = []
    extent_bytes = 0
    for put in puts:
        full = extent_bytes + len(put[2]) > most_bytes or len(extent) == MAX_EXTENT_ENTRIES
        if extent and full:
            yield extent
            extent, extent_bytes = [], 0
        extent.append(put)
        extent_bytes += len(put[2])
    if extent:
        yield extent


class PutExtent:
    """Chunks of a batch that are written in one go."""

    def __init__(self, puts: Sequence[Put]) -> None:
        self.puts = puts
        self._records: list[Record] = []

    def compute(self) -> None:
        """Have the checksums ready."""
        if not self._records:
            self._records = [Record.of(key, payload) for _, key, payload in self.puts]

    def records(self) -> Sequence[Record]:
        """What is to be written."""
        self.compute()
        return self._records


@define(eq=False)
class _Written:
    """A key that is being written: where its outcome will stand."""

    batch: Batch
    index: int
    deleted: bool = False


class Pending:
    """The keys that are being written. Thread-safe."""

    def __init__(self) -> None:
        self._written: dict[bytes, _Written] = {}
        self._lock = threading.Lock()

    def enlist(self, batch: Batch, puts: Sequence[Put]) -> list[Put]:
        """What ``batch`` is to write; where another does already, its outcome is ours too."""
        mine: list[Put] = []
        others: list[tuple[int, _Written]] = []
        with self._lock:
            for put in puts:
                index, key, _ = put
                other = self._written.get(key)
                if other is None or other.batch is batch:
                    self._written[key] = _Written(batch, index)
                    mine.append(put)
                else:
                    others.append((index, other))
        for index, other in others:
            other.batch.when_done(partial(_follow, batch, index, other.index))
        return mine

    def strike(self, batch: Batch) -> None:
        """Nobody need wait for what ``batch`` writes: it is done."""
        with self._lock:
            for key in batch.keys:
                written = self._written.get(key)
                if written is not None and written.batch is batch:
                    del self._written[key]

    def delete(self, keys: Sequence[bytes], catalog: Catalog) -> list[bytes]:
        """Forget keys, those being written as well; the ones that a catalog led to."""
        with self._lock:
            for key in keys:
                if key in self._written:
                    self._written[key].deleted = True
            return catalog.delete(keys)

    def enter(
        self, batch: Batch, catalog: Catalog, segment: Segment, entries: Sequence[Entry]
    ) -> list[bytes]:
        """Let what was written be found, but for what was deleted meanwhile: those keys."""
        deleted: list[bytes] = []
        live: list[Entry] = []
        with self._lock:
            for entry in entries:
                written = self._written.get(entry.key)
                if written is not None and written.batch is batch and written.deleted:
                    deleted.append(entry.key)
                elif entry.length:  # what deletes a key was heeded when it was told
                    live.append(entry)
            catalog.add(segment, live)
        return deleted


class Writer:
    """Writes to a journal and says what became of it. Thread-safe."""

    def __init__(
        self, journal: Journal, catalog: Catalog, pending: Pending, tally: Tally, path: str
    ) -> None:
        self._journal = journal
        self._catalog = catalog
        self._pending = pending
        self._tally = tally
        self._path = path
        self._complaints = Complaints(_log)

    def write(self, batch: Batch, extent: PutExtent) -> Outcome:
        """Write one extent of a batch; the same outcome for all of it."""
        deleted: list[bytes] = []

        def enter(segment: Segment, entries: Sequence[Entry]) -> None:
            deleted.extend(self._pending.enter(batch, self._catalog, segment, entries))

        try:
            self._journal.write(extent.records(), enter)
            if deleted:
                self._journal.write_deleted(deleted)
        except NoRoom:
            self._tally.failed("NOROOM", len(extent.puts))
            return Outcome.REFUSED
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
            self._tally.failed(name, len(extent.puts))
            self._complaints.say(name, "%s cannot be written: %s", self._path, error)
            return Outcome.FAILED
        return Outcome.DONE


def _follow(batch: Batch, index: int, other_index: int, other: Batch) -> None:
    batch.settle(index, other.outcomes[other_index])
