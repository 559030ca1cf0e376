"""The files that one owner's segments live in: made, counted against the limit, removed."""

from __future__ import annotations

import logging
import os
import secrets
import time

from kvengine.runtime.tiers.disk.descriptors import Descriptors, FileName
from kvengine.runtime.tiers.disk.lane import Lane
from kvengine.runtime.tiers.disk.root import SEGMENT_SUFFIX, Root
from kvengine.units import format_bytes

__all__ = ["Space"]

_log = logging.getLogger(__name__)
_ROOT_LOCK_S = 2.0
_SAY_AGAIN_S = 20.0
_LATER_SUFFIX = ".new"
_FOR_OWNERS_BYTES = 256 << 10  # directories, locks and identities of owners that come later


class Space:
    """Makes and removes segment files of one size. Thread-safe."""

    def __init__(
        self,
        root: Root,
        lane: Lane,
        descriptors: Descriptors,
        *,
        max_bytes: int,
        segment_bytes: int,
    ) -> None:
        self.max_bytes = max_bytes
        """Over everything below the root, whoever owns it."""
        self.segment_bytes = segment_bytes
        self.full = False
        """Whether the limit was reached lately: the next segment needs the file of an old one."""
        self._root = root
        self._lane = lane
        self._descriptors = descriptors
        self._hungry = False
        self._said_s = 0.0

    @property
    def path(self) -> str:
        """The lane's directory."""
        return self._lane.path

    @property
    def namespace(self) -> str:
        """The digest of the identity."""
        return self._lane.namespace

    def file(self, name: str) -> FileName:
        """A segment file of the lane."""
        return FileName(self._lane.dir_fd, name, f"{self._lane.path}/{name}")

    def names(self) -> list[str]:
        """The files that are there. OSError."""
        return self._root.files.list_dir(self._lane.dir_fd)

    def take(self, file: FileName) -> FileName:
        """Make a segment's file of one that was kept for later. OSError."""
        return self._rename(file, _LATER_SUFFIX, SEGMENT_SUFFIX)

    def lay_by(self, file: FileName) -> FileName:
        """Keep a file for later, so that nobody takes it for a segment. OSError."""
        return self._rename(file, SEGMENT_SUFFIX, _LATER_SUFFIX)

    def grow(self, own_bytes: int) -> FileName | None:
        """A new file for ``take``, if the limit allows it beside ``own_bytes``. OSError.

        An owner takes what is free, but beyond its fair share only while nobody else is hungry.
        """
        most_bytes = self.max_bytes - _FOR_OWNERS_BYTES
        with self._root.locked(_ROOT_LOCK_S):
            others = self._root.others(self._lane.namespace, self._lane.name)
            share_bytes = self.max_bytes // (1 + others.owners)
            within_share = own_bytes + self.segment_bytes <= share_bytes
            room_bytes = most_bytes - self._root.used_bytes() + others.unowned_bytes
            fits = room_bytes >= self.segment_bytes
            file = None
            if fits and (within_share or not others.hungry):
                fits = self._root.make_room(self.segment_bytes, most_bytes)
                file = self._create() if fits else None
        left_bytes = room_bytes - self.segment_bytes if file else 0
        self.full = left_bytes < self.segment_bytes
        self.say_hungry(bool(others.owners) and within_share and not fits)
        return file

    def remove(self, file: FileName) -> None:
        """Remove a file; a failure is logged, the file goes on being counted."""
        self._descriptors.forget(file)
        try:
            self._root.files.unlink(file.name, file.dir_fd)
        except OSError as error:
            _log.warning("%s cannot be removed: %s", file.path, error)

    def say_hungry(self, hungry: bool) -> None:
        """Tell other owners below the root whether we have to do without."""
        if hungry == self._hungry and time.monotonic() - self._said_s < _SAY_AGAIN_S:
            return
        if not hungry and not self._hungry:
            return
        self._hungry, self._said_s = hungry, time.monotonic()
        if hungry:
            _log.warning(
                "%s finds no room: others hold the %s that the tier may have",
                self._lane.path,
                format_bytes(self.max_bytes),
            )
        try:
            self._lane.set_hungry(hungry)
        except OSError as error:
            _log.warning("%s cannot be marked: %s", self._lane.path, error)

    def _rename(self, file: FileName, old: str, new: str) -> FileName:
        if not file.name.endswith(old):
            return file
        renamed = self.file(file.name.removesuffix(old) + new)
        self._root.files.rename(file.name, file.dir_fd, renamed.name, renamed.dir_fd)
        self._descriptors.renamed(file, renamed)
        return renamed

    def _create(self) -> FileName:
        files = self._root.files
        file = self.file(secrets.token_hex(8) + _LATER_SUFFIX)
        fd = files.open(file.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, file.dir_fd)
        try:
            files.allocate(fd, self.segment_bytes)
        except OSError:
            files.unlink(file.name, file.dir_fd)
            raise
        finally:
            files.close(fd)
        return file
