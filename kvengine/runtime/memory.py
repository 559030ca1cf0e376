"""Host memory for chunks: as many bytes as asked for, mapped directly from the kernel.

Pinned allocators round up, PyTorch's to powers of two (case R25); a mapping is rounded to pages.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from kvengine.runtime.available import host_available_bytes, require
from kvengine.units import align_up

__all__ = ["HostMemory"]

Bytes = npt.NDArray[np.uint8]

_MADV_POPULATE_WRITE = 23  # Linux 5.14


class HostMemory:
    """``num_bytes`` of zeroed anonymous memory; ``bytes`` is ``(num_bytes,) uint8``.

    With ``populate`` every page is taken now, so that a lack of memory shows at start and no
    copy pays for page faults; huge pages are used where the kernel grants them. The memory is
    unmapped when nobody refers to it or to a view of it any more.
    """

    def __init__(self, num_bytes: int, *, populate: bool = True) -> None:
        if num_bytes < 1:
            raise ValueError(f"host memory takes at least 1 byte, not {num_bytes}")
        require("host memory", num_bytes, host_available_bytes())
        self.num_bytes = num_bytes
        self.mapped_bytes = align_up(num_bytes, mmap.PAGESIZE)
        mapping = mmap.mmap(-1, self.mapped_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._prepare(mapping, populate)

    def _prepare(self, mapping: mmap.mmap, populate: bool) -> None:
        mapped = np.frombuffer(mapping, dtype=np.uint8)
        self.bytes: Bytes = mapped[: self.num_bytes]
        self.address = int(mapped.ctypes.data)
        _advise(mapping, mmap.MADV_HUGEPAGE)
        if populate and not _advise(mapping, _MADV_POPULATE_WRITE):
            mapped[:: mmap.PAGESIZE] = 0

    def view(self, start: int, num_bytes: int) -> memoryview:
        """A writable view of some bytes, without a copy."""
        return self.bytes.data[start : start + num_bytes]

    def resident_bytes(self) -> int:
        """Bytes of the mapping that are in memory now, asked of the kernel (``mincore``)."""
        pages: Any = (ctypes.c_ubyte * (self.mapped_bytes // mmap.PAGESIZE))()
        libc = ctypes.CDLL(None, use_errno=True)
        code = libc.mincore(
            ctypes.c_void_p(self.address), ctypes.c_size_t(self.mapped_bytes), pages
        )
        if code:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int((np.frombuffer(pages, dtype=np.uint8) & 1).sum()) * mmap.PAGESIZE


def _advise(mapping: mmap.mmap, advice: int) -> bool:
    """Whether the kernel took the advice."""
    try:
        mapping.madvise(advice)
    except OSError:
        return False
    return True
