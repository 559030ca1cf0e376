"""Who leaves a full pool first: LRU, ARC and S3-FIFO over chunks of different sizes.

A policy knows only chunks that may leave. One in use is *held* and unknown to it until it is
*released*, so a pinned chunk is never looked at, let alone evicted, and every call costs O(1) per
chunk (S3-FIFO's ``victims`` amortised: each step back is paid for by a touch).
"""

# ruff: noqa: D102 (what a method does is said once, at Policy)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

__all__ = ["POLICIES", "Arc", "Evictable", "Lru", "Policy", "S3Fifo", "make_policy"]


class Evictable(Protocol):
    """What a policy needs of a chunk; ``mark`` is the policy's own."""

    key: bytes
    num_bytes: int
    mark: int


class Policy(ABC):
    """The order in which chunks leave a pool of ``capacity_bytes``. Chunks come in batches."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes

    def expect(self, chunks: Iterable[Evictable]) -> None:  # noqa: B027
        """Chunks are about to be stored; called before victims are asked for."""

    @abstractmethod
    def admit(self, chunks: Iterable[Evictable]) -> None:
        """Expected chunks are stored and may leave from now on."""

    @abstractmethod
    def touch(self, chunks: Iterable[Evictable]) -> None:
        """Chunks were used, one after the other; never called with one that is held."""

    @abstractmethod
    def hold(self, chunks: Iterable[Evictable]) -> None:
        """Chunks are in use and must stay."""

    @abstractmethod
    def release(self, chunks: Iterable[Evictable]) -> None:
        """Held chunks may leave again; having been in use counts as a touch."""

    def forget(self, chunks: Iterable[Evictable]) -> None:
        """Chunks are gone for another reason; nothing is learnt from that."""
        self.hold(chunks)

    @abstractmethod
    def victims(self, count: int) -> list[Evictable]:
        """Who leaves now, no longer known afterwards; fewer than ``count`` when no more may."""


class Lru(Policy):
    """The least recently used one leaves."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self._order: OrderedDict[bytes, Evictable] = OrderedDict()

    def admit(self, chunks: Iterable[Evictable]) -> None:
        order = self._order
        for chunk in chunks:
            order[chunk.key] = chunk

    def touch(self, chunks: Iterable[Evictable]) -> None:
        move_to_end = self._order.move_to_end
        for chunk in chunks:
            move_to_end(chunk.key)

    def hold(self, chunks: Iterable[Evictable]) -> None:
        order = self._order
        for chunk in chunks:
            del order[chunk.key]

    release = admit

    def victims(self, count: int) -> list[Evictable]:
        leave = self._order.popitem
        return [leave(last=False)[1] for _ in range(min(count, len(self._order)))]


_NEW, _ONCE, _OFTEN = 0, 1, 2


class Arc(Policy):
    """Adaptive replacement (Megiddo and Modha, FAST 2003), weighing bytes instead of pages.

    Chunks used once and chunks used more often form two LRU lists; what left either one lately
    is remembered by key, and decides how many bytes the first list may have.
    """

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.once_target_bytes = 0.0
        self._once = _Lane()
        self._often = _Lane()
        self._left_once = _Ghosts()
        self._left_often = _Ghosts()

    def expect(self, chunks: Iterable[Evictable]) -> None:
        once, often = self._left_once, self._left_often
        left_once, left_often = once.bytes_by_key, often.bytes_by_key
        for chunk in chunks:
            key = chunk.key
            if key in left_once:
                chunk.mark = _OFTEN
                step = chunk.num_bytes * max(1.0, often.num_bytes / once.num_bytes)
                self.once_target_bytes = min(self.capacity_bytes, self.once_target_bytes + step)
                once.drop(key)
            elif key in left_often:
                chunk.mark = _OFTEN
                step = chunk.num_bytes * max(1.0, once.num_bytes / often.num_bytes)
                self.once_target_bytes = max(0.0, self.once_target_bytes - step)
                often.drop(key)
            else:
                chunk.mark = _NEW

    def admit(self, chunks: Iterable[Evictable]) -> None:
        once, often = self._once.chunks, self._often.chunks
        once_bytes = often_bytes = 0
        for chunk in chunks:
            if chunk.mark == _OFTEN:
                often[chunk.key] = chunk
                often_bytes += chunk.num_bytes
            else:
                chunk.mark = _ONCE
                once[chunk.key] = chunk
                once_bytes += chunk.num_bytes
        self._once.num_bytes += once_bytes
        self._often.num_bytes += often_bytes
        if once_bytes:
            resident_once = self._once.num_bytes
            self._left_once.shrink_to(self.capacity_bytes - resident_once)
            others = resident_once + self._often.num_bytes + self._left_once.num_bytes
            self._left_often.shrink_to(2 * self.capacity_bytes - others)

    def touch(self, chunks: Iterable[Evictable]) -> None:
        once, often = self._once.chunks, self._often.chunks
        moved_bytes = 0
        for chunk in chunks:
            if chunk.mark == _OFTEN:
                often.move_to_end(chunk.key)
            else:
                chunk.mark = _OFTEN
                del once[chunk.key]
                often[chunk.key] = chunk
                moved_bytes += chunk.num_bytes
        self._once.num_bytes -= moved_bytes
        self._often.num_bytes += moved_bytes

    def hold(self, chunks: Iterable[Evictable]) -> None:
        once, often = self._once.chunks, self._often.chunks
        once_bytes = often_bytes = 0
        for chunk in chunks:
            if chunk.mark == _ONCE:
                del once[chunk.key]
                once_bytes += chunk.num_bytes
            else:
                del often[chunk.key]
                often_bytes += chunk.num_bytes
        self._once.num_bytes -= once_bytes
        self._often.num_bytes -= often_bytes

    def release(self, chunks: Iterable[Evictable]) -> None:
        often = self._often.chunks
        num_bytes = 0
        for chunk in chunks:
            chunk.mark = _OFTEN
            often[chunk.key] = chunk
            num_bytes += chunk.num_bytes
        self._often.num_bytes += num_bytes

    def victims(self, count: int) -> list[Evictable]:
        once, often = self._once, self._often
        target_bytes = self.once_target_bytes if often.chunks else 0
        leaving = _leave(once, self._left_once, count, target_bytes)
        leaving += _leave(often, self._left_often, count - len(leaving))
        leaving += _leave(once, self._left_once, count - len(leaving))
        return leaving


