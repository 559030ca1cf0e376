"""What a tier's storage gives to those who use it without the tier: what ``bench`` compares with.

As many bytes, in values of the same size, from as many threads; no index, no checksum, no queue.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.disk.blockio import aligned_buffer
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.disk.options import DiskOptions
from kvengine.runtime.tiers.valkey.options import ValkeyOptions, addresses
from kvengine.units import align_up

__all__ = ["Raw", "RawFile", "RawStore"]


class Raw(ABC):
    """Storage under a tier. ``put`` writes ``count`` values of ``num_bytes``, ``get`` reads them.

    Both raise what the system raises, or TierError for a store.
    """

    @abstractmethod
    def put(self, count: int, num_bytes: int) -> None:
        """Write the values."""

    @abstractmethod
    def get(self, count: int, num_bytes: int) -> None:
        """Read the values that ``put`` wrote last."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class RawFile(Raw):
    """One file: ``pwrite`` and ``pread`` of a value per call, as an ``fs`` tier would do them.

    Direct if the tier's own I/O has been direct so far, with its fsync policy. The file is made
    once and then written over, for a tier has its room ready, too.
    """

    def __init__(self, folder: Path, options: DiskOptions, tier: Tier) -> None:
        self._path = folder / "raw"
        self._options = options
        self._tier = tier

    def put(self, count: int, num_bytes: int) -> None:
        """Write the file, or over it."""
        each = align_up(num_bytes, BLOCK_BYTES)
        fsync = self._options.fsync

        def write(fd: int, number: int, piece: memoryview) -> None:
            os.pwrite(fd, piece, number * each)
            if fsync == "put":
                os.fdatasync(fd)

        fd = self._open()
        try:
            if os.fstat(fd).st_size < count * each:
                os.posix_fallocate(fd, 0, count * each)
            self._all(fd, count, each, write, self._options.n_write_threads)
            if fsync == "seal":
                os.fdatasync(fd)
        finally:
            os.close(fd)

    def get(self, count: int, num_bytes: int) -> None:
        """Read that file."""
        each = align_up(num_bytes, BLOCK_BYTES)

        def read(fd: int, number: int, piece: memoryview) -> None:
            os.preadv(fd, [piece], number * each)

        fd = self._open()
        try:
            self._all(fd, count, each, read, self._options.n_read_threads)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _open(self) -> int:
        direct = os.O_DIRECT if "direct" in self._tier.stats().io_bytes else 0
        return os.open(self._path, os.O_RDWR | os.O_CREAT | direct, 0o600)

    @staticmethod
    def _all(
        fd: int,
        count: int,
        num_bytes: int,
        act: Callable[[int, int, memoryview], None],
        threads: int,
    ) -> None:
        def work(first: int) -> None:
            piece = aligned_buffer(num_bytes)
            for number in range(first, count, threads):
                act(fd, number, piece)

        _run(work, threads)


class RawStore(Raw):
    """The client's own ``SET`` and ``GET``, a value per call."""

    def __init__(self, options: ValkeyOptions) -> None:
        from redis import Connection, SSLConnection, UnixDomainSocketConnection

        from kvengine.runtime.tiers.valkey.connect import connect
        from kvengine.runtime.tiers.valkey.sockets import Sockets

        self._sockets = Sockets()
        self._client = connect(options, self._sockets)
        self._threads = options.threads
        self._names: list[bytes] = []
        if not (options.cluster or options.service):
            server = addresses(options)[0]
            plain = SSLConnection if server.tls else Connection
            pool = self._client.connection_pool
            pool.connection_class = UnixDomainSocketConnection if server.path else plain

    def put(self, count: int, num_bytes: int) -> None:
        """``SET`` values, for a minute at most."""
        self._names = [b"kvengine-bench:" + os.urandom(8) for _ in range(count)]
        value = os.urandom(num_bytes)

        def work(first: int) -> None:
            for name in self._names[first :: self._threads]:
                self._client.set(name, value, ex=60)

        with _store_trouble():
            _run(work, self._threads)

    def get(self, count: int, num_bytes: int) -> None:
        """``GET`` them; what comes is dropped."""

        def work(first: int) -> None:
            for name in self._names[first :: self._threads]:
                assert len(self._client.get(name) or b"") == num_bytes

        with _store_trouble():
            _run(work, self._threads)
            for name in self._names:
                self._client.delete(name)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._sockets.close()


@contextmanager
def _store_trouble() -> Iterator[None]:
    from redis import RedisError

    try:
        yield
    except RedisError as error:
        raise TierError(f"the store, used directly: {error}") from error


def _run(work: Callable[[int], None], threads: int) -> None:
    """Call ``work`` with 0, 1, ... in so many threads; what one raises is raised."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
