"""The books of host memory: which chunk is where, who reads it, who leaves first. No torch.

A chunk is *pending* from ``prepare_store`` until ``complete_store``, *resident* afterwards and
*pinned* while a load reads it. Only resident chunks that nobody reads can be evicted. A chunk that
is dropped while somebody writes or reads it is a miss at once, and gives its place back when the
last of them is done.

Batches are given in the order of a prefix. Where a policy cares about order, the end of a prefix
is less worth than its beginning, so a batch is admitted and touched from its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import cast

from kvengine.runtime.admission import Admission
from kvengine.runtime.held import Chunk, Found, PoolStats, Prepared, Span, covers
from kvengine.runtime.places import Place, Places
from kvengine.runtime.policies import make_policy

__all__ = ["Chunk", "Found", "HostPool", "PoolStats", "Prepared", "Span", "agree"]

_MISS, _HIT, _PENDING = Found.MISS, Found.HIT, Found.PENDING
_BySize = Sequence[tuple[int, Sequence[Chunk]]]
"""The sizes there are among some chunks, and those of each size."""


class HostPool:
    """The books of one rank's host memory. Single owner: calls must not overlap.

    ``chunk_bytes`` is the payload of a chunk per group (``plan.offload.chunk_bytes``). A key ends
    with its group's number, 4 bytes big-endian. Raises ValueError for a key of no group.
    """

    def __init__(
        self,
        chunk_bytes: Sequence[int],
        budget_bytes: int,
        *,
        policy: str = "lru",
        store_threshold: int = 0,
        threshold_memory: int = 64_000,
    ) -> None:
        self.chunk_bytes = tuple(chunk_bytes)
        self.places = Places(self.chunk_bytes, budget_bytes)
        self._policy = make_policy(policy, self.places.capacity_bytes)
        self._admission = Admission(store_threshold, threshold_memory)
        self._chunks: dict[bytes, Chunk] = {}
        self._any_parts = False
        self._group_of = {
            group.to_bytes(4, "big"): (group, size) for group, size in enumerate(chunk_bytes)
        }
        self._occupied = {size: self.places.occupied_bytes(size) for size in chunk_bytes}
        self._resident_bytes = self._resident_chunks = 0
        self._pinned_bytes = self._pinned_chunks = self._pending_bytes = 0
        self._lookups = self._misses = self._hits = 0
        self._stores = self._failed_stores = self._evictions = 0
        self._not_admitted = self._no_room = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def __contains__(self, key: bytes) -> bool:
        return self.lookup_one(key) is not _MISS

    def group_of(self, key: bytes) -> int:
        """The group that a key names."""
        return self.shape_of(key)[0]

    def shape_of(self, key: bytes) -> tuple[int, int]:
        """The group that a key names, and the payload of its chunks."""
        shape = self._group_of.get(key[-4:])
        if shape is None:
            number = int.from_bytes(key[-4:], "big")
            raise ValueError(f"a key names group {number}, there are {len(self._group_of)} groups")
        return shape

    def shapes_of(self, keys: Iterable[bytes]) -> list[tuple[int, int]]:
        """``shape_of`` each."""
        known = self._group_of
        return [known.get(key[-4:]) or self.shape_of(key) for key in keys]

    def lookup(self, keys: Iterable[bytes], spans: Sequence[Span] | None = None) -> list[Found]:
        """What is known of each chunk; with ``spans``, of these blocks of each.

        A chunk stored in part is a hit only for the blocks that it has.
        """
        chunks = map(self._chunks.get, keys)
        if spans is not None:
            found = [
                _MISS if chunk is None or not covers(chunk, span) else chunk.found
                for chunk, span in zip(chunks, spans, strict=True)
            ]
        elif self._any_parts:
            found = [_MISS if chunk is None or chunk.span else chunk.found for chunk in chunks]
        else:
            found = [_MISS if chunk is None else chunk.found for chunk in chunks]
        self._lookups += len(found)
        self._misses += found.count(_MISS)
        self._hits += found.count(_HIT)
        return found

    def lookup_one(self, key: bytes) -> Found:
        """What is known of one whole chunk. Not counted as a lookup."""
        chunk = self._chunks.get(key)
        return _MISS if chunk is None or chunk.span else chunk.found

    def chunk(self, key: bytes) -> Chunk | None:
        """A chunk that is resident or pending, for looking at only."""
        chunk = self._chunks.get(key)
        return None if chunk is None or chunk.found is _MISS else chunk

    def touch(self, keys: Sequence[bytes]) -> None:
        """The chunks of a prefix were used; unknown ones and those on their way are passed over."""
        get = self._chunks.get
        self._policy.touch(
            [
                chunk
                for key in reversed(keys)
                if (chunk := get(key)) is not None and not chunk.pins and chunk.found is _HIT
            ]
        )

    def prepare_store(
        self,
        keys: Iterable[bytes],
        spans: Sequence[Span | None] | None = None,
        *,
        admit_all: bool = False,
    ) -> Prepared:
        """Make room for chunks that are not there, evicting others, never one of ``keys``.

        Every key returned in ``keys`` must be completed. ``spans`` says which blocks will be
        written, where it is not all of a chunk. A chunk held in part is replaced when other blocks
        of it are offered, unless it is in use. ``admit_all`` passes by the store threshold.
        """
        keys = list(keys)
        chunks = self._chunks
        shapes = self.shapes_of(keys)
        if spans is not None or self._any_parts:
            self._any_parts = True
            self._replace_parts(keys, spans)
        present: list[bytes] = []
        refused: list[bytes] = []
        made: list[Chunk] = []
        admits = None if admit_all or self._admission.open else self._admission.admits
        for key, (_, size), span in zip(keys, shapes, spans or [None] * len(keys), strict=True):
            if (known := chunks.get(key)) is not None:
                (refused if known.found is _MISS else present).append(key)
            elif admits is not None and not admits(key):
                self._not_admitted += 1
                refused.append(key)
            else:
                chunks[key] = chunk = Chunk()  # filled in here: a constructor takes twice as long
                chunk.key, chunk.num_bytes, chunk.span = key, size, span
                chunk.found, chunk.place = _PENDING, ()
                chunk.pins = chunk.mark = 0
                made.append(chunk)
        self._policy.expect(made)
        by_size = self._by_size(made)
        evicted = self._make_room(by_size, present)
        no_room = self._place(made, by_size)
        if no_room:
            refused += [chunk.key for chunk in no_room]
            made = [chunk for chunk in made if chunk.place]
            by_size = self._by_size(made)
        self._pending_bytes += _sum_of(by_size)
        return Prepared(
            keys=[chunk.key for chunk in made],
            places=[chunk.place for chunk in made],
            present=present,
            refused=refused,
            evicted=evicted,
        )

    def complete_store(
        self, keys: Sequence[bytes], success: bool = True, *, pin: bool = False
    ) -> None:
        """The bytes of pending chunks are there, and they can be found; or the write failed.

        With ``pin`` the writer keeps their places until ``complete_load``.
        """
        chunks = self._chunks
        ended = [chunks[key] for key in reversed(keys)]
        ended_bytes = sum([chunk.num_bytes for chunk in ended])
        self._pending_bytes -= ended_bytes
        stored = [chunk for chunk in ended if chunk.found is _PENDING] if success else []
        for chunk in stored:
            chunk.found = _HIT
        whole = len(stored) == len(ended)
        self._resident_bytes += ended_bytes if whole else _sum_of(self._by_size(stored))
        self._resident_chunks += len(stored)
        if pin:
            self._pin(ended)
        else:
            self._policy.admit(stored)
            if not whole:
                self._give_back(
                    self._by_size([chunk for chunk in ended if chunk.found is not _HIT])
                )
        if success:
            self._stores += len(keys)
        else:
            self._failed_stores += len(keys)

    def prepare_load(
        self, keys: Sequence[bytes], spans: Sequence[Span | None] | None = None
    ) -> list[Place | None]:
        """Pin chunks and say where they are; None for one that is not resident (any more).

        ``spans`` says which blocks of each are wanted, where it is not all of them.
        Every key that got a place must be completed, once per call.
        """
        get = self._chunks.get
        places: list[Place | None] = []
        fresh: list[Chunk] = []
        for index, key in enumerate(keys):
            chunk = get(key)
            if (
                chunk is None
                or chunk.found is not _HIT
                or (chunk.span is not None and not covers(chunk, spans[index] if spans else None))
            ):
                places.append(None)
                continue
            if not chunk.pins:
                fresh.append(chunk)
            chunk.pins += 1
            places.append(chunk.place)
        self._policy.hold(fresh)
        self._pinned_chunks += len(fresh)
        self._pinned_bytes += sum([chunk.num_bytes for chunk in fresh])
        return places

    def complete_load(self, keys: Sequence[bytes]) -> None:
        """Take one pin off each chunk."""
        free = self._unpin(reversed(keys))
        self._policy.release([chunk for chunk in free if chunk.found is _HIT])
        self._give_back(self._by_size([chunk for chunk in free if chunk.found is not _HIT]))

    def yield_places(self, low_share: int, most: int) -> list[tuple[bytes, Place]]:
        """When less than one part in ``low_share`` is free: who would leave next, pinned.

        They stay resident until ``retire``, so that another tier can read them first. Chunks held
        in part just leave.
        """
        leaving: list[Chunk] = []
        short_bytes = self.places.capacity_bytes // low_share - self.places.free_bytes
        while short_bytes > 0 and len(leaving) < most and (chunks := self._victims(1)):
            short_bytes -= self._occupied[chunks[0].num_bytes]
            if chunks[0].span is not None:
                self._evict(chunks)
            else:
                leaving += chunks
        self._pin(leaving)
        return [(chunk.key, chunk.place) for chunk in leaving]

    def retire(self, keys: Iterable[bytes]) -> None:
        """Chunks that ``yield_places`` named may go, unless a load reads them meanwhile."""
        free = self._unpin(keys)
        self._evict([chunk for chunk in free if chunk.found is _HIT])
        self._give_back(self._by_size([chunk for chunk in free if chunk.found is not _HIT]))

    def discard(self, keys: Iterable[bytes]) -> None:
        """Forget chunks: they are misses from now on, whoever still writes or reads them."""
        for key in keys:
            chunk = self._chunks.get(key)
            if chunk is not None and chunk.found is not _MISS:
                self._drop(chunk)

    def reset(self) -> None:
        """Forget every chunk."""
        self.discard(list(self._chunks))

    def stats(self) -> PoolStats:
        """Gauges and counters; O(1)."""
        return PoolStats(
            capacity_bytes=self.places.capacity_bytes,
            resident_bytes=self._resident_bytes,
            pending_bytes=self._pending_bytes,
            pinned_bytes=self._pinned_bytes,
            free_bytes=self.places.free_bytes,
            resident_chunks=self._resident_chunks,
            pinned_chunks=self._pinned_chunks,
            lookups=self._lookups,
            hits=self._hits,
            misses=self._misses,
            stores=self._stores,
            failed_stores=self._failed_stores,
            evictions=self._evictions,
            not_admitted=self._not_admitted,
            no_room=self._no_room,
        )

    def check(self) -> None:
        """Assert that the books balance; O(chunks), for tests."""
        self.places.check()
        chunks = list(self._chunks.values())
        resident = [chunk for chunk in chunks if chunk.found is _HIT]
        taken = sum(self._occupied[chunk.num_bytes] for chunk in chunks)
        assert taken + self.places.free_bytes == self.places.capacity_bytes
        assert sum(chunk.num_bytes for chunk in resident) == self._resident_bytes
        assert sum(chunk.num_bytes for chunk in chunks if chunk.pins) == self._pinned_bytes
        runs = sorted(run for chunk in chunks for run in chunk.place)
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(runs))

    def _replace_parts(self, keys: Sequence[bytes], spans: Sequence[Span | None] | None) -> None:
        """Drop chunks held in part for which other blocks are offered, unless they are in use."""
        for index, key in enumerate(keys):
            chunk = self._chunks.get(key)
            if chunk is None or chunk.span is None or chunk.pins or chunk.found is not _HIT:
                continue
            if not covers(chunk, None if spans is None else spans[index]):
                self._drop(chunk)

    def _make_room(self, wanted: _BySize, keep: Sequence[bytes]) -> list[bytes]:
        """Evict others than ``keep`` until these chunks fit, or no more may leave; who left."""
        need_bytes = self._occupied_by(wanted)
        if need_bytes <= self.places.free_bytes:
            return []
        largest = max(self._occupied.values())
        if largest > self.places.capacity_bytes:
            need_bytes = self._occupied_by([one for one in wanted if self._may_fit(one[0])])
        known = [self._chunks[key] for key in dict.fromkeys(keep)]
        kept = [chunk for chunk in known if chunk.found is _HIT and not chunk.pins]
        self._policy.hold(kept)
        evicted: list[bytes] = []
        # So few at a time that none leaves in vain.
        while (short_bytes := need_bytes - self.places.free_bytes) > 0:
            victims = self._victims(max(1, short_bytes // largest))
            if not victims:
                break
            self._evict(victims)
            evicted += [chunk.key for chunk in victims]
        self._policy.release(kept)
        return evicted

    def _place(self, chunks: Sequence[Chunk], by_size: _BySize) -> list[Chunk]:
        """Give new chunks their places; those that found none are forgotten."""
        if len(by_size) == 1 or self._occupied_by(by_size) <= self.places.free_bytes:
            num_placed = 0
            for size, mine in by_size:
                places = self.places.take_many(len(mine), size)
                num_placed += len(places)
                for chunk, place in zip(mine, places, strict=False):
                    chunk.place = place
            if num_placed == len(chunks):
                return []
        else:
            for chunk in chunks:
                chunk.place = self.places.take(chunk.num_bytes) or ()
        without = [chunk for chunk in chunks if not chunk.place]
        for chunk in without:
            del self._chunks[chunk.key]
        self._no_room += len(without)
        return without

    def _by_size(self, chunks: Sequence[Chunk]) -> _BySize:
        if len(self._occupied) == 1:
            return [(self.chunk_bytes[0], chunks)]
        sizes = {chunk.num_bytes for chunk in chunks}
        return [(size, [chunk for chunk in chunks if chunk.num_bytes == size]) for size in sizes]

    def _occupied_by(self, by_size: _BySize) -> int:
        return sum([self._occupied[size] * len(chunks) for size, chunks in by_size])

    def _may_fit(self, num_bytes: int) -> bool:
        return self._occupied[num_bytes] <= self.places.capacity_bytes

    def _victims(self, count: int) -> list[Chunk]:
        return cast(list[Chunk], self._policy.victims(count))

    def _evict(self, chunks: Sequence[Chunk]) -> None:
        """Resident chunks leave that the policy knows no longer."""
        self._evictions += len(chunks)
        by_size = self._by_size(chunks)
        self._resident_bytes -= _sum_of(by_size)
        self._resident_chunks -= len(chunks)
        self._give_back(by_size)

    def _pin(self, chunks: Sequence[Chunk]) -> None:
        """Chunks that the policy does not know stay, for their first reader."""
        for chunk in chunks:
            chunk.pins = 1
        self._pinned_bytes += sum([chunk.num_bytes for chunk in chunks])
        self._pinned_chunks += len(chunks)

    def _unpin(self, keys: Iterable[bytes]) -> list[Chunk]:
        """Take one pin off each; the chunks that nobody reads any more."""
        chunks = self._chunks
        free: list[Chunk] = []
        for key in keys:
            chunk = chunks[key]
            chunk.pins -= 1
            if not chunk.pins:
                free.append(chunk)
        self._pinned_bytes -= sum([chunk.num_bytes for chunk in free])
        self._pinned_chunks -= len(free)
        return free

    def _drop(self, chunk: Chunk) -> None:
        if chunk.found is _HIT:
            self._resident_bytes -= chunk.num_bytes
            self._resident_chunks -= 1
            if not chunk.pins:
                self._policy.forget([chunk])
                self._give_back(self._by_size([chunk]))
        chunk.found = _MISS

    def _give_back(self, by_size: _BySize) -> None:
        """Forget chunks that nobody writes or reads, and take their places back."""
        for size, chunks in by_size:
            for chunk in chunks:
                del self._chunks[chunk.key]
            self.places.give_many([chunk.place for chunk in chunks], size)


def _sum_of(by_size: _BySize) -> int:
    return sum([size * len(chunks) for size, chunks in by_size])


def agree(budgets_bytes: Iterable[int]) -> int:
    """The budget that every rank of an engine keeps books with: the least that one of them has.

    Each rank's books then take the same decisions, and no rank is sent to bytes that it lacks.
    """
    return min(budgets_bytes)
