"""The directory of a disk tier: namespaces, lanes, their owners, and the one limit over all.

::

    root_dir/LOCK                               held for a moment by whoever changes what is below
    root_dir/<identity digest>/identity.json
    root_dir/<identity digest>/<lane>/LOCK      held by the one process that owns the lane
    root_dir/<identity digest>/<lane>/<random>.seg

A lane has one owner at a time (case R09); the lock is the kernel's and ends with its process. What
an ended process left is adopted by the next one of the same identity, or reclaimed when the space
is needed (case R17). Occupied bytes are counted from the files themselves: no ledger can be wrong.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attrs import frozen

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.files import Files, allocated_bytes

__all__ = ["HUNGRY_NAME", "LOCK_NAME", "SEGMENT_SUFFIX", "LaneFiles", "Others", "Root"]

SEGMENT_SUFFIX = ".seg"
LOCK_NAME = "LOCK"
HUNGRY_NAME = "HUNGRY"
_NAMESPACE = re.compile(r"[0-9a-f]{32}")
_LANE = re.compile(r"[0-9]{1,4}")
_POLL_S = 0.002
_HUNGRY_S = 60.0
_LOOKS = 20
_NOT_OURS = (FileNotFoundError, NotADirectoryError, PermissionError)


@frozen
class LaneFiles:
    """What a lane holds, seen from outside."""

    namespace: str
    lane: str
    segments: tuple[str, ...]
    """File names, the one written longest ago first."""
    num_bytes: int
    """Everything the lane occupies: segments, lock, remains, and the directory."""
    last_used_s: float
    """When anything in it was last written (seconds since the epoch)."""
    hungry_s: float
    """When its owner last found no room; 0 if it has room."""


@frozen
class Others:
    """The owners of lanes besides us."""

    owners: int
    hungry: bool
    """Whether one of them lately found no room for its fair share."""
    unowned_bytes: int
    """What lanes without an owner occupy."""


class Root:
    """A disk tier's directory, as one process sees it. Methods raise ``OSError``."""

    def __init__(
        self,
        files: Files,
        path: str,
        *,
        make_dir: bool,
        make_lock: bool = True,
        read_only: bool = False,
    ) -> None:
        """Open the directory, and make what is allowed to be made; TierError if that fails.

        Who comes to look, ``read_only``, may do so where nothing can be written.
        """
        self.files = files
        self.path = path
        self._mine = threading.Lock()
        self._read_only = read_only
        try:
            if make_dir:
                files.make_dirs(path)
            self.dir_fd = files.open_dir(path)
        except OSError as error:
            raise TierError(f"{path} cannot be used as a disk tier: {error.strerror}") from error
        try:
            self._lock_fd = self._open_lock(self.dir_fd, make=make_lock)
        except OSError as error:
            files.close(self.dir_fd)
            if error.errno == errno.ENOENT:
                raise TierError(f"{path} is no disk tier: it has no {LOCK_NAME}") from error
            raise TierError(f"{path} cannot be used as a disk tier: {error.strerror}") from error

    def close(self) -> None:
        """Close the descriptors."""
        self.files.close(self._lock_fd)
        self.files.close(self.dir_fd)

    @contextmanager
    def locked(self, timeout_s: float) -> Iterator[None]:
        """Be the only one that changes the directory; ``TimeoutError`` if others take too long."""
        until_s = time.monotonic() + timeout_s
        late = TimeoutError(errno.ETIMEDOUT, "another process keeps the lock", self.path)
        if not self._mine.acquire(timeout=timeout_s):
            raise late
        try:
            while not self.files.try_lock(self._lock_fd):
                if time.monotonic() >= until_s:
                    raise late
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                self.files.unlock(self._lock_fd)
        finally:
            self._mine.release()

    def is_there(self) -> bool:
        """Whether the path still leads to this directory (it may have been removed or replaced)."""
        try:
            now, then = self.files.stat_path(self.path), os.fstat(self.dir_fd)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino)

    def namespaces(self) -> list[str]:
        """The digests of the identities that have a place here."""
        return [name for name in self.files.list_dir(self.dir_fd) if _NAMESPACE.fullmatch(name)]

    def lanes(self) -> list[LaneFiles]:
        """All lanes of all namespaces that we may look into."""
        return [lane for name in self.namespaces() for lane in self.lanes_of(name)]

    def closed(self) -> list[str]:
        """What bears the name of a namespace or lane and is not ours to look into, or a link."""
        found: list[str] = []
        for namespace in self.namespaces():
            found += [namespace] if self._is_closed(namespace) else []
            lanes = filter(_LANE.fullmatch, self._try_list(namespace))
            found += [f"{namespace}/{lane}" for lane in lanes if self._is_closed(namespace, lane)]
        return found

    def lanes_of(self, namespace: str) -> list[LaneFiles]:
        """The lanes of one namespace; none if it is not there or somebody else's."""
        names = filter(_LANE.fullmatch, self._try_list(namespace))
        return [found for name in names if (found := self._look(namespace, name)) is not None]

    def others(self, namespace: str, lane: str) -> Others:
        """What there is besides a lane of ours."""
        rest = [o for o in self.lanes() if (o.namespace, o.lane) != (namespace, lane)]
        owned = [other for other in rest if self.has_owner(other)]
        now_s = time.time()
        return Others(
            len(owned),
            any(now_s - other.hungry_s < _HUNGRY_S for other in owned),
            sum(other.num_bytes for other in rest) - sum(other.num_bytes for other in owned),
        )

    def has_owner(self, lane: LaneFiles) -> bool:
        """Whether a process holds a lane right now."""
        try:
            with self.unowned(lane.namespace, lane.lane) as dir_fd:
                return dir_fd is None
        except OSError:
            return False

    def used_bytes(self) -> int:
        """What everything of ours below this directory occupies."""
        used = sum(lane.num_bytes for lane in self.lanes())
        for name in [LOCK_NAME, *self.namespaces()]:
            used += allocated_bytes(self.files.stat(name, self.dir_fd))
            if name != LOCK_NAME:
                used += self._plain_bytes(name)
        return used

    @contextmanager
    def directory(self, namespace: str, lane: str | None = None) -> Iterator[int]:
        """A descriptor of a namespace's or lane's directory for as long as the block lasts."""
        fd = self.files.open_dir(namespace, self.dir_fd)
        try:
            if lane is None:
                yield fd
                return
            lane_fd = self.files.open_dir(lane, fd)
            try:
                yield lane_fd
            finally:
                self.files.close(lane_fd)
        finally:
            self.files.close(fd)

    @contextmanager
    def unowned(self, namespace: str, lane: str) -> Iterator[int | None]:
        """A descriptor of a lane's directory, kept from having an owner; None if it has one.

        To be used while the root is ``locked``.
        """
        with self.directory(namespace, lane) as dir_fd:
            lock_fd = self._open_lock(dir_fd, make=not self._read_only)
            try:
                yield dir_fd if self.files.try_lock(lock_fd) else None
            finally:
                self.files.close(lock_fd)

    def remove_lane(self, namespace: str, lane: str, dir_fd: int) -> None:
        """Remove an unowned lane and all in it, and its namespace when that was the last lane."""
        for name in self.files.list_dir(dir_fd):
            self.files.unlink(name, dir_fd)
        with self.directory(namespace) as namespace_fd:
            self.files.remove_dir(lane, namespace_fd)
            if any(_LANE.fullmatch(name) for name in self.files.list_dir(namespace_fd)):
                return
            for name in self.files.list_dir(namespace_fd):
                self.files.unlink(name, namespace_fd)
        with suppress(OSError):
            self.files.remove_dir(namespace, self.dir_fd)

    def make_room(self, need_bytes: int, max_bytes: int) -> bool:
        """Take from lanes without an owner until ``need_bytes`` more fit; whether they do.

        The lane that was used longest ago gives first, its oldest segments first. To be used while
        the root is ``locked``.
        """
        free_bytes = max_bytes - self.used_bytes()
        for lane in sorted(self.lanes(), key=lambda lane: lane.last_used_s):
            if free_bytes >= need_bytes:
                break
            with self.unowned(lane.namespace, lane.lane) as dir_fd:
                if dir_fd is None:
                    continue
                for name in lane.segments:
                    if free_bytes < need_bytes:
                        free_bytes += allocated_bytes(self.files.stat(name, dir_fd))
                        self.files.unlink(name, dir_fd)
                if not any(n.endswith(SEGMENT_SUFFIX) for n in self.files.list_dir(dir_fd)):
                    self.remove_lane(lane.namespace, lane.lane, dir_fd)
        return free_bytes >= need_bytes

    def _open_lock(self, dir_fd: int, *, make: bool) -> int:
        try:
            return self.files.open(LOCK_NAME, os.O_RDWR | (os.O_CREAT if make else 0), dir_fd)
        except OSError as error:
            if not self._read_only or error.errno not in (errno.EROFS, errno.EACCES):
                raise
        return self.files.open(LOCK_NAME, os.O_RDONLY, dir_fd)

    def _is_closed(self, namespace: str, lane: str | None = None) -> bool:
        """Whether it is there, and not ours to look into."""
        try:
            self._list(namespace, lane)
        except _NOT_OURS as error:
            return not isinstance(error, FileNotFoundError)
        return False

    def _try_list(self, namespace: str) -> list[str]:
        """The names in a namespace; none if that is not there, or not ours to look into."""
        try:
            return self._list(namespace)
        except _NOT_OURS:
            return []

    def _list(self, namespace: str, lane: str | None = None) -> list[str]:
        with self.directory(namespace, lane) as dir_fd:
            return self.files.list_dir(dir_fd)

    def _look(self, namespace: str, lane: str) -> LaneFiles | None:
        try:
            with self.directory(namespace, lane) as dir_fd:
                own_bytes = allocated_bytes(os.fstat(dir_fd))
                abouts = self._settled(dir_fd)
        except _NOT_OURS:
            return None
        written_s = {name: about.st_mtime for name, about in abouts.items()}
        segments = [name for name in abouts if name.endswith(SEGMENT_SUFFIX)]
        return LaneFiles(
            namespace=namespace,
            lane=lane,
            segments=tuple(sorted(segments, key=lambda name: (written_s[name], name))),
            num_bytes=own_bytes + sum(map(allocated_bytes, abouts.values())),
            last_used_s=max(written_s.values(), default=0.0),
            hungry_s=written_s.get(HUNGRY_NAME, 0.0),
        )

    def _settled(self, dir_fd: int) -> dict[str, os.stat_result]:
        """The files of a lane. Its owner may rename one meanwhile, which must not be overlooked."""
        most: dict[str, os.stat_result] = {}
        for _ in range(_LOOKS):
            names = self.files.list_dir(dir_fd)
            found: dict[str, os.stat_result] = {}
            for name in names:
                with suppress(FileNotFoundError):
                    found[name] = self.files.stat(name, dir_fd)
            if [*found] == names == self.files.list_dir(dir_fd):
                return found
            most = max(most, found, key=len)
        return most

    def _plain_bytes(self, namespace: str) -> int:
        """Bytes of the files that lie in a namespace beside its lanes."""
        with suppress(*_NOT_OURS), self.directory(namespace) as dir_fd:
            abouts = [self.files.stat(name, dir_fd) for name in self.files.list_dir(dir_fd)]
            return sum(allocated_bytes(about) for about in abouts if stat.S_ISREG(about.st_mode))
        return 0
