"""Looking into a disk tier from outside: what is there, is it intact, what can go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen
from xxhash import xxh3_128_digest

from kvengine.runtime.tiers.disk.blockio import BlockIO, DirectMode, aligned_buffer
from kvengine.runtime.tiers.disk.descriptors import Descriptors, FileName
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES, Entry
from kvengine.runtime.tiers.disk.lane import read_identity, read_owner
from kvengine.runtime.tiers.disk.recover import load, read_header
from kvengine.runtime.tiers.disk.root import LaneFiles, Root
from kvengine.runtime.tiers.disk.segment import Device, Segment
from kvengine.units import align_up

__all__ = ["BadChunk", "LaneFacts", "NamespaceFacts", "Verified", "collect", "look", "verify"]

_LOCK_S = 10.0
Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


@frozen(kw_only=True)
class LaneFacts:
    """One lane: who owns it and what it holds."""

    lane: str
    owner: Mapping[str, Any] | None
    """``pid``, ``host``, ``since_s`` of the process that has it now; None if none has."""
    segments: int
    unreadable_segments: int
    chunks: int
    payload_bytes: int
    used_bytes: int
    last_used_s: float
    """Seconds since the epoch."""


@frozen(kw_only=True)
class NamespaceFacts:
    """Everything of one identity."""

    digest: str
    identity: Mapping[str, Any] | None
    """The ingredients of the digest; None if their file is missing or damaged."""
    lanes: tuple[LaneFacts, ...]


@frozen(kw_only=True)
class BadChunk:
    """A chunk whose bytes are not those that were stored."""

    path: str
    offset: int
    num_bytes: int
    key: str
    """In hexadecimal."""


@frozen(kw_only=True)
class Verified:
    """What a verification read and found."""

    chunks: int
    payload_bytes: int
    bad: tuple[BadChunk, ...]
    unreadable_segments: tuple[str, ...]


def look(path: str) -> tuple[NamespaceFacts, ...]:
    """What a disk tier's directory holds; reads indices, and scans what has none.

    Raises TierError if the directory is no disk tier. Processes that use it are not disturbed.
    """
    with _Visit(path) as visit:
        return tuple(visit.namespace(name) for name in visit.root.namespaces())


def verify(path: str, progress: Progress = lambda done, total: None) -> Verified:
    """Read every chunk and compare it with its checksum. Raises as ``look`` does."""
    with _Visit(path) as visit:
        return visit.verify(progress)


def collect(
    path: str, *, unused_s: float, delete: bool = False, namespace: str | None = None
) -> tuple[LaneFiles, ...]:
    """The lanes without an owner that nobody wrote to for ``unused_s``; with ``delete`` they go.

    What is left after a normal end is such a lane, too, until the next start takes it over.
    """
    found = []
    with _Visit(path) as visit, visit.root.locked(_LOCK_S):
        root = visit.root
        for lane in root.lanes():
            if namespace not in (None, lane.namespace) or root.has_owner(lane):
                continue
            if time.time() - lane.last_used_s < unused_s:
                continue
            found.append(lane)
            if delete:
                with root.unowned(lane.namespace, lane.lane) as dir_fd:
                    if dir_fd is not None:
                        root.remove_lane(lane.namespace, lane.lane, dir_fd)
    return tuple(found)


class _Visit:
    """A directory, open for reading."""

    def __init__(self, path: str) -> None:
        self.files = Files()
        self.root = Root(self.files, path, make_dir=False, make_lock=False)
        mode = DirectMode(None)
        self._descriptors = Descriptors(self.files, mode)
        self._device = Device(BlockIO(self.files, mode), self._descriptors, reads=1)

    def __enter__(self) -> _Visit:
        return self

    def __exit__(self, *exc: object) -> None:
        self._descriptors.close()
        self.root.close()

    def namespace(self, digest: str) -> NamespaceFacts:
        with self.root.directory(digest) as dir_fd:
            identity = read_identity(self.files, dir_fd)
        lanes = tuple(self._lane(lane) for lane in self.root.lanes_of(digest))
        return NamespaceFacts(digest=digest, identity=identity, lanes=lanes)

    def verify(self, progress: Progress) -> Verified:
        lanes = self.root.lanes()
        total = sum(lane.num_bytes for lane in lanes)
        chunks = payload_bytes = done = 0
        bad: list[BadChunk] = []
        unreadable: list[str] = []
        for lane in lanes:
            for name, segment in self._segments(lane):
                if segment is None:
                    unreadable.append(f"{self._path(lane)}/{name}")
                    continue
                entries = _live(segment)
                chunks += len(entries)
                payload_bytes += sum(entry.length for entry in entries)
                bad += self._bad(segment, entries)
                done += segment.header.segment_bytes
                progress(min(done, total), total)
        return Verified(
            chunks=chunks,
            payload_bytes=payload_bytes,
            bad=tuple(bad),
            unreadable_segments=tuple(unreadable),
        )

    def _lane(self, lane: LaneFiles) -> LaneFacts:
        found = [segment for _, segment in self._segments(lane)]
        lengths: dict[bytes, int] = {}
        whole = [segment for segment in found if segment is not None]
        for segment in sorted(whole, key=lambda segment: segment.header.sequence):
            lengths.update({entry.key: entry.length for entry in segment.entries})
        chunks = [length for length in lengths.values() if length]
        owner = None
        if self.root.has_owner(lane):
            with self.root.directory(lane.namespace, lane.lane) as dir_fd:
                owner = read_owner(self.files, dir_fd)
        return LaneFacts(
            lane=lane.lane,
            owner=owner,
            segments=len(found),
            unreadable_segments=len(found) - len(whole),
            chunks=len(chunks),
            payload_bytes=sum(chunks),
            used_bytes=lane.num_bytes,
            last_used_s=lane.last_used_s,
        )

    def _segments(self, lane: LaneFiles) -> Iterator[tuple[str, Segment | None]]:
        """The segments of a lane; None for one that cannot be read or holds nothing of ours."""
        with self.root.directory(lane.namespace, lane.lane) as dir_fd:
            for name in lane.segments:
                file = FileName(dir_fd, name, f"{self._path(lane)}/{name}", writable=False)
                try:
                    yield name, load(self.files, self._device, file, lane.namespace)
                except OSError:
                    yield name, None
                finally:
                    self._descriptors.forget(file)

    def _bad(self, segment: Segment, entries: list[Entry]) -> Iterator[BadChunk]:
        for entry in entries:
            room = aligned_buffer(align_up(entry.length, BLOCK_BYTES))[: entry.length]
            try:
                self._device.read(segment.file, entry.offset, [room])
                good = xxh3_128_digest(room) == entry.checksum
                if not good and read_header(self._device, segment.file) != segment.header:
                    return  # its owner uses the file anew
            except OSError:
                good = False
            if not good:
                yield BadChunk(
                    path=segment.file.path,
                    offset=entry.offset,
                    num_bytes=entry.length,
                    key=entry.key.hex(),
                )

    def _path(self, lane: LaneFiles) -> str:
        return f"{self.root.path}/{lane.namespace}/{lane.lane}"


def _live(segment: Segment) -> list[Entry]:
    """The chunks that a segment leads to: the last word on each key counts."""
    latest = {entry.key: entry for entry in segment.entries}
    return [entry for entry in latest.values() if entry.length]
