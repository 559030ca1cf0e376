"""Host memory in a file that the ranks of a node share, and that no way of dying leaves behind.

Each rank has its part of one file of RAM. Whoever has it open holds a lock on it, so a file that
nobody locks belongs to the dead, and the next one to come removes it. When the last rank has
joined, the name goes away at once: from then on the kernel frees the memory with its last user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from kvengine.errors import KVEngineError
from kvengine.runtime.available import (
    NotEnoughMemoryError,
    free_bytes,
    host_available_bytes,
    require,
    reserve,
)
from kvengine.runtime.memory import HostMemory
from kvengine.units import align_up

__all__ = ["SharedMemory", "SharedMemoryError", "sweep"]

_PREFIX, _SUFFIX = "kvengine-", ".shared"
_MAGIC = b"kvshared"
_HEAD = struct.Struct("<8sQQ")  # magic, ranks, bytes per rank; then one byte per rank that joined


class SharedMemoryError(KVEngineError):
    """The shared file cannot be used: other geometry, a rank twice, or a rank that never came."""


class SharedMemory(HostMemory):
    """Rank ``rank``'s ``num_bytes`` of the memory called ``name``; all ranks give equal sizes.

    ``whole`` is what all ranks see, ``(ranks * bytes,) uint8``; ``bytes`` is this rank's part.
    """

    def __init__(
        self,
        name: str,
        num_bytes: int,
        *,
        rank: int,
        ranks: int,
        folder: Path = Path("/dev/shm"),
        populate: bool = True,
    ) -> None:
        if not 0 <= rank < ranks:
            raise ValueError(f"ranks run from 0 to {ranks - 1}, not {rank}")
        if num_bytes < 1:
            raise ValueError(f"host memory takes at least 1 byte, not {num_bytes}")
        self.path = folder / f"{_PREFIX}{name}{_SUFFIX}"
        self.num_bytes = num_bytes
        self.mapped_bytes = align_up(num_bytes, mmap.PAGESIZE)
        self._head_bytes = align_up(_HEAD.size + ranks, mmap.PAGESIZE)
        require("shared host memory", self.mapped_bytes, host_available_bytes())
        self._file = self._join(rank, ranks)
        start = self._head_bytes + rank * self.mapped_bytes
        mapping = mmap.mmap(self._file, self.mapped_bytes, offset=start)
        self._prepare(mapping, populate)

    def close(self) -> None:
        """Leave; the memory goes when views of it are gone in every rank."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _join(self, rank: int, ranks: int) -> int:
        """Open the file, make it if need be, and tick this rank off; the lock stays."""
        sweep(self.path.parent)
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                if os.fstat(file).st_nlink:
                    with _one_at_a_time(file):
                        self._tick(file, rank, ranks)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # it was swept, or was another engine's, before it was locked

    def _tick(self, file: int, rank: int, ranks: int) -> None:
        head = _HEAD.pack(_MAGIC, ranks, self.mapped_bytes)
        if os.fstat(file).st_size == 0:
            total = self._head_bytes + ranks * self.mapped_bytes
            try:
                reserve(file, total)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                what = f"host memory that ranks share in {self.path.parent}"
                raise NotEnoughMemoryError(what, total, free_bytes(file)) from error
            os.pwrite(file, head, 0)
        if os.pread(file, _HEAD.size, 0) != head:
            raise SharedMemoryError(f"{self.path} was made for other ranks or other sizes")
        if os.pread(file, 1, _HEAD.size + rank) != b"\0":
            raise SharedMemoryError(f"rank {rank} has joined {self.path} already")
        os.pwrite(file, b"\1", _HEAD.size + rank)
        if os.pread(file, ranks, _HEAD.size) == b"\1" * ranks:
            self.path.unlink()


@contextlib.contextmanager
def _one_at_a_time(file: int) -> Iterator[None]:
    """Between processes a record lock, which is none of flock's, between threads a mutex."""
    with _threads:
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)


_threads = threading.Lock()


def sweep(folder: Path) -> list[Path]:
    """Remove the files of engines that died before all their ranks had come; which ones?"""
    removed: list[Path] = []
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                removed.append(path)
            finally:
                os.close(file)
    return removed
