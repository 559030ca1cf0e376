"""Who leaves a full pool first: LRU, ARC and S3-FIFO over chunks of different sizes.

A policy knows only chunks that may leave. One in use is *held* and unknown to it until it is
*released*, so a pinned chunk is never looked at, let alone evicted, and every call costs O(1) per
chunk (S3-FIFO's ``victims`` amortised: each step back is paid for by a touch). The chunks
themselves are the links of a policy's lists: only what left is found by key.
"""

# ruff: noqa: D102 (what a method does is said once, at Policy)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

__all__ = ["POLICIES", "Arc", "Evictable", "Lru", "Policy", "S3Fifo", "make_policy"]


class Evictable:
    """What a policy needs of a chunk; ``mark``, 0 at first, and the neighbours are its own."""

    __slots__ = ("after", "before", "key", "mark", "num_bytes")

    key: bytes
    num_bytes: int
    mark: int
    before: Evictable
    after: Evictable


class Policy(ABC):
    """The order in which chunks leave a pool of ``capacity_bytes``. Chunks come in batches."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes

    def expect(self, chunks: Iterable[Evictable]) -> None:  # noqa: B027
        """New chunks are about to be stored; called before victims are asked for."""

    @abstractmethod
    def admit(self, chunks: Sequence[Evictable]) -> None:
        """Expected chunks are stored and may leave from now on."""

    @abstractmethod
    def touch(self, chunks: Sequence[Evictable]) -> None:
        """Chunks were used, one after the other; never called with one that is held."""

    @abstractmethod
    def hold(self, chunks: Iterable[Evictable]) -> None:
        """Chunks are in use and must stay."""

    @abstractmethod
    def release(self, chunks: Sequence[Evictable]) -> None:
        """Held chunks may leave again; having been in use counts as a touch.

        So may victims that stay after all: then they never left.
        """

    def forget(self, chunks: Iterable[Evictable]) -> None:
        """Chunks are gone for another reason; nothing is learnt from that."""
        self.hold(chunks)

    @abstractmethod
    def victims(self, count: int) -> list[Evictable]:
        """Who leaves now, no longer known afterwards; fewer than ``count`` when no more may."""


class _Lane(Evictable):
    """Chunks in order, linked to a ring that this closes, and the sum of their bytes.

    A chunk that goes is linked to nothing but the lane: it keeps no other alive.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.before = self.after = self
        self.num_bytes = 0

    def __bool__(self) -> bool:
        return self.after is not self

    def extend(self, chunks: Iterable[Evictable]) -> None:
        """Chunks of no lane come in at the end."""
        last: Evictable = self.before
        num_bytes = 0
        for chunk in chunks:
            chunk.before = last
            last.after = chunk
            last = chunk
            num_bytes += chunk.num_bytes
        last.after = self
        self.before = last
        self.num_bytes += num_bytes

    def remove(self, chunk: Evictable) -> None:
        """A chunk of this lane goes."""
        before, after = chunk.before, chunk.after
        before.after = after
        after.before = before
        chunk.before = chunk.after = self
        self.num_bytes -= chunk.num_bytes

    def move_to_end(self, chunks: Iterable[Evictable]) -> None:
        """Chunks become the last, one after the other; bytes are not counted anew."""
        for chunk in chunks:
            before, after = chunk.before, chunk.after
            before.after = after
            after.before = before
            last = self.before
            chunk.before = last
            chunk.after = self
            last.after = chunk
            self.before = chunk

    def leave(self, count: int, floor_bytes: float = 0) -> list[Evictable]:
        """The first ``count`` go, as long as there are more than ``floor_bytes``."""
        leaving: list[Evictable] = []
        chunk, left_bytes = self.after, self.num_bytes
        for _ in range(count):
            if left_bytes <= floor_bytes:
                break
            left_bytes -= chunk.num_bytes
            leaving.append(chunk)
            after = chunk.after
            chunk.before = chunk.after = self
            chunk = after
        self.after = chunk
        chunk.before = self
        self.num_bytes = left_bytes
        return leaving


