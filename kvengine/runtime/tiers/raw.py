"""What a tier's storage gives to those who use it without the tier: what ``bench`` compares with.

As many bytes, in values of the same size, from as many threads; no index, no checksum, no queue.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kvengine.config.tiers.own import DiskOptions, ValkeyOptions
from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.disk.blockio import aligned_buffer
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.valkey.address import addresses, urls_of
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
    def describe(self) -> str:
        """The tier that uses it, and how: for people, without secrets."""

    def clear(self) -> None:  # noqa: B027
        """Remove the values, unless the next ``put`` writes over them. Not to be timed."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class RawFile(Raw):
    """One file: ``pwrite`` and ``preadv`` of a value per call, as an ``fs`` tier would do them.

    Direct if the tier's own I/O has been direct so far, with its fsync policy. Every ``put`` goes
    behind the one before, as a tier's does until it is full: a device is quicker where it wrote
    lately. The values come from memory of their own, which is kept.
    """

    def __init__(self, folder: Path, options: DiskOptions, tier: Tier) -> None:
        self._path = folder / "raw"
        self._options = options
        self._tier = tier
        self._room = memoryview(b"")
        self._start = self._end = 0

    def put(self, count: int, num_bytes: int) -> None:
        """Write values behind those that are there."""
        each = align_up(num_bytes, BLOCK_BYTES)
        self._make_room(count * each)
        self._start, self._end = self._end, self._end + count * each
        fsync = self._options.fsync

        def write(fd: int, at: int) -> None:
            os.pwrite(fd, self._room[at : at + each], self._start + at)
            if fsync == "put":
                os.fdatasync(fd)

        with self._open() as fd:
            if os.fstat(fd).st_size < self._end:
                os.posix_fallocate(fd, self._start, count * each)
            self._all(partial(write, fd), count, each, self._options.n_write_threads)
            if fsync == "seal":
                os.fdatasync(fd)

    def get(self, count: int, num_bytes: int) -> None:
        """Read what was written last."""
        each = align_up(num_bytes, BLOCK_BYTES)

        def read(fd: int, at: int) -> None:
            os.preadv(fd, [self._room[at : at + each]], self._start + at)

        with self._open() as fd:
            self._all(partial(read, fd), count, each, self._options.n_read_threads)

    def describe(self) -> str:
        """Where, in which I/O mode, and when it waits for the device."""
        ways = sorted(set(self._tier.stats().io_bytes) - {"copied"})
        what = " and ".join(ways) or "no"
        fsync = self._options.fsync
        beside = " (beside the writing: only the raw figure has it)" if fsync == "seal" else ""
        return f"fs in {self._options.root_dir}, {what} I/O, fsync {fsync}{beside}"

    def clear(self) -> None:
        """Have room ready for as much again, as a tier has."""
        with self._open() as fd:
            os.posix_fallocate(fd, self._end, self._end - self._start)

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _open(self) -> Iterator[int]:
        direct = os.O_DIRECT if "direct" in self._tier.stats().io_bytes else 0
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | direct, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _make_room(self, num_bytes: int) -> None:
        if len(self._room) < num_bytes:
            self._room = aligned_buffer(num_bytes)
            noise = os.urandom(BLOCK_BYTES)
            for start in range(0, num_bytes, BLOCK_BYTES):
                self._room[start : start + BLOCK_BYTES] = noise

    @staticmethod
    def _all(act: Callable[[int], None], count: int, each: int, threads: int) -> None:
        def work(first: int) -> None:
            for number in range(first, count, threads):
                act(number * each)

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
        self._url = urls_of(options)
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

    def describe(self) -> str:
        """Which servers, over how many connections."""
        return f"valkey at {', '.join(self._url)}, {self._threads} threads"

    def clear(self) -> None:
        """Delete them."""
        with _store_trouble():
            for name in self._names:
                self._client.delete(name)
        self._names = []

    def close(self) -> None:
        """Close the connections; what is left goes by itself."""
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
