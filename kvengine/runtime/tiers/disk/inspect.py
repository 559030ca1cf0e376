"""Looking into a disk tier from outside: what is there, is it intact, what can go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from attrs import frozen
from xxhash import xxh3_128_digest

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.blockio import BlockIO, DirectMode, aligned_buffer
from kvengine.runtime.tiers.disk.descriptors import Descriptors, FileName
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES, Entry
from kvengine.runtime.tiers.disk.lane import read_identity, read_owner
from kvengine.runtime.tiers.disk.recover import load, read_header
from kvengine.runtime.tiers.disk.root import LaneFiles, Root
from kvengine.runtime.tiers.disk.segment import Device, Segment
from kvengine.units import align_up

__all__ = [
    "BadChunk",
    "LaneFacts",
    "NamespaceFacts",
    "Seen",
    "Verified",
    "collect",
    "look",
    "verify",
]

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
class Seen:
    """What a directory holds."""

    namespaces: tuple[NamespaceFacts, ...]
    closed: tuple[str, ...]
    """Namespaces and lanes that this user may not look into, or that are none: links, say."""


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
    closed: tuple[str, ...]
    """As in ``Seen``: what is in there was not verified."""


def look(path: str) -> Seen:
    """What a disk tier's directory holds; reads indices, and scans what has none.

    Raises TierError if the directory is no disk tier. Processes that use it are not disturbed.
    """
    with _Visit(path, read_only=True) as visit:
        return visit.look()


def verify(path: str, progress: Progress = lambda done, total: None) -> Verified:
    """Read every chunk and compare it with its checksum. Raises as ``look`` does."""
    with _Visit(path, read_only=True) as visit:
        return visit.verify(progress)


def collect(
    path: str, *, unused_s: float, delete: bool = False, namespace: str | None = None
) -> tuple[LaneFiles, ...]:
    """The lanes without an owner that nobody wrote to for ``unused_s``; with ``delete`` they go.

    What is left after a normal end is such a lane, too, until the next start takes it over.
    Raises TierError for a directory that is no disk tier, or has no such namespace.
    """
    found = []
    with _Visit(path) as visit, visit.root.locked(_LOCK_S):
        root = visit.root
        if namespace not in (None, *root.namespaces()):
            raise TierError(f"{path} has no namespace {namespace!r}")
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

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.files = Files()
        self.root = Root(self.files, path, make_dir=False, make_lock=False, read_only=read_only)
        mode = DirectMode(None)
        self._descriptors = Descriptors(self.files, mode)
        self._device = Device(BlockIO(self.files, mode), self._descriptors, reads=1)

    def __enter__(self) -> _Visit:
        return self

    def __exit__(self, *exc: object) -> None:
        self._descriptors.close()
        self.root.close()

    def look(self) -> Seen:
        closed = self.root.closed()
        found = []
        for name in self.root.namespaces():
            with suppress(FileNotFoundError):  # its last engine has just left
                found += [] if name in closed else [self._namespace(name)]
        return Seen(namespaces=tuple(found), closed=tuple(closed))

    def verify(self, progress: Progress) -> Verified:
        lanes = self.root.lanes()
        total = sum(lane.num_bytes for lane in lanes)
        chunks = payload_bytes = done = 0
        bad: list[BadChunk] = []
        unreadable: list[str] = []
        for lane in lanes:
            with suppress(FileNotFoundError), self._segments(lane) as segments:
                unreadable += [f"{self._path(lane)}/{n}" for n, found in segments if found is None]
                for segment, entries in _live([found for _, found in segments if found]):
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
            closed=tuple(self.root.closed()),
        )

    def _namespace(self, digest: str) -> NamespaceFacts:
        with self.root.directory(digest) as dir_fd:
            identity = read_identity(self.files, dir_fd)
        lanes: list[LaneFacts] = []
        for lane in self.root.lanes_of(digest):
            with suppress(FileNotFoundError):  # another has just taken it over
                lanes.append(self._lane(lane))
        return NamespaceFacts(digest=digest, identity=identity, lanes=tuple(lanes))

    def _lane(self, lane: LaneFiles) -> LaneFacts:
        with self._segments(lane) as segments:
            whole = [found for _, found in segments if found is not None]
        chunks = [entry.length for _, entries in _live(whole) for entry in entries]
        owner = None
        if self.root.has_owner(lane):
            with self.root.directory(lane.namespace, lane.lane) as dir_fd:
                owner = read_owner(self.files, dir_fd)
        return LaneFacts(
            lane=lane.lane,
            owner=owner,
            segments=len(segments),
            unreadable_segments=len(segments) - len(whole),
            chunks=len(chunks),
            payload_bytes=sum(chunks),
            used_bytes=lane.num_bytes,
            last_used_s=lane.last_used_s,
        )

    @contextmanager
    def _segments(self, lane: LaneFiles) -> Iterator[list[tuple[str, Segment | None]]]:
        """The segments of a lane; None for one that cannot be read or holds nothing of ours."""
        found: list[tuple[str, Segment | None]] = []
        with self.root.directory(lane.namespace, lane.lane) as dir_fd:
            for name in lane.segments:
                file = FileName(dir_fd, name, f"{self._path(lane)}/{name}", writable=False)
                try:
                    found.append((name, load(self.files, self._device, file, lane.namespace)))
                except FileNotFoundError:
                    continue  # its owner uses the file anew
                except OSError:
                    found.append((name, None))
                self._descriptors.forget(file)
            yield found
            for _, segment in found:
                if segment is not None:
                    self._descriptors.forget(segment.file)

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


def _live(segments: Sequence[Segment]) -> list[tuple[Segment, list[Entry]]]:
    """The chunks that segments of a lane lead to: the last word on each key counts."""
    latest: dict[bytes, tuple[Segment, Entry]] = {}
    for segment in sorted(segments, key=lambda segment: segment.header.sequence):
        latest |= {entry.key: (segment, entry) for entry in segment.entries}
    live: dict[Segment, list[Entry]] = {segment: [] for segment in segments}
    for segment, entry in latest.values():
        if entry.length:
            live[segment].append(entry)
    return list(live.items())
