import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvengine.runtime.books import measure_usable_share
from kvengine.runtime.places import Places, unit_bytes_for

KIB = 1024
sizes = st.lists(st.integers(1, 4000) | st.integers(100_000, 4_000_000), min_size=1, max_size=5)


@given(sizes)
def test_a_unit_wastes_at_most_a_hundredth_of_any_chunk(chunk_bytes):
    """Rounding up to whole units costs no chunk more than 1 %."""
    unit = unit_bytes_for(chunk_bytes)

    assert all(-size % unit <= size * 0.01 for size in chunk_bytes)


@pytest.mark.parametrize(
    ("chunk_bytes", "unit"),
    [
        ((1 << 20,), 1 << 20),
        ((384 * KIB, 384 * KIB), 384 * KIB),
        ((384 * KIB, 768 * KIB), 384 * KIB),
        ((96,), 96),
        ((100,), 100),
    ],
)
def test_units_are_as_large_as_that_allows(chunk_bytes, unit):
    """One size is one unit; sizes with a common divisor share it."""
    assert unit_bytes_for(chunk_bytes) == unit


@settings(max_examples=60)
@given(sizes, st.integers(0, 1 << 16))
def test_places_never_overlap_and_no_unit_gets_lost(chunk_bytes, seed):
    """Whatever is taken and given back, places are disjoint, exact, and all units accounted for."""
    chance = random.Random(seed)
    places = Places(chunk_bytes, 20 * max(chunk_bytes))
    taken = []
    for _ in range(200):
        size = chance.choice(chunk_bytes)
        if chance.random() < 0.6:
            fits = places.fits(size)
            place = places.take(size)
            assert (place is not None) == fits
            if place is not None:
                assert sum(count for _, count in place) == size
                taken.append((place, size))
        elif taken:
            places.give(*taken.pop(chance.randrange(len(taken))))
        used = sum(places.occupied_bytes(size) for _, size in taken)
        assert used + places.free_bytes == places.capacity_bytes
    places.check()
    runs = sorted(run for place, _ in taken for run in place)
    assert all(start + count <= after for (start, count), (after, _) in itertools.pairwise(runs))
    assert not runs or runs[-1][0] + runs[-1][1] <= places.capacity_bytes


@given(sizes, st.integers(0, 1 << 16))
def test_free_units_are_always_usable(chunk_bytes, seed):
    """A chunk finds a place whenever enough units are free, however scattered: no fragmentation."""
    chance = random.Random(seed)
    places = Places(chunk_bytes, 10 * max(chunk_bytes))
    taken = []
    while (place := places.take(size := chance.choice(chunk_bytes))) is not None:
        taken.append((place, size))
        if len(taken) > 500:
            break
    chance.shuffle(taken)
    for place, size in taken[: len(taken) // 2]:
        places.give(place, size)

    for size in sorted(chunk_bytes, reverse=True):
        enough = places.free_bytes >= places.occupied_bytes(size)
        assert (places.take(size) is not None) == enough


def test_a_place_of_the_same_size_is_reused_whole():
    """With one size of chunk every place is one run for ever."""
    places = Places((3000,), 100 * 3008)
    taken = [places.take(3000) for _ in range(100)]
    assert places.take(3000) is None
    for place in taken:
        places.give(place, 3000)

    again = [places.take(3000) for _ in range(100)]
    assert sorted(again) == sorted(taken)
    assert all(len(place) == 1 for place in again)


def test_neighbours_become_one_run_again():
    """Small places given back next to each other make room for a large one in one run."""
    places = Places((1000, 4000), 8000)
    small = [places.take(1000) for _ in range(8)]
    assert places.take(4000) is None
    for place in small[2:6]:
        places.give(place, 1000)

    assert places.take(4000) == ((2000, 4000),)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(100_000, 4_000_000), min_size=1, max_size=5), st.integers(0, 99))
def test_at_least_95_percent_of_the_budget_is_payload(chunk_bytes, seed):
    """Full pools hold payload, whatever the sizes and however the mix shifts: case R03, R04."""
    assert measure_usable_share(chunk_bytes, seed=seed) >= 0.95
