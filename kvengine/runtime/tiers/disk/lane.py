"""Owning a lane of a namespace: claiming one, taking over what ended processes left."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from attrs import frozen

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.root import HUNGRY_NAME, LOCK_NAME, SEGMENT_SUFFIX, Root
from kvengine.runtime.tiers.identity import Identity, digest_of

__all__ = ["IDENTITY_NAME", "Lane", "adopt", "claim", "read_identity", "read_owner"]

_log = logging.getLogger(__name__)
IDENTITY_NAME = "identity.json"
_IDENTITY_DRAFT = re.compile(r"identity\.[0-9]+\.tmp")
_MAX_LANES = 1000


@frozen(eq=False)
class Lane:
    """A lane that this process owns: nobody else writes to it until ``close`` or its end."""

    files: Files
    namespace: str
    name: str
    path: str
    dir_fd: int
    lock_fd: int

    def segment_names(self) -> list[str]:
        """The segment files that the lane has."""
        return [n for n in self.files.list_dir(self.dir_fd) if n.endswith(SEGMENT_SUFFIX)]

    def set_hungry(self, hungry: bool) -> None:
        """Tell the other owners below the root that there is no room for us, or that there is."""
        if not hungry:
            self.files.unlink(HUNGRY_NAME, self.dir_fd)
            return
        fd = self.files.open(HUNGRY_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self.dir_fd)
        try:
            self.files.pwritev(fd, [memoryview(b"%d" % time.time())], 0)
        finally:
            self.files.close(fd)

    def close(self) -> None:
        """Give the lane up."""
        self.files.close(self.lock_fd)
        self.files.close(self.dir_fd)


def claim(root: Root, identity: Identity) -> Lane:
    """Own a lane of the identity's namespace: the first that nobody owns. Root ``locked``."""
    files, namespace = root.files, identity.digest
    files.make_dir(namespace, root.dir_fd)
    with root.directory(namespace) as namespace_fd:
        _check_owner(namespace_fd, f"{root.path}/{namespace}")
        _write_identity(files, namespace_fd, identity)
        for number in range(_MAX_LANES):
            lane = _try_lane(root, namespace, namespace_fd, str(number))
            if lane is not None:
                _sweep(lane)
                return lane
    raise TierError(f"{root.path}/{namespace} has {_MAX_LANES} owners, which is the most there are")


def adopt(
    root: Root, mine: Lane, before: Callable[[str], None] = lambda lane: None
) -> Sequence[str]:
    """Move the segments of lanes without an owner into ours; their names. Root ``locked``.

    ``before`` is called with the name of each such lane before anything in it moves.
    """
    adopted: list[str] = []
    for lane in root.lanes_of(mine.namespace):
        if lane.lane == mine.name:
            continue
        with root.unowned(mine.namespace, lane.lane) as dir_fd:
            if dir_fd is None:
                continue
            before(lane.lane)
            for name in lane.segments:
                root.files.rename(name, dir_fd, name, mine.dir_fd)
                adopted.append(name)
            root.remove_lane(mine.namespace, lane.lane, dir_fd)
        _log.info("took over %d segments of lane %s for %s", len(adopted), lane.lane, mine.path)
    return adopted


def read_identity(files: Files, namespace_fd: int) -> dict[str, Any] | None:
    """The ingredients that a namespace's identity was made of; None if they are not readable."""
    facts = _read_json(files, IDENTITY_NAME, namespace_fd)
    return facts if isinstance(facts, dict) else None


def read_owner(files: Files, lane_fd: int) -> dict[str, Any]:
    """What the owner of a lane wrote about itself: ``pid``, ``host``, ``since_s``."""
    facts = _read_json(files, LOCK_NAME, lane_fd)
    return facts if isinstance(facts, dict) else {}


def _try_lane(root: Root, namespace: str, namespace_fd: int, name: str) -> Lane | None:
    files = root.files
    files.make_dir(name, namespace_fd)
    dir_fd = files.open_dir(name, namespace_fd)
    with ExitStack() as undo:
        undo.callback(files.close, dir_fd)
        lock_fd = files.open(LOCK_NAME, os.O_RDWR | os.O_CREAT, dir_fd)
        undo.callback(files.close, lock_fd)
        if not files.try_lock(lock_fd):
            return None
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since_s": round(time.time())}
        os.ftruncate(lock_fd, 0)
        with suppress(OSError):  # it is for people to read, and the disk may be full
            files.pwritev(lock_fd, [memoryview(json.dumps(owner).encode())], 0)
        undo.pop_all()
    return Lane(files, namespace, name, f"{root.path}/{namespace}/{name}", dir_fd, lock_fd)


def _sweep(lane: Lane) -> None:
    """Remove what is neither a segment nor the lock: remains of an owner that was killed."""
    for name in lane.files.list_dir(lane.dir_fd):
        if name != LOCK_NAME and not name.endswith(SEGMENT_SUFFIX):
            lane.files.unlink(name, lane.dir_fd)


def _check_owner(dir_fd: int, path: str) -> None:
    about = os.fstat(dir_fd)
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise TierError(f"{path} must belong to this user and be closed to others (mode 0700)")


def _write_identity(files: Files, namespace_fd: int, identity: Identity) -> None:
    facts = read_identity(files, namespace_fd)
    if facts is not None and digest_of(facts) == identity.digest:
        return
    for name in files.list_dir(namespace_fd):
        if _IDENTITY_DRAFT.fullmatch(name):
            files.unlink(name, namespace_fd)
    draft = f"identity.{os.getpid()}.tmp"
    text = json.dumps(identity.ingredients(), indent=1, sort_keys=True)
    fd = files.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, namespace_fd)
    try:
        files.pwritev(fd, [memoryview(text.encode())], 0)
    finally:
        files.close(fd)
    files.rename(draft, namespace_fd, IDENTITY_NAME, namespace_fd)


def _read_json(files: Files, name: str, dir_fd: int) -> Any:
    with suppress(OSError, ValueError):
        fd = files.open(name, os.O_RDONLY, dir_fd)
        try:
            room = memoryview(bytearray(1 << 20))
            return json.loads(bytes(room[: files.preadv(fd, [room], 0)]))
        finally:
            files.close(fd)
    return None
