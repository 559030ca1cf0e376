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

from kvengine.runtime.admission import Admission
from kvengine.runtime.held import Chunk, Found, PoolStats, Prepared, Span, covers
from kvengine.runtime.places import Place, Places
from kvengine.runtime.policies import make_policy

__all__ = ["Chunk", "Found", "HostPool", "PoolStats", "Prepared", "Span", "agree"]

_MISS, _HIT, _PENDING = Found.MISS, Found.HIT, Found.PENDING


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

    def lookup(self, keys: Iterable[bytes], spans: Sequence[Span] | None = None) -> list[Found]:
        """What is known of each chunk; with ``spans``, of these blocks of each.

        A chunk stored in part is a hit only for the blocks that it has.
        """
        get = self._chunks.get
        if spans is None:
            found = [
                _MISS if (chunk := get(key)) is None or chunk.span else chunk.found for key in keys
            ]
        else:
            found = [
                _MISS if (chunk := get(key)) is None or not covers(chunk, span) else chunk.found
                for key, span in zip(keys, spans, strict=True)
            ]
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
        out = Prepared([], [], [], [], [])
        keys = list(keys)
        if spans is not None or self._any_parts:
            self._any_parts = True
            self._replace_parts(keys, spans)
        held: list[Chunk] | None = None
        made: list[Chunk] = []
        chunks, places, expect = self._chunks, self.places, self._policy.expect
        group_of, occupied = self._group_of, self._occupied
        admits = None if admit_all or self._admission.open else self._admission.admits
        for index, key in enumerate(keys):
            present = chunks.get(key)
            if present is not None:
                (out.refused if present.found is _MISS else out.present).append(key)
                continue
            size = (group_of.get(key[-4:]) or self.shape_of(key))[1]
            if admits is not None and not admits(key):
                self._not_admitted += 1
                out.refused.append(key)
                continue
            chunk = Chunk(key, size, None if spans is None else spans[index])
            expect(chunk)
            if occupied[size] <= places.free_bytes:
                place = places.take(size)
            else:
                if held is None:
                    held = self._hold_all(keys)
                place = self._make_room(size, out.evicted)
            if place is None:
                self._no_room += 1
                out.refused.append(key)
                continue
            chunk.place = place
            chunks[key] = chunk
            made.append(chunk)
        for chunk in held or ():
            self._policy.release(chunk)
        if out.evicted:
            _straighten(made)
        self._pending_bytes += sum([chunk.num_bytes for chunk in made])
        out.keys.extend([chunk.key for chunk in made])
        out.places.extend([chunk.place for chunk in made])
        return out

    def complete_store(
        self, keys: Sequence[bytes], success: bool = True, *, pin: bool = False
    ) -> None:
        """The bytes of pending chunks are there, and they can be found; or the write failed.

        With ``pin`` the writer keeps their places until ``complete_load``.
        """
        chunks, admit = self._chunks, self._policy.admit
        ended_bytes = stored_bytes = stored = 0
        for key in reversed(keys):
            chunk = chunks[key]
            ended_bytes += chunk.num_bytes
            if success and chunk.found is _PENDING:
                chunk.found = _HIT
                stored_bytes += chunk.num_bytes
                stored += 1
                if not pin:
                    admit(chunk)
            elif not pin:
                self._give_back(chunk)
            if pin:
                chunk.pins = 1
                self._pinned_chunks += 1
                self._pinned_bytes += chunk.num_bytes
        self._pending_bytes -= ended_bytes
        self._resident_bytes += stored_bytes
        self._resident_chunks += stored
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
        get, hold = self._chunks.get, self._policy.hold
        places: list[Place | None] = []
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
                hold(chunk)
                self._pinned_chunks += 1
                self._pinned_bytes += chunk.num_bytes
            chunk.pins += 1
            places.append(chunk.place)
        return places

    def complete_load(self, keys: Sequence[bytes]) -> None:
        """Take one pin off each chunk."""
        chunks, release = self._chunks, self._policy.release
        for key in reversed(keys):
            chunk = chunks[key]
            chunk.pins -= 1
            if chunk.pins:
                continue
            self._pinned_chunks -= 1
            self._pinned_bytes -= chunk.num_bytes
            if chunk.found is _HIT:
                release(chunk)
            else:
                self._give_back(chunk)

    def yield_places(self, low_share: int, most: int) -> list[tuple[bytes, Place]]:
        """When less than one part in ``low_share`` is free: who would leave next, pinned.

        They stay resident until ``retire``, so that another tier can read them first. Chunks held
        in part just leave.
        """
        leaving: list[tuple[bytes, Place]] = []
        short_bytes = self.places.capacity_bytes // low_share - self.places.free_bytes
        while short_bytes > 0 and len(leaving) < most:
            chunk = self._policy.victim()
            if chunk is None:
                break
            assert isinstance(chunk, Chunk)
            short_bytes -= self._occupied[chunk.num_bytes]
            if chunk.span is not None:
                self._evict(chunk)
                continue
            chunk.pins = 1
            self._pinned_chunks += 1
            self._pinned_bytes += chunk.num_bytes
            leaving.append((chunk.key, chunk.place))
        return leaving

    def retire(self, keys: Iterable[bytes]) -> None:
        """Chunks that ``yield_places`` named may go, unless a load reads them meanwhile."""
        for key in keys:
            chunk = self._chunks[key]
            chunk.pins -= 1
            if chunk.pins:
                continue
            self._pinned_chunks -= 1
            self._pinned_bytes -= chunk.num_bytes
            if chunk.found is _HIT:
                self._evict(chunk)
            else:
                self._give_back(chunk)

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

    def _hold_all(self, keys: Iterable[bytes]) -> list[Chunk]:
        held = [
            chunk
            for key in dict.fromkeys(keys)
            if (chunk := self._chunks.get(key)) and chunk.found is _HIT and not chunk.pins
        ]
        for chunk in held:
            self._policy.hold(chunk)
        return held

    def _make_room(self, size: int, evicted: list[bytes]) -> Place | None:
        """Evict until a chunk of ``size`` finds a place; one that fits exactly is handed on."""
        if self._occupied[size] > self.places.capacity_bytes:
            return None
        while (chunk := self._policy.victim()) is not None:
            assert isinstance(chunk, Chunk)
            evicted.append(chunk.key)
            freed = chunk.num_bytes
            self._resident_bytes -= freed
            self._resident_chunks -= 1
            self._evictions += 1
            del self._chunks[chunk.key]
            if freed == size and len(chunk.place) == 1:
                return chunk.place
            self.places.give(chunk.place, freed)
            place = self.places.take(size)
            if place is not None:
                return place
        return None

    def _evict(self, chunk: Chunk) -> None:
        self._count_out(chunk)
        self._evictions += 1
        self._give_back(chunk)

    def _count_out(self, chunk: Chunk) -> None:
        self._resident_bytes -= chunk.num_bytes
        self._resident_chunks -= 1

    def _drop(self, chunk: Chunk) -> None:
        if chunk.found is _HIT:
            self._count_out(chunk)
            if not chunk.pins:
                self._policy.forget(chunk)
                self._give_back(chunk)
        chunk.found = _MISS

    def _give_back(self, chunk: Chunk) -> None:
        del self._chunks[chunk.key]
        self.places.give(chunk.place, chunk.num_bytes)


def _straighten(chunks: Sequence[Chunk]) -> None:
    """Hand places that came free out in the order of addresses: neighbours then move as one."""
    size = chunks[0].num_bytes if chunks else 0
    places = [chunk.place for chunk in chunks if chunk.num_bytes == size]
    if len(places) == len(chunks):
        places.sort()
        for chunk, place in zip(chunks, places, strict=True):
            chunk.place = place


def agree(budgets_bytes: Iterable[int]) -> int:
    """The budget that every rank of an engine keeps books with: the least that one of them has.

    Each rank's books then take the same decisions, and no rank is sent to bytes that it lacks.
    """
    return min(budgets_bytes)
