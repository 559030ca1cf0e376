"""What is on its way: device blocks that jobs read or write, and bytes in flight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["Claims"]


class Claims:
    """Blocks in use and bytes in flight, at most ``limit_bytes``; not thread-safe.

    Several jobs may read a block at once; one that is written belongs to one job alone.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.in_flight_bytes = 0
        self._readers: dict[int, int] = {}
        self._written: set[int] = set()

    def check(self, chunks: Iterable[Sequence[int]], *, write: bool) -> None:
        """Raise ValueError for blocks that would get, or give, mixed bytes."""
        readers, written = self._readers, self._written
        if not written and not (write and readers):
            return
        for blocks in chunks:
            for block in blocks:
                if block in written or (write and block in readers):
                    raise ValueError(f"block {block} belongs to a job that is not done yet")

    def room_for(self, sizes: Sequence[int]) -> int:
        """How many chunks of these sizes, from the front, may be in flight as well."""
        left = self.limit_bytes - self.in_flight_bytes
        if sum(sizes) <= left:
            return len(sizes)
        count = 0
        for size in sizes:
            left -= size
            if left < 0:
                break
            count += 1
        return count

    def take(self, blocks: Iterable[int], num_bytes: int, *, write: bool) -> None:
        """The blocks, and the bytes, of chunks that are now under way."""
        self.in_flight_bytes += num_bytes
        if write:
            self._written.update(blocks)
        else:
            readers = self._readers
            for block in blocks:
                readers[block] = readers.get(block, 0) + 1

    def give(self, blocks: Iterable[int], num_bytes: int, *, write: bool) -> None:
        """They have arrived, or not: the blocks are the caller's again."""
        self.in_flight_bytes -= num_bytes
        if write:
            self._written.difference_update(blocks)
        else:
            readers = self._readers
            for block in blocks:
                if readers[block] == 1:
                    del readers[block]
                else:
                    readers[block] -= 1
