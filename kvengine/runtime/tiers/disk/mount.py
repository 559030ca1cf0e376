"""A disk tier's directory in use: all that has to be opened anew when the directory vanishes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from kvengine.config.tiers.own import DiskOptions
from kvengine.plan.tiers import (
    LEAST_SEGMENTS,
    least_limit_bytes,
    least_segment_bytes,
    segment_bytes_of,
)
from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.blockio import BlockIO, DirectMode
from kvengine.runtime.tiers.disk.catalog import Catalog
from kvengine.runtime.tiers.disk.cleaner import Cleaner
from kvengine.runtime.tiers.disk.descriptors import Descriptors
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.disk.journal import Journal
from kvengine.runtime.tiers.disk.lane import Lane, adopt, claim
from kvengine.runtime.tiers.disk.peers import Peers
from kvengine.runtime.tiers.disk.probe import NO_SPACE, probe_direct
from kvengine.runtime.tiers.disk.reader import Reader
from kvengine.runtime.tiers.disk.recover import load
from kvengine.runtime.tiers.disk.root import Root
from kvengine.runtime.tiers.disk.segment import Device, Segment
from kvengine.runtime.tiers.disk.space import Space
from kvengine.runtime.tiers.disk.writer import Pending, Writer
from kvengine.runtime.tiers.identity import Identity
from kvengine.runtime.tiers.tally import Tally
from kvengine.units import format_bytes

__all__ = ["Mount"]

_log = logging.getLogger(__name__)
_FLYING_BLOCKS = (8 << 20) // BLOCK_BYTES  # with more under way a disk is not faster, but slower
_LEAST_CALL_BLOCKS = (1 << 20) // BLOCK_BYTES
_OPEN_LOCK_S = 30.0
_TICK_LOCK_S = 1.0


class Mount:
    """A lane of a namespace, owned and loaded.

    Opening takes over what ended processes of the same identity left. It raises TierError.
    """

    def __init__(
        self,
        files: Files,
        options: DiskOptions,
        identity: Identity,
        pending: Pending,
        tally: Tally,
        *,
        again: int | None = None,
    ) -> None:
        """Open; ``again`` after a loss: the directory must be there, on the device it was on."""
        started_s = time.monotonic()
        self.root = Root(files, options.root_dir, make_dir=again is None)
        with ExitStack() as undo:
            undo.callback(self.root.close)
            self.device_id = os.fstat(self.root.dir_fd).st_dev
            if again not in (None, self.device_id):
                raise TierError(f"{options.root_dir} is on another device than before")
            try:
                with self.root.locked(_OPEN_LOCK_S):
                    self.lane = claim(self.root, identity)
                    undo.callback(self.lane.close)
                    adopt(self.root, self.lane)
                    if options.max_bytes is not None:
                        self.root.make_room(0, options.max_bytes)
                    used_bytes = self.root.used_bytes()
                self._open(files, options, identity, used_bytes)
                self.reader = Reader(self.device, self.catalog, tally)
                self.writer = Writer(self.journal, self.catalog, pending, tally, self.lane.path)
            except OSError as error:
                raise TierError(f"{options.root_dir} cannot be used: {error}") from error
            undo.pop_all()
        _log.info(
            "disk tier %s: %d chunks of %s found in %.2f s; limit %s in segments of %s, %s I/O",
            self.lane.path,
            len(self.catalog),
            format_bytes(self.catalog.payload_bytes),
            time.monotonic() - started_s,
            format_bytes(self.space.max_bytes),
            format_bytes(self.space.segment_bytes),
            "buffered" if self.device.io.mode.memory_alignment is None else "direct",
        )

    def is_there(self) -> bool:
        """Whether the directories are still where they were."""
        return self.root.is_there() and os.fstat(self.lane.dir_fd).st_nlink > 0

    def tend(self) -> None:
        """Follow other owners, take over what ended ones left, make room for hungry ones."""
        self.journal.drop_missing()
        self.peers.refresh()
        for lane in self.root.lanes_of(self.lane.namespace):
            if lane.lane != self.lane.name and not self.root.has_owner(lane):
                self._take_over()
                break
        others = self.root.others(self.lane.namespace, self.lane.name)
        if others.hungry:
            self.journal.shrink(self.space.max_bytes // (1 + others.owners))
        self.space.full = False  # somebody may have left room: whoever needs some looks again

    def close(self) -> None:
        """Seal what is being written, close every file, and give the lane up."""
        self.journal.close()
        self.peers.close()
        self.device.descriptors.close()
        self.lane.close()
        self.root.close()

    def _open(
        self, files: Files, options: DiskOptions, identity: Identity, used_bytes: int
    ) -> None:
        lane = self.lane
        max_bytes = options.max_bytes
        if max_bytes is None:
            max_bytes = used_bytes + files.free_bytes(lane.dir_fd) * 9 // 10
        segment_bytes = _segment_bytes(options, max_bytes, identity.chunk_bytes)
        mode = _mode(files, lane, options)
        descriptors = Descriptors(files, mode)
        threads = max(options.n_read_threads, options.n_write_threads)
        self.device = Device(
            BlockIO(files, mode, max(_LEAST_CALL_BLOCKS, _FLYING_BLOCKS // threads) * BLOCK_BYTES),
            descriptors,
            reads=options.n_read_threads + options.n_write_threads,  # idle storers load as well
        )
        self.catalog = Catalog()
        self.space = Space(
            self.root, lane, descriptors, max_bytes=max_bytes, segment_bytes=segment_bytes
        )
        self.journal = Journal(files, self.device, self.space, self.catalog, options.fsync)
        self.cleaner = Cleaner(self.device, self.catalog, self.space, self.journal)
        self.peers = Peers(self.device, self.root, lane, self.catalog)
        self.journal.add(self._load(lane.segment_names()))
        self.journal.resume()
        excess_bytes = used_bytes - max_bytes
        if excess_bytes > 0:
            self.journal.shrink(max(0, self.journal.used_bytes - excess_bytes))
        self.peers.refresh()

    def _load(self, names: Sequence[str]) -> list[Segment]:
        found = []
        for name in names:
            file = self.space.file(name)
            try:
                segment = load(self.root.files, self.device, file, self.lane.namespace)
            except OSError as error:
                _log.warning("%s cannot be read (%s): its chunks are misses", file.path, error)
                continue
            if segment is None:
                self.space.remove(file)
            else:
                found.append(segment)
        return found

    def _take_over(self) -> None:
        with self.root.locked(_TICK_LOCK_S):
            names = adopt(self.root, self.lane, before=self.peers.leave)
        self.journal.add(self._load(names))


def _mode(files: Files, lane: Lane, options: DiskOptions) -> DirectMode:
    try:
        return probe_direct(files, lane.dir_fd, lane.path, options.direct)
    except OSError as error:
        if error.errno not in NO_SPACE or options.direct is True:
            raise
        _log.warning("%s is full (%s): I/O is buffered until the next start", lane.path, error)
        return DirectMode(None)


def _segment_bytes(options: DiskOptions, max_bytes: int, chunk_bytes: Sequence[int]) -> int:
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
