"""How much memory there is: what the kernel, the control group and the device still grant."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from kvengine.errors import KVEngineError
from kvengine.units import format_bytes

__all__ = ["NotEnoughMemoryError", "free_bytes", "host_available_bytes", "require", "reserve"]


class NotEnoughMemoryError(KVEngineError):
    """More memory was asked for than there is; nothing stays allocated."""

    def __init__(self, what: str, asked_bytes: int, available_bytes: int) -> None:
        super().__init__(what, asked_bytes, available_bytes)
        self.what = what
        self.asked_bytes = asked_bytes
        self.available_bytes = available_bytes

    def __str__(self) -> str:
        return (
            f"{self.what} asks for {self.asked_bytes} bytes ({format_bytes(self.asked_bytes)}), "
            f"{self.available_bytes} ({format_bytes(self.available_bytes)}) are available"
        )


def require(what: str, asked_bytes: int, available_bytes: int) -> None:
    """Raise :class:`NotEnoughMemoryError` unless what is asked for is available."""
    if asked_bytes > available_bytes:
        raise NotEnoughMemoryError(what, asked_bytes, available_bytes)


def free_bytes(file: int) -> int:
    """What the file system of an open file still takes; ``sys.maxsize`` for one without limit."""
    room = os.fstatvfs(file)
    return room.f_bavail * room.f_frsize if room.f_blocks else sys.maxsize


def reserve(file: int, num_bytes: int) -> None:
    """Give an empty file its size and its space, so that no later write can lack it.

    More than is free raises ``OSError`` (``ENOSPC``) before anything is taken: fallocate would
    fill the file system first, and for that moment whoever else writes there would fail.
    """
    if num_bytes > free_bytes(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.posix_fallocate(file, 0, num_bytes)


def host_available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Host memory that can be taken without swapping, in bytes: the least of all limits.

    ``MemAvailable`` of the kernel, and the room left in this process's control group (version
    2: the group and those above it; version 1: its memory controller).
    """
    limits = [_kernel_bytes(proc), *_group_bytes(proc, cgroup)]
    return max(0, min(limits))


def _kernel_bytes(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"{proc / 'meminfo'} has no MemAvailable")


def _group_bytes(proc: Path, cgroup: Path) -> list[int]:
    found: list[int] = []
    try:
        memberships = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return found
    for membership in memberships:
        _, controllers, path = membership.split(":", 2)
        if controllers == "":
            for level in _levels(path):
                group = cgroup / level
                found += _room(group / "memory.max", group / "memory.current")
        elif "memory" in controllers.split(","):
            group = cgroup / "memory" / path.lstrip("/")
            found += _room(group / "memory.limit_in_bytes", group / "memory.usage_in_bytes")
    return found


def _levels(path: str) -> list[str]:
    """``/a/b`` -> ``a/b``, ``a`` and the root."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def _room(limit: Path, used: Path) -> list[int]:
    try:
        return [int(limit.read_text()) - int(used.read_text())]
    except (OSError, ValueError):  # no such file, or "max": no limit here
        return []
