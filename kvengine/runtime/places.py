"""Where chunks stand in host memory: exact sizes for every group, and no space lost between them.

Host memory is cut in *units*, small enough that rounding a chunk up to whole units wastes at most
1 %. A chunk takes the units it needs wherever they are: one run if there is one, several if not.
So there is no mix of sizes, and no change of mix, that leaves free space nobody can use.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kvengine.units import align_up, ceil_div

__all__ = ["Place", "Places", "Run", "unit_bytes_for"]

Run = tuple[int, int]
"""Contiguous host bytes: where they start, and how many."""

Place = tuple[Run, ...]
"""The host bytes of one chunk, in order; their lengths add up to the chunk's payload."""

_MOST_WASTE = 0.01


def unit_bytes_for(chunk_bytes: Sequence[int]) -> int:
    """The largest unit in which no chunk wastes more than 1 %, aligned as far as that allows.

    4 KiB is what direct I/O wants, 64 bytes what copies want. Chunks of a few bytes get units of
    one byte.
    """
    sizes = sorted(set(chunk_bytes))
    for alignment in (4096, 512, 64, 8, 1):
        candidates = {
            align_up(ceil_div(size, units), alignment) for size in sizes for units in range(1, 129)
        }
        for unit in sorted(candidates, reverse=True):
            if all(align_up(size, unit) - size <= size * _MOST_WASTE for size in sizes):
                return unit
    return 1


