"""Host memory that the scheduler process and every rank of one node share.

vLLM starts the ranks first and the scheduler last, and tells the scheduler nothing about the
bytes of a group. So the ranks meet in a file: whoever comes first makes it, every rank writes
down what its groups take per chunk, and the scheduler reads all of it before it cuts the first
slot. Then it removes the name: the memory lives as long as somebody has it mapped, and no way of
dying leaves it behind. A file whose makers died before that is removed by the next engine.

The file, little endian::

    magic, world size, groups, data bytes, data offset     one page
    per rank: state, bytes per chunk of each group
    per rank: one byte per job, see :mod:`.jobs`
    what rank 0 says about the model, JSON                 NOTE_BYTES
    data                                                   from a multiple of the page size
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvengine.errors import KVEngineError
from kvengine.runtime.available import reserve
from kvengine.units import align_up, format_bytes

__all__ = ["NOTE_BYTES", "TICKETS", "Region", "RegionError"]

TICKETS = 1 << 15
"""Jobs that can be under way at once; each rank marks what it is through with."""
NOTE_BYTES = 1 << 14
"""Room for what rank 0 tells the scheduler, which vLLM shows less of the model."""

_MAGIC = b"kvengine"
_HEAD = struct.Struct("<8sIIQQ")
_PREFIX, _SUFFIX = "kvengine-", ".kv"
_READY = 1


class RegionError(KVEngineError):
    """The shared region cannot be made, or its users do not agree about it."""


class Region:
    """One mapping of the shared file. Offsets of ``data`` mean the same in every process."""

    def __init__(self, file: int, path: Path, *, created: bool) -> None:
        self._file = file
        self.path = path
        self.created = created
        self._map = mmap.mmap(file, 0)
        magic, self.world_size, self.num_groups, self.data_bytes, start = _HEAD.unpack_from(
            self._map
        )
        if magic != _MAGIC:
            raise RegionError(f"{path} is not a region of this version of kvengine")
        self._rank = struct.Struct(f"<Q{self.num_groups}Q")
        self._view = memoryview(self._map)
        marks = mmap.PAGESIZE + self.world_size * self._rank.size
        self._note_at = marks + self.world_size * TICKETS
        self.marks = self._view[marks : self._note_at]
        self.data = self._view[start : start + self.data_bytes]

    @classmethod
    def open(
        cls,
        name: str,
        *,
        world_size: int,
        num_groups: int,
        data_bytes: int,
        folder: Path | None = None,
    ) -> Region:
        """Join the region called ``name``, or make it: ``data_bytes`` are reserved at once.

        Raises :class:`RegionError` when the memory is not there, or when the region was made
        for another geometry.
        """
        place = folder or shared_folder()
        path = place / f"{_PREFIX}{name}{_SUFFIX}"
        while True:
            try:
                region = cls(_locked(path), path, created=False)
                break
            except FileNotFoundError:
                pass
            sweep(place)
            with contextlib.suppress(FileExistsError):
                file = _make(path, world_size, num_groups, data_bytes)
                region = cls(file, path, created=True)
                break
        found = (region.world_size, region.num_groups, region.data_bytes)
        if found != (world_size, num_groups, data_bytes):
            region.close()
            raise RegionError(
                f"ranks disagree about the host region: {found} against"
                f" {(world_size, num_groups, data_bytes)} (ranks, groups, bytes)"
            )
        return region

    def register(self, rank: int, chunk_bytes: Sequence[int]) -> None:
        """Say what a chunk of each group takes on this rank."""
        at = mmap.PAGESIZE + rank * self._rank.size
        self._rank.pack_into(self._map, at, 0, *chunk_bytes)
        self._map[at : at + 8] = _READY.to_bytes(8, "little")

    def registered(self, timeout_s: float) -> list[tuple[int, ...]]:
        """What every rank registered, rank by rank; waits for late ones.

        Raises :class:`RegionError` naming the ranks that never came: they run elsewhere.
        """
        until_s = time.monotonic() + timeout_s
        while missing := [rank for rank in range(self.world_size) if not self._ready(rank)]:
            if time.monotonic() >= until_s:
                raise RegionError(
                    f"ranks {missing} of {self.world_size} did not join the host region within"
                    f" {timeout_s:g} s: all ranks of one engine must run on one node and share"
                    f" {self.path.parent}"
                )
            time.sleep(0.01)
        return [self._registered(rank) for rank in range(self.world_size)]

    def write_note(self, text: str) -> None:
        """Leave a text for the scheduler; before :meth:`register`, by rank 0."""
        raw = text.encode()
        if len(raw) > NOTE_BYTES - 4:
            raise ValueError(f"a note has at most {NOTE_BYTES - 4} bytes, not {len(raw)}")
        at = self._note_at
        self._map[at : at + 4] = len(raw).to_bytes(4, "little")
        self._map[at + 4 : at + 4 + len(raw)] = raw

    def read_note(self) -> str:
        """The text that rank 0 left."""
        at = self._note_at
        size = int.from_bytes(self._map[at : at + 4], "little")
        return self._map[at + 4 : at + 4 + size].decode()

    def unlink(self) -> None:
        """Remove the name: from now on the memory ends with its last user."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the mapping back. Views handed out by others must be gone, or keep it alive."""
        if self._file < 0:
            return
        for view in (self.data, self.marks, self._view):
            with contextlib.suppress(BufferError):
                view.release()
        with contextlib.suppress(BufferError):  # tensors over the map keep it until they go
            self._map.close()
        os.close(self._file)
        self._file = -1

    def _ready(self, rank: int) -> bool:
        at = mmap.PAGESIZE + rank * self._rank.size
        return int.from_bytes(self._map[at : at + 8], "little") == _READY

    def _registered(self, rank: int) -> tuple[int, ...]:
        _, *sizes = self._rank.unpack_from(self._map, mmap.PAGESIZE + rank * self._rank.size)
        return tuple(sizes)


def shared_folder() -> Path:
    """Where shared memory has a name; elsewhere than Linux, the folder for temporary files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def sweep(folder: Path) -> None:
    """Remove regions that no process has open any more."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}*"):
        with contextlib.suppress(OSError), _opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _locked(path: Path) -> int:
    """Open an existing region and keep sweepers away from it."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(file, fcntl.LOCK_SH)
    if os.fstat(file).st_nlink == 0:
        os.close(file)
        raise FileNotFoundError(path)
    return file


def _make(path: Path, world_size: int, num_groups: int, data_bytes: int) -> int:
    """Make the file under another name, complete, and give it its own in one step."""
    ranks_bytes = world_size * 8 * (1 + num_groups)
    marks_bytes = world_size * TICKETS
    start = align_up(mmap.PAGESIZE + ranks_bytes + marks_bytes + NOTE_BYTES, mmap.PAGESIZE)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        reserve(file, start + data_bytes)
        os.pwrite(file, _HEAD.pack(_MAGIC, world_size, num_groups, data_bytes, start), 0)
        os.link(draft, path)
    except FileExistsError:
        os.close(file)
        raise
    except OSError as error:
        os.close(file)
        free = os.statvfs(path.parent)
        raise RegionError(
            f"cannot reserve {format_bytes(data_bytes)} of host memory in {path.parent}:"
            f" {error.strerror}; {format_bytes(free.f_bavail * free.f_frsize)} are free there"
            "\n  hint: lower cpu_bytes_to_use, or give the container more shared memory"
            " (docker --shm-size, or an emptyDir of medium Memory at /dev/shm)"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return file
