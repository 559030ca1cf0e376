"""Finds out, once at start, whether direct I/O works in a directory (cases R11, R13)."""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
from typing import Literal

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.blockio import DirectMode, aligned_buffer, call_fully
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES

__all__ = ["PROBE_NAME", "probe_direct"]

_log = logging.getLogger(__name__)
PROBE_NAME = "probe.tmp"
_PROBE_BYTES = 4 * BLOCK_BYTES
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_ALIGNMENTS = (64, 512, BLOCK_BYTES)


def probe_direct(files: Files, dir_fd: int, path: str, want: bool | Literal["auto"]) -> DirectMode:
    """How files in this directory are to be read and written.

    Writes and reads a scratch file. Raises TierError when direct I/O is demanded and does not
    work, or when nothing can be written at all; OSError when that is for want of space.
    """
    if want is False:
        _probe(files, dir_fd, path, 0, 1)
        return DirectMode(None)
    why = "the file system keeps it in the page cache all the same"
    for alignment in _ALIGNMENTS:
        try:
            if _probe(files, dir_fd, path, os.O_DIRECT, alignment):
                return DirectMode(alignment)
            break
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise TierError(f"{path} cannot be written: {error.strerror}") from error
            why = f"{error.strerror}, errno {error.errno}"
    if want is True:
        raise TierError(f"direct I/O does not work in {path}: {why}")
    _log.info("direct I/O does not work in %s (%s): I/O is buffered", path, why)
    return DirectMode(None)


def _probe(files: Files, dir_fd: int, path: str, flag: int, alignment: int) -> bool:
    """Write and read at an address no better than ``alignment``; True if it bypassed the cache."""
    room = aligned_buffer(_PROBE_BYTES + BLOCK_BYTES)
    data = room[alignment % BLOCK_BYTES :][:_PROBE_BYTES]
    data[:] = pattern = os.urandom(_PROBE_BYTES)
    files.unlink(PROBE_NAME, dir_fd)
    fd = files.open(PROBE_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | flag, dir_fd)
    try:
        call_fully(files.pwritev, fd, [data], 0)
        data[:] = bytes(_PROBE_BYTES)
        call_fully(files.preadv, fd, [data], 0)
        if data != pattern:
            raise TierError(f"{path} does not give back what was written there")
        return flag != 0 and not _cached(fd)
    finally:
        files.close(fd)
        files.unlink(PROBE_NAME, dir_fd)


def _cached(fd: int) -> bool:
    """Whether the page cache holds a block of the probe file; True if that cannot be told."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        with mmap.mmap(fd, _PROBE_BYTES) as pages:
            resident = ctypes.create_string_buffer(_PROBE_BYTES // mmap.PAGESIZE or 1)
            first = ctypes.c_char.from_buffer(pages)
            failed = libc.mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(_PROBE_BYTES), resident
            )
            del first
        return failed != 0 or any(byte & 1 for byte in resident.raw)
    except (OSError, AttributeError):
        return True
