"""Reads and writes of whole blocks, past the page cache (O_DIRECT) where that works.

Direct I/O wants file offsets, lengths and addresses aligned. Offsets and lengths are multiples of
``BLOCK_BYTES`` by the segment format. A buffer at a good address is read or written in place but
for its last partial block; any other goes through a small aligned bounce buffer of the thread.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import mmap
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from attrs import define, field

from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.units import align_up

__all__ = ["BlockIO", "DirectMode", "aligned_buffer", "call_fully", "in_place_bytes"]

_log = logging.getLogger(__name__)
_BOUNCE_BYTES = 1 << 20
_MAX_VECTOR = 512  # below the system's limit of 1024
_DIRECT_REFUSED = {errno.EINVAL, errno.EOPNOTSUPP}
_Call = Callable[[int, Sequence[memoryview], int], int]


class DirectMode:
    """Whether a tier's I/O is direct; once the system refuses that, never again (case R12)."""

    def __init__(self, memory_alignment: int | None) -> None:
        self.memory_alignment = memory_alignment
        """What addresses must be multiples of; None: buffered."""

    @property
    def flag(self) -> int:
        """What to add to the flags of ``open``."""
        return 0 if self.memory_alignment is None else os.O_DIRECT

    def refused(self, error: OSError, path: str) -> None:
        """Switch to buffered I/O for good, and say so once."""
        if self.memory_alignment is not None:
            self.memory_alignment = None
            _log.warning(
                "direct I/O is refused on %s (%s, errno %d): all I/O is buffered from now on",
                path,
                error.strerror,
                error.errno,
            )


@define
class _Vector:
    """What one system call moves: blocks in place, and blocks that stand in for a piece's part."""

    views: list[memoryview] = field(factory=list)
    in_place_bytes: int = 0
    bounced: list[tuple[memoryview, memoryview]] = field(factory=list)
    bounced_bytes: int = 0

    def fill(self) -> None:
        """Copy the pieces' parts into the bounce buffer, with zeros to the end of the block."""
        for block, part in self.bounced:
            block[: len(part)] = part
            block[len(part) :] = bytes(len(block) - len(part))

    def empty(self) -> None:
        """Copy the bounce buffer out into the pieces' parts."""
        for block, part in self.bounced:
            part[:] = block[: len(part)]


class BlockIO:
    """Vectored I/O of pieces that each begin at a block of a file. Thread-safe.

    ``read`` and ``write`` raise ``OSError``; ``EIO`` also stands for a file that ends early. A
    system call moves up to ``call_bytes`` in place, whole blocks.
    """

    def __init__(self, files: Files, mode: DirectMode, call_bytes: int = 8 << 20) -> None:
        self.mode = mode
        self.bytes_by_way: Counter[str] = Counter()
        self.calls_by_size: Counter[int] = Counter()
        self._files = files
        self._call_bytes = call_bytes
        self._lock = threading.Lock()
        self._own = threading.local()

    def write(self, fd: int, offset: int, pieces: Sequence[memoryview], path: str) -> None:
        """Write pieces from ``offset`` on, each filled up with zeros to a whole block."""
        self._transfer(self._files.pwritev, fd, offset, pieces, path)

    def read(self, fd: int, offset: int, pieces: Sequence[memoryview], path: str) -> None:
        """Fill pieces from ``offset`` on, each from the start of a block."""
        self._transfer(self._files.preadv, fd, offset, pieces, path)

    def _transfer(
        self, call: _Call, fd: int, offset: int, pieces: Sequence[memoryview], path: str
    ) -> None:
        alignment = self.mode.memory_alignment
        try:
            self._move(call, fd, offset, pieces, alignment)
        except OSError as error:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            was_direct = alignment is not None or flags & os.O_DIRECT
            if error.errno not in _DIRECT_REFUSED or not was_direct:
                raise
            self.mode.refused(error, path)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            self._move(call, fd, offset, pieces, None)

    def _move(
        self,
        call: _Call,
        fd: int,
        offset: int,
        pieces: Sequence[memoryview],
        alignment: int | None,
    ) -> None:
        writes = call == self._files.pwritev
        way = "buffered" if alignment is None else "direct"
        for vector in self._vectors(pieces, alignment or 1):
            if writes:
                vector.fill()
            num_bytes = call_fully(call, fd, vector.views, offset)
            if not writes:
                vector.empty()
            offset += num_bytes
            self._count(way, num_bytes, vector.bounced_bytes)

    def _vectors(self, pieces: Sequence[memoryview], alignment: int) -> Iterator[_Vector]:
        """The calls that move these pieces; each must be over before the next is asked for."""
        bounce = self._bounce()
        vector = _Vector()
        for piece in pieces:
            body_bytes = in_place_bytes(piece, alignment)
            body, rest = piece[:body_bytes], piece[body_bytes:]
            while len(body):
                room = self._call_bytes - vector.in_place_bytes
                if not room or len(vector.views) >= _MAX_VECTOR:
                    yield vector
                    vector = _Vector()
                    room = self._call_bytes
                part, body = body[:room], body[room:]
                vector.views.append(part)
                vector.in_place_bytes += len(part)
            while len(rest):
                room = _BOUNCE_BYTES - vector.bounced_bytes
                if not room or len(vector.views) >= _MAX_VECTOR:
                    yield vector
                    vector = _Vector()
                    room = _BOUNCE_BYTES
                part, rest = rest[:room], rest[room:]
                start, end = vector.bounced_bytes, align_up(len(part), BLOCK_BYTES)
                block = bounce[start : start + end]
                vector.views.append(block)
                vector.bounced.append((block, part))
                vector.bounced_bytes += end
        if vector.views:
            yield vector

    def _bounce(self) -> memoryview:
        try:
            bounce: memoryview = self._own.bounce
        except AttributeError:
            bounce = self._own.bounce = aligned_buffer(_BOUNCE_BYTES)
        return bounce

    def _count(self, way: str, num_bytes: int, bounced_bytes: int) -> None:
        with self._lock:
            self.bytes_by_way[way] += num_bytes
            self.bytes_by_way["copied"] += bounced_bytes
            self.calls_by_size[1 << (num_bytes - 1).bit_length()] += 1


def aligned_buffer(num_bytes: int) -> memoryview:
    """Memory of our own at a page boundary, good for direct I/O everywhere."""
    return memoryview(mmap.mmap(-1, num_bytes))


def in_place_bytes(piece: memoryview, alignment: int) -> int:
    """How many bytes from the start of a piece need no bounce buffer: whole blocks, or none."""
    if alignment > 1:
        if piece.readonly:
            return 0  # its address is not to be had
        if ctypes.addressof(ctypes.c_char.from_buffer(piece)) % alignment:
            return 0
    return len(piece) // BLOCK_BYTES * BLOCK_BYTES


def call_fully(call: _Call, fd: int, views: Sequence[memoryview], offset: int) -> int:
    """Repeat a call that moved only part of what it could; the bytes moved are all."""
    total = sum(len(view) for view in views)
    moved = 0
    while moved < total:
        count = call(fd, views, offset + moved)
        moved += count
        if count == 0 or (moved < total and moved % BLOCK_BYTES):
            raise OSError(errno.EIO, "the file ends early")
        if moved < total:
            views = _behind(views, count)
    return total


def _behind(views: Sequence[memoryview], count: int) -> list[memoryview]:
    """What is left of views after their first ``count`` bytes."""
    left = []
    for view in views:
        if count < len(view):
            left.append(view[count:])
        count = max(0, count - len(view))
    return left