class Places:
    """The free and taken units of ``budget_bytes``; not thread-safe.

    Taking and giving back a place cost O(1) while the sizes asked for are those that come free,
    and O(runs) when the mix shifts.
    """

    def __init__(self, chunk_bytes: Sequence[int], budget_bytes: int) -> None:
        self.unit_bytes = unit_bytes_for(chunk_bytes)
        self.num_units = budget_bytes // self.unit_bytes
        self.units_of = {size: ceil_div(size, self.unit_bytes) for size in chunk_bytes}
        self.free_bytes = self.num_units * self.unit_bytes  # not given out, whole units
        # Whole places that came free, by payload: the next chunk of that size takes one as it is.
        self._whole: dict[int, list[Place]] = {size: [] for size in chunk_bytes}
        self._runs = _Runs()
        self._first_unused = 0  # from here on no unit was ever taken

    @property
    def capacity_bytes(self) -> int:
        """Bytes that can be given out, in whole units."""
        return self.num_units * self.unit_bytes

    def occupied_bytes(self, chunk_bytes: int) -> int:
        """What a chunk takes: its payload, rounded up to whole units."""
        return self.units_of[chunk_bytes] * self.unit_bytes

    def fits(self, chunk_bytes: int) -> bool:
        """Whether ``take`` would succeed."""
        return self.occupied_bytes(chunk_bytes) <= self.free_bytes

    def take(self, chunk_bytes: int) -> Place | None:
        """A place for a chunk, or None when fewer units are free than it needs."""
        return next(iter(self.take_many(1, chunk_bytes)), None)

    def take_many(self, count: int, chunk_bytes: int) -> list[Place]:
        """Places for so many chunks of one size, as far as units are free.

        Those that came free lately are handed out in the order of addresses: neighbours then move
        as one.
        """
        units = self.units_of[chunk_bytes]
        size = units * self.unit_bytes
        count = min(count, self.free_bytes // size)
        self.free_bytes -= count * size
        whole = self._whole[chunk_bytes]
        if len(whole) >= count:
            taken = whole[len(whole) - count :]
            del whole[len(whole) - count :]
            taken.sort()
            return taken
        taken = sorted(whole)
        whole.clear()
        first = self._first_unused
        fresh = min(count - len(taken), (self.num_units - first) // units)
        start, self._first_unused = first * self.unit_bytes, first + fresh * units
        taken += [((start + at * size, chunk_bytes),) for at in range(fresh)]
        while len(taken) < count:
            taken.append(self._gather(units, chunk_bytes))
        return taken

    def give(self, place: Place, chunk_bytes: int) -> None:
        """Take a place back that ``take(chunk_bytes)`` gave."""
        self.give_many([place], chunk_bytes)

    def give_many(self, places: Sequence[Place], chunk_bytes: int) -> None:
        """Take places back that were given to chunks of one size."""
        self.free_bytes += len(places) * self.units_of[chunk_bytes] * self.unit_bytes
        whole = [place for place in places if len(place) == 1]
        self._whole[chunk_bytes] += whole
        if len(whole) < len(places):
            for place in places:
                if len(place) > 1:
                    self._dissolve(place)

    def check(self) -> None:
        """Assert that the free units are counted right and that no two free runs touch."""
        kept = sum(self.units_of[size] * len(places) for size, places in self._whole.items())
        unused = self.num_units - self._first_unused
        assert (kept + self._runs.num_units + unused) * self.unit_bytes == self.free_bytes
        self._runs.check()

    def _gather(self, units: int, chunk_bytes: int) -> Place:
        """A place of units that are free, but not as whole places of this size."""
        first = self._first_unused
        if first < self.num_units:
            self._runs.add(first, self.num_units - first)
            self._first_unused = self.num_units
        while self._runs.num_units < units:
            self._break_one()
        return self._cut(self._runs.take(units), chunk_bytes)

    def _break_one(self) -> None:
        """Give up one place kept whole, of the size that has most of them."""
        whole = max(self._whole.values(), key=len)
        self._dissolve(whole.pop())

    def _dissolve(self, place: Place) -> None:
        for start, num_bytes in place:
            self._runs.add(start // self.unit_bytes, ceil_div(num_bytes, self.unit_bytes))

    def _cut(self, runs: list[Run], chunk_bytes: int) -> Place:
        """Runs of units as runs of bytes; the last one ends with the payload."""
        place: list[Run] = []
        left_bytes = chunk_bytes
        for start, units in runs:
            num_bytes = min(units * self.unit_bytes, left_bytes)
            place.append((start * self.unit_bytes, num_bytes))
            left_bytes -= num_bytes
        return tuple(place)


class _Runs:
    """Free runs of units; neighbours are merged, and found by the power of two below them."""

    def __init__(self) -> None:
        self.num_units = 0
        self._length: dict[int, int] = {}
        self._start_by_end: dict[int, int] = {}
        self._bins: list[dict[int, None]] = [{} for _ in range(64)]

    def add(self, start: int, units: int) -> None:
        """A run becomes free."""
        self.num_units += units
        before = self._start_by_end.get(start)
        if before is not None:
            units += self._remove(before)
            start = before
        after = self._length.get(start + units)
        if after is not None:
            self._remove(start + units)
            units += after
        self._insert(start, units)

    def take(self, units: int) -> list[Run]:
        """``units`` free units, which must be there: one run, or else the longest ones."""
        self.num_units -= units
        start = self._one_of(units)
        if start is not None:
            return [self._shorten(start, units)]
        taken: list[Run] = []
        while units:
            longest = next(reversed([bin_ for bin_ in self._bins if bin_]))
            run = self._shorten(next(iter(longest)), units)
            taken.append(run)
            units -= run[1]
        return sorted(taken)

    def check(self) -> None:
        assert sum(self._length.values()) == self.num_units
        assert all(start + n not in self._length for start, n in self._length.items())
        assert {start + n: start for start, n in self._length.items()} == self._start_by_end

    def _one_of(self, units: int) -> int | None:
        """A run of at least ``units``: surely from a longer bin, with luck from its own."""
        own = units.bit_length() - 1
        for start in itertools.islice(self._bins[own], 8):
            if self._length[start] >= units:
                return start
        for bin_ in self._bins[own + 1 :]:
            if bin_:
                return next(iter(bin_))
        return None

    def _shorten(self, start: int, units: int) -> Run:
        length = self._remove(start)
        if length <= units:
            return start, length
        self._insert(start + units, length - units)
        return start, units

    def _insert(self, start: int, units: int) -> None:
        self._length[start] = units
        self._start_by_end[start + units] = start
        self._bins[units.bit_length() - 1][start] = None

    def _remove(self, start: int) -> int:
        units = self._length.pop(start)
        del self._start_by_end[start + units]
        del self._bins[units.bit_length() - 1][start]
        return units
