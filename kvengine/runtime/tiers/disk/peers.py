"""What other processes of the same identity keep in their lanes: read there, never written.

Their segments are followed as they grow. A peer may use a segment's file anew at any moment; then
the checksum does not match, and the chunk is a miss here.
"""

from __future__ import annotations

import logging

from attrs import define, field

from kvengine.runtime.tiers.disk.catalog import Catalog
from kvengine.runtime.tiers.disk.descriptors import FileName
from kvengine.runtime.tiers.disk.lane import Lane
from kvengine.runtime.tiers.disk.recover import read_extent, read_header, read_sealed
from kvengine.runtime.tiers.disk.root import Root
from kvengine.runtime.tiers.disk.segment import Device, Segment

__all__ = ["Peers"]

_log = logging.getLogger(__name__)


@define(eq=False)
class _Peer:
    """One lane of another owner."""

    dir_fd: int
    segments: dict[str, Segment] = field(factory=dict)
    written: dict[str, tuple[int, int]] = field(factory=dict)


class Peers:
    """Keeps the catalog up to date with the lanes of others. Used by one thread."""

    def __init__(self, device: Device, root: Root, mine: Lane, catalog: Catalog) -> None:
        self._device = device
        self._root = root
        self._mine = mine
        self._catalog = catalog
        self._peers: dict[str, _Peer] = {}
        self._leaving: list[_Peer] = []

    def refresh(self) -> None:
        """Look at what changed since the last time. OSError only if the root itself is in trouble.

        Costs one look at the directory, and a few reads for each segment written since.
        """
        self._leaving = [peer for peer in self._leaving if not self._release(peer)]
        lanes = {
            lane.lane: lane
            for lane in self._root.lanes_of(self._mine.namespace)
            if lane.lane != self._mine.name
        }
        for name in [name for name in self._peers if name not in lanes]:
            self.leave(name)
        for name, lane in lanes.items():
            try:
                self._follow(name, lane.segments)
            except OSError as error:
                _log.info("lane %s of %s cannot be followed: %s", name, self._root.path, error)
                self.leave(name)

    def leave(self, lane: str) -> None:
        """Forget a lane: its owner has ended, or its files are to be moved."""
        peer = self._peers.pop(lane, None)
        if peer is None:
            return
        for segment in peer.segments.values():
            self._catalog.drop_segment(segment)
        if not self._release(peer):
            self._leaving.append(peer)

    def close(self) -> None:
        """Forget all lanes."""
        for name in list(self._peers):
            self.leave(name)
        self._leaving = [peer for peer in self._leaving if not self._release(peer)]

    def _follow(self, name: str, files: tuple[str, ...]) -> None:
        peer = self._peers.get(name)
        if peer is None:
            with self._root.directory(self._mine.namespace) as namespace_fd:
                peer = _Peer(self._root.files.open_dir(name, namespace_fd))
            self._peers[name] = peer
        for gone in [file for file in peer.segments if file not in files]:
            self._drop(peer, gone)
        for file in files:
            about = self._root.files.stat(file, peer.dir_fd)
            written = (about.st_mtime_ns, about.st_ino)
            if peer.written.get(file) != written:
                self._read(peer, name, file)
                peer.written[file] = written

    def _read(self, peer: _Peer, lane: str, file: str) -> None:
        """Learn what was added to a segment, or what it is now that it was used anew."""
        path = f"{self._root.path}/{self._mine.namespace}/{lane}/{file}"
        name = FileName(peer.dir_fd, file, path, writable=False)
        header = read_header(self._device, name)
        known = peer.segments.get(file)
        if known is not None and (header is None or header.nonce != known.header.nonce):
            self._drop(peer, file)
            known = None
        if header is None or header.identity != self._mine.namespace:
            return
        if known is None:
            sealed = read_sealed(self._device, name, header)
            known = peer.segments[file] = sealed or Segment(name, header)
            self._catalog.add_missing(known, known.entries)
        while not known.sealed:
            extent = read_extent(self._device, known, known.tail)
            if extent is None:
                return
            known.restore(extent.entries, extent.end)
            self._catalog.add_missing(known, extent.entries)

    def _drop(self, peer: _Peer, file: str) -> None:
        segment = peer.segments.pop(file)
        peer.written.pop(file, None)
        self._catalog.drop_segment(segment)
        segment.retire(0.0)
        self._device.descriptors.forget(segment.file)

    def _release(self, peer: _Peer) -> bool:
        """Close a lane's directory once nobody reads in it."""
        if not all(segment.retire(0.0) for segment in peer.segments.values()):
            return False
        for segment in peer.segments.values():
            self._device.descriptors.forget(segment.file)
        self._root.files.close(peer.dir_fd)
        return True