_IN_MAIN = 4
_USES = 3
_SMALL_SHARE = 10


class S3Fifo(Policy):
    """Three FIFO queues (Yang and others, SOSP 2023): resists scans, moves nothing on a hit.

    New chunks pass a small queue of a tenth of the bytes; those used twice there go on to the main
    queue, the others leave early and are remembered by key. ``mark`` counts uses, up to three.
    """

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self._small = _Lane()
        self._main = _Lane()
        self._ghosts = _Ghosts()

    def expect(self, chunks: Iterable[Evictable]) -> None:
        for chunk in chunks:
            chunk.mark = _IN_MAIN if self._ghosts.drop(chunk.key) else 0

    def admit(self, chunks: Iterable[Evictable]) -> None:
        small, main = self._small, self._main
        for chunk in chunks:
            (main if chunk.mark & _IN_MAIN else small).add(chunk)

    def touch(self, chunks: Iterable[Evictable]) -> None:
        for chunk in chunks:
            if chunk.mark & _USES < _USES:
                chunk.mark += 1

    def hold(self, chunks: Iterable[Evictable]) -> None:
        small, main = self._small, self._main
        for chunk in chunks:
            (main if chunk.mark & _IN_MAIN else small).remove(chunk)

    def release(self, chunks: Iterable[Evictable]) -> None:
        chunks = tuple(chunks)
        self.touch(chunks)
        self.admit(chunks)

    def victims(self, count: int) -> list[Evictable]:
        leaving: list[Evictable] = []
        while len(leaving) < count and (chunk := self._victim()) is not None:
            leaving.append(chunk)
        return leaving

    def _victim(self) -> Evictable | None:
        small, main = self._small, self._main
        while small.chunks or main.chunks:
            from_small = small.num_bytes * _SMALL_SHARE > self.capacity_bytes or not main.chunks
            chunk = (small if from_small else main).pop()
            uses = chunk.mark & _USES
            if from_small:
                if uses > 1:
                    chunk.mark = _IN_MAIN
                    main.add(chunk)
                    continue
                self._ghosts.add(chunk)
                self._ghosts.shrink_to(self.capacity_bytes)
                return chunk
            if not uses:
                return chunk
            chunk.mark -= 1
            main.add(chunk)
        return None


class _Lane:
    """Chunks in order, and their bytes."""

    __slots__ = ("chunks", "num_bytes")

    def __init__(self) -> None:
        self.chunks: OrderedDict[bytes, Evictable] = OrderedDict()
        self.num_bytes = 0

    def add(self, chunk: Evictable) -> None:
        self.chunks[chunk.key] = chunk
        self.num_bytes += chunk.num_bytes

    def remove(self, chunk: Evictable) -> None:
        del self.chunks[chunk.key]
        self.num_bytes -= chunk.num_bytes

    def pop(self) -> Evictable:
        chunk = self.chunks.popitem(last=False)[1]
        self.num_bytes -= chunk.num_bytes
        return chunk


class _Ghosts:
    """Keys of chunks that left, and the bytes they had; the oldest are forgotten first."""

    __slots__ = ("bytes_by_key", "num_bytes")

    def __init__(self) -> None:
        self.bytes_by_key: OrderedDict[bytes, int] = OrderedDict()
        self.num_bytes = 0

    def add(self, chunk: Evictable) -> None:
        self.bytes_by_key[chunk.key] = chunk.num_bytes
        self.num_bytes += chunk.num_bytes

    def drop(self, key: bytes) -> bool:
        num_bytes = self.bytes_by_key.pop(key, None)
        if num_bytes is None:
            return False
        self.num_bytes -= num_bytes
        return True

    def shrink_to(self, num_bytes: int) -> None:
        while self.num_bytes > num_bytes and self.bytes_by_key:
            self.num_bytes -= self.bytes_by_key.popitem(last=False)[1]


def _leave(lane: _Lane, gone: _Ghosts, count: int, floor_bytes: float = 0) -> list[Evictable]:
    """The oldest of a lane, as long as it has more than ``floor_bytes``; they are remembered."""
    leaving: list[Evictable] = []
    pop, ghosts, left_bytes = lane.chunks.popitem, gone.bytes_by_key, lane.num_bytes
    while left_bytes > floor_bytes and len(leaving) < count:
        key, chunk = pop(last=False)
        ghosts[key] = size = chunk.num_bytes
        left_bytes -= size
        leaving.append(chunk)
    gone.num_bytes += lane.num_bytes - left_bytes
    lane.num_bytes = left_bytes
    return leaving


POLICIES: dict[str, type[Policy]] = {"arc": Arc, "lru": Lru, "s3fifo": S3Fifo}


def make_policy(name: str, capacity_bytes: int) -> Policy:
    """The policy of that name; ValueError names those there are."""
    if name not in POLICIES:
        raise ValueError(f"there is no eviction policy {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name](capacity_bytes)
