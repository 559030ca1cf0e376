"""The system calls that the disk tier makes, in one object that tests replace to inject faults."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["Files", "allocated_bytes"]

_OPEN_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW
_NO_PREALLOCATION = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class Files:
    """Files below directory descriptors: private modes, symbolic links never followed.

    Every method raises ``OSError`` as the system reports it.
    """

    def open_dir(self, name: str, dir_fd: int | None = None) -> int:
        """A descriptor of a directory, for use as ``dir_fd``."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        if dir_fd is not None:
            flags |= os.O_NOFOLLOW
        return os.open(name, flags, dir_fd=dir_fd)

    def make_dirs(self, path: str) -> None:
        """Make a directory (0700), and those above it, unless it is there."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.make_dir(path)

    def make_dir(self, name: str, dir_fd: int | None = None) -> None:
        """Make a directory (0700) unless it is there."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=dir_fd)

    def remove_dir(self, name: str, dir_fd: int) -> None:
        """Remove an empty directory."""
        os.rmdir(name, dir_fd=dir_fd)

    def list_dir(self, dir_fd: int) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(dir_fd))

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        """What a name stands for, itself and not what it may link to."""
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)

    def stat_path(self, path: str) -> os.stat_result:
        """What a path leads to."""
        return Path(path).stat()

    def open(self, name: str, flags: int, dir_fd: int) -> int:
        """Open a regular file of our own, made with mode 0600 if ``flags`` ask for it."""
        fd = os.open(name, flags | _OPEN_ALWAYS, 0o600, dir_fd=dir_fd)
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
            os.close(fd)
            raise OSError(errno.EPERM, "not a plain file with one name", name)
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def allocate(self, fd: int, num_bytes: int) -> None:
        """Give a new file its size and, where the file system can, its space."""
        try:
            os.posix_fallocate(fd, 0, num_bytes)
        except OSError as error:
            if error.errno not in _NO_PREALLOCATION:
                raise
            os.ftruncate(fd, num_bytes)

    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Read into buffers, one after the other; how many bytes there were."""
        return os.preadv(fd, buffers, offset)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Write buffers, one after the other; how many bytes were taken."""
        return os.pwritev(fd, buffers, offset)

    def datasync(self, fd: int) -> None:
        """Wait until the file's bytes would survive a power failure."""
        os.fdatasync(fd)

    def rename(self, name: str, from_fd: int, to_name: str, to_fd: int) -> None:
        """Move a file between directories."""
        os.rename(name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)

    def unlink(self, name: str, dir_fd: int) -> None:
        """Remove a file; one that is gone already counts as removed."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)

    def try_lock(self, fd: int) -> bool:
        """Take the exclusive lock of an open file, which ends with the process; False if taken."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        """Give the lock back."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def free_bytes(self, dir_fd: int) -> int:
        """What the file system has left for us."""
        about = os.fstatvfs(dir_fd)
        return about.f_bavail * about.f_frsize


def allocated_bytes(about: os.stat_result) -> int:
    """What a file occupies, or may come to occupy without growing: the larger of both."""
    return max(about.st_size, about.st_blocks * 512)