class Lru(Policy):
    """The least recently used one leaves."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self._order = _Lane()

    def admit(self, chunks: Sequence[Evictable]) -> None:
        self._order.extend(chunks)

    def touch(self, chunks: Sequence[Evictable]) -> None:
        self._order.move_to_end(chunks)

    def hold(self, chunks: Iterable[Evictable]) -> None:
        for chunk in chunks:
            self._order.remove(chunk)

    release = admit

    def victims(self, count: int) -> list[Evictable]:
        return self._order.leave(count)


_ONCE, _OFTEN = 0, 1


class Arc(Policy):
    """Adaptive replacement (Megiddo and Modha, FAST 2003), weighing bytes instead of pages.

    Chunks used once and chunks used more often form two LRU lists; what left either one lately
    is remembered by key, and decides how many bytes the first list may have.
    """

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.once_target_bytes = 0.0
        self._lanes = self._once, self._often = _Lane(), _Lane()
        self._ghosts = _Ghosts(lanes=2)

    def expect(self, chunks: Iterable[Evictable]) -> None:
        for chunk in self._ghosts.known(chunks):
            self._learn(chunk)

    def _learn(self, chunk: Evictable) -> None:
        """A chunk comes back that left lately: the list that it left was too short."""
        once_bytes, often_bytes = [lane.num_bytes for lane in self._ghosts.lanes]
        if self._ghosts.drop(chunk.key) == _ONCE:
            step = chunk.num_bytes * max(1.0, often_bytes / once_bytes)
            self.once_target_bytes = min(self.capacity_bytes, self.once_target_bytes + step)
        else:
            step = chunk.num_bytes * max(1.0, once_bytes / often_bytes)
            self.once_target_bytes = max(0.0, self.once_target_bytes - step)
        chunk.mark = _OFTEN

    def admit(self, chunks: Sequence[Evictable]) -> None:
        back = [chunk for chunk in chunks if chunk.mark]
        if back:
            self._often.extend(back)
            chunks = [chunk for chunk in chunks if not chunk.mark]
        if chunks:
            self._once.extend(chunks)
            resident_once = self._once.num_bytes
            self._ghosts.shrink(_ONCE, self.capacity_bytes - resident_once)
            others = resident_once + self._often.num_bytes + self._ghosts.lanes[_ONCE].num_bytes
            self._ghosts.shrink(_OFTEN, 2 * self.capacity_bytes - others)

    def touch(self, chunks: Sequence[Evictable]) -> None:
        moved_bytes = 0
        for chunk in chunks:
            if not chunk.mark:
                chunk.mark = _OFTEN
                moved_bytes += chunk.num_bytes
        self._once.num_bytes -= moved_bytes
        self._often.num_bytes += moved_bytes
        self._often.move_to_end(chunks)

    def hold(self, chunks: Iterable[Evictable]) -> None:
        for chunk in chunks:
            self._lanes[chunk.mark].remove(chunk)

    def release(self, chunks: Sequence[Evictable]) -> None:
        for chunk in chunks:
            if chunk.mark & _GONE:
                self._ghosts.drop(chunk.key)
            chunk.mark = _OFTEN
        self._often.extend(chunks)

    def victims(self, count: int) -> list[Evictable]:
        target_bytes = self.once_target_bytes if self._often else 0
        leaving = self._leave(_ONCE, count, target_bytes)
        if len(leaving) < count:
            leaving += self._leave(_OFTEN, count - len(leaving))
        if len(leaving) < count:
            leaving += self._leave(_ONCE, count - len(leaving))
        return leaving

    def _leave(self, mark: int, count: int, floor_bytes: float = 0) -> list[Evictable]:
        leaving = self._lanes[mark].leave(count, floor_bytes)
        self._ghosts.add(mark, leaving)
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
        for chunk in self._ghosts.known(chunks):
            self._ghosts.drop(chunk.key)
            chunk.mark = _IN_MAIN

    def admit(self, chunks: Sequence[Evictable]) -> None:
        self._small.extend([chunk for chunk in chunks if not chunk.mark & _IN_MAIN])
        self._main.extend([chunk for chunk in chunks if chunk.mark & _IN_MAIN])

    def touch(self, chunks: Sequence[Evictable]) -> None:
        for chunk in chunks:
            if chunk.mark & _USES < _USES:
                chunk.mark += 1

    def hold(self, chunks: Iterable[Evictable]) -> None:
        small, main = self._small, self._main
        for chunk in chunks:
            (main if chunk.mark & _IN_MAIN else small).remove(chunk)

    def release(self, chunks: Sequence[Evictable]) -> None:
        for chunk in chunks:
            if chunk.mark & _GONE:
                chunk.mark = self._ghosts.drop(chunk.key)
        self.touch(chunks)
        self.admit(chunks)

    def victims(self, count: int) -> list[Evictable]:
        small, main = self._small, self._main
        small_bytes = self.capacity_bytes / _SMALL_SHARE
        leaving: list[Evictable] = []
        while len(leaving) < count and (small or main):
            if small.num_bytes > small_bytes:
                leaving += self._from_small(small.leave(count - len(leaving), small_bytes))
            elif main:
                leaving += self._from_main(main.leave(count - len(leaving)))
            else:
                leaving += self._from_small(small.leave(1))
        return leaving

    def _from_small(self, chunks: Sequence[Evictable]) -> list[Evictable]:
        """Those that really leave, and are remembered; what was used twice moves on."""
        used = [chunk for chunk in chunks if chunk.mark & _USES > 1]
        leaving = [chunk for chunk in chunks if chunk.mark & _USES <= 1]
        for chunk in used:
            chunk.mark = _IN_MAIN
        self._main.extend(used)
        self._ghosts.add(0, leaving)
        self._ghosts.shrink(0, self.capacity_bytes)
        return leaving

    def _from_main(self, chunks: Sequence[Evictable]) -> list[Evictable]:
        """Those that really leave; what was used gets another turn for each use."""
        used = [chunk for chunk in chunks if chunk.mark & _USES]
        leaving = [chunk for chunk in chunks if not chunk.mark & _USES]
        for chunk in used:
            chunk.mark -= 1
        self._main.extend(used)
        return leaving


_GONE = 8


class _Ghosts:
    """Chunks that left, found by key, in one order or several; the oldest are forgotten first."""

    __slots__ = ("_chunks", "lanes")

    def __init__(self, lanes: int = 1) -> None:
        self.lanes = tuple(_Lane() for _ in range(lanes))
        self._chunks: dict[bytes, Evictable] = {}

    def known(self, chunks: Iterable[Evictable]) -> list[Evictable]:
        """Those of these chunks whose keys left before."""
        known = self._chunks
        return [chunk for chunk in chunks if chunk.key in known] if known else []

    def add(self, lane: int, chunks: Sequence[Evictable]) -> None:
        """Chunks left, from the lane of this number."""
        known, mark = self._chunks, _GONE | lane
        for chunk in chunks:
            chunk.mark = mark
            known[chunk.key] = chunk
        self.lanes[lane].extend(chunks)

    def drop(self, key: bytes) -> int:
        """Forget one that is known; the lane in which it was."""
        chunk = self._chunks.pop(key)
        chunk.mark ^= _GONE
        self.lanes[chunk.mark].remove(chunk)
        return chunk.mark

    def shrink(self, lane: int, num_bytes: int) -> None:
        """Forget the oldest of a lane until no more than ``num_bytes`` are known."""
        known = self._chunks
        for chunk in self.lanes[lane].leave(len(known), max(0, num_bytes)):
            del known[chunk.key]
            chunk.mark = 0


POLICIES: dict[str, type[Policy]] = {"arc": Arc, "lru": Lru, "s3fifo": S3Fifo}


def make_policy(name: str, capacity_bytes: int) -> Policy:
    """The policy of that name; ValueError names those there are."""
    if name not in POLICIES:
        raise ValueError(f"there is no eviction policy {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name](capacity_bytes)
