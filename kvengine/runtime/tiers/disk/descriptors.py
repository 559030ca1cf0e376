"""Open files of segments, as many as needed and no more than allowed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, frozen

from kvengine.runtime.tiers.disk.blockio import DirectMode
from kvengine.runtime.tiers.disk.files import Files

__all__ = ["Descriptors", "FileName"]


@frozen(cache_hash=True)
class FileName:
    """A segment file: a name in an open directory, and the path that messages show."""

    dir_fd: int
    name: str
    path: str
    writable: bool = True


@define
class _Open:
    fd: int
    users: int = 0
    kept: bool = True


class Descriptors:
    """Keeps up to ``most`` idle files open; files in use stay open. Thread-safe."""

    def __init__(self, files: Files, mode: DirectMode, most: int = 256) -> None:
        self._files = files
        self._mode = mode
        self._most = most
        self._open: OrderedDict[FileName, _Open] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, file: FileName) -> Iterator[int]:
        """A descriptor for as long as the block lasts; OSError if the file cannot be opened."""
        with self._lock:
            entry = self._open.get(file)
            if entry is None:
                flags = os.O_RDWR if file.writable else os.O_RDONLY
                fd = self._files.open(file.name, flags | self._mode.flag, file.dir_fd)
                entry = self._open[file] = _Open(fd)
            self._open.move_to_end(file)
            entry.users += 1
            surplus = self._surplus()
        self._close(surplus)
        try:
            yield entry.fd
        finally:
            with self._lock:
                entry.users -= 1
                unwanted = entry.users == 0 and not entry.kept
            if unwanted:
                self._close([entry])

    def renamed(self, file: FileName, new: FileName) -> None:
        """Know an open file by its new name."""
        with self._lock:
            entry = self._open.pop(file, None)
            if entry is not None:
                self._open[new] = entry

    def forget(self, file: FileName) -> None:
        """Close a file as soon as nobody uses it; a later ``borrow`` opens it anew."""
        with self._lock:
            entry = self._open.pop(file, None)
            unused = self._let_go([entry] if entry else [])
        self._close(unused)

    def close(self) -> None:
        """Close every file, those in use when their use ends."""
        with self._lock:
            unused = self._let_go(list(self._open.values()))
            self._open.clear()
        self._close(unused)

    def _surplus(self) -> list[_Open]:
        if len(self._open) <= self._most:
            return []
        oldest = list(self._open)[: len(self._open) - self._most]
        return [self._open.pop(file) for file in oldest if self._open[file].users == 0]

    def _let_go(self, entries: list[_Open]) -> list[_Open]:
        for entry in entries:
            entry.kept = False
        return [entry for entry in entries if entry.users == 0]

    def _close(self, entries: list[_Open]) -> None:
        for entry in entries:
            self._files.close(entry.fd)
