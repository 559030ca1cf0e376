import subprocess
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvengine.runtime.policies import POLICIES
from kvengine.runtime.pool import Found, HostPool, agree

HIT, MISS, PENDING = Found.HIT, Found.MISS, Found.PENDING


def key(number, group=0):
    return b"k" + number.to_bytes(8, "big") + group.to_bytes(4, "big")


def stored(pool, keys, spans=None):
    prepared = pool.prepare_store(keys, spans)
    pool.complete_store(prepared.keys)
    return prepared


class BooksBalance(RuleBasedStateMachine):
    """Any calls in any order: answers match a plain record of what is in, and sums hold."""

    def __init__(self):
        super().__init__()
        self.pending, self.resident, self.doomed, self.pins = set(), set(), set(), []

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        sizes=st.lists(st.integers(90, 1000), min_size=1, max_size=3),
        chunks=st.integers(2, 12),
    )
    def begin(self, policy, sizes, chunks):
        self.pool = HostPool(sizes, chunks * max(sizes), policy=policy)
        self.sizes = sizes
        self.keys = st.lists(
            st.builds(key, st.integers(0, 20), st.integers(0, len(sizes) - 1)),
            min_size=1,
            max_size=5,
            unique=True,
        )

    def pinned(self):
        return {k for keys in self.pins for k in keys}

    @rule(data=st.data())
    def prepare_store(self, data):
        keys = data.draw(self.keys)
        known = self.pending | self.resident
        out = self.pool.prepare_store(keys)

        assert sorted([*out.keys, *out.present, *out.refused]) == sorted(keys)
        assert set(out.present) == set(keys) & known
        assert not set(out.evicted) & (self.pinned() | set(keys) | self.pending)
        assert set(out.evicted) <= self.resident
        for k, place in zip(out.keys, out.places, strict=True):
            assert sum(n for _, n in place) == self.sizes[self.pool.group_of(k)]
        self.resident -= set(out.evicted)
        self.pending |= set(out.keys)

    @rule(data=st.data(), success=st.booleans())
    @precondition(lambda self: self.pending | (self.doomed - self.pinned()))
    def complete_store(self, data, success):
        unfinished = sorted(self.pending | (self.doomed - self.pinned()))
        k = data.draw(st.sampled_from(unfinished))
        self.pool.complete_store([k], success)
        if k in self.pending and success:
            self.resident.add(k)
        self.pending.discard(k)
        self.doomed.discard(k)

    @rule(data=st.data())
    def prepare_load(self, data):
        keys = data.draw(self.keys)
        places = self.pool.prepare_load(keys)
        got = [k for k, place in zip(keys, places, strict=True) if place is not None]
        assert set(got) == set(keys) & self.resident
        self.pins.append(got)

    @rule(data=st.data())
    @precondition(lambda self: self.pins)
    def complete_load(self, data):
        keys = self.pins.pop(data.draw(st.integers(0, len(self.pins) - 1)))
        self.pool.complete_load(keys)
        self.doomed -= {k for k in keys if k not in self.pinned() and k not in self.pending}

    @rule(data=st.data())
    def discard(self, data):
        keys = set(data.draw(self.keys))
        self.pool.discard(keys)
        self.doom(keys)

    @rule()
    def reset(self):
        self.pool.reset()
        self.doom(self.pending | self.resident)

    def doom(self, keys):
        self.doomed |= keys & (self.pending | (self.resident & self.pinned()))
        self.pending -= keys
        self.resident -= keys

    @rule(data=st.data())
    def touch(self, data):
        self.pool.touch(data.draw(self.keys))

    @invariant()
    def books_balance(self):
        if not hasattr(self, "pool"):
            return
        self.pool.check()
        every = [key(n, g) for n in range(21) for g in range(len(self.sizes))]
        expected = [
            HIT if k in self.resident else PENDING if k in self.pending else MISS for k in every
        ]
        assert self.pool.lookup(every) == expected
        stats = self.pool.stats()
        size = lambda keys: sum(self.sizes[self.pool.group_of(k)] for k in keys)  # noqa: E731
        assert stats.resident_bytes == size(self.resident)
        assert stats.resident_chunks == len(self.resident)
        assert stats.pinned_bytes == size(self.pinned())


BooksBalance.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_books_balance_whatever_happens = BooksBalance.TestCase


def test_a_chunk_is_visible_only_when_its_store_is_complete():
    """Pending until completed; a failed store is a miss, and its place comes back: case R02."""
    pool = HostPool((100,), 1000)
    pool.prepare_store([key(1), key(2)])
    assert pool.lookup([key(1), key(2), key(3)]) == [PENDING, PENDING, MISS]

    pool.complete_store([key(1)])
    pool.complete_store([key(2)], success=False)

    assert pool.lookup([key(1), key(2)]) == [HIT, MISS]
    assert pool.stats().free_bytes == 900


def test_a_group_takes_its_own_payload_only():
    """Small groups fill the same budget with more chunks: cases R03, R04."""
    pool = HostPool((1000, 100), 10_000)
    small = stored(pool, [key(n, 1) for n in range(200)])

    assert len(small.keys) == 100
    assert pool.stats().resident_bytes == 10_000


def test_pinned_chunks_stay_and_a_full_pool_refuses():
    """With every chunk pinned nothing is evicted; once unpinned, room is made: cases R16, R21."""
    pool = HostPool((100,), 300)
    stored(pool, [key(n) for n in range(3)])
    pool.prepare_load([key(n) for n in range(3)])

    out = pool.prepare_store([key(7)])
    assert (out.keys, out.refused, out.evicted) == ([], [key(7)], [])
    assert pool.stats().no_room == 1

    pool.complete_load([key(1)])
    out = pool.prepare_store([key(7)])
    assert (out.keys, out.evicted) == ([key(7)], [key(1)])


def test_keys_of_the_same_call_are_not_evicted():
    """A store keeps what it finds, even if that leaves no room for the rest."""
    pool = HostPool((100,), 300)
    stored(pool, [key(n) for n in range(3)])

    out = pool.prepare_store([key(0), key(1), key(2), key(8)])
    assert (out.present, out.refused, out.evicted) == ([key(0), key(1), key(2)], [key(8)], [])


def test_the_end_of_a_prefix_leaves_first():
    """Of chunks used together the last is evicted before the first, which more requests share."""
    pool = HostPool((100,), 300)
    stored(pool, [key(0), key(1), key(2)])
    assert stored(pool, [key(3)]).evicted == [key(2)]

    pool.touch([key(0), key(1)])
    assert stored(pool, [key(4), key(5)]).evicted == [key(3), key(1)]


def test_a_chunk_larger_than_the_budget_is_refused_without_evicting():
    """Room for it can never be made, so nobody has to leave."""
    pool = HostPool((100, 5000), 1000)
    stored(pool, [key(n) for n in range(10)])

    out = pool.prepare_store([key(1, 1)])
    assert (out.refused, out.evicted) == ([key(1, 1)], [])


def test_a_chunk_dropped_while_it_is_read_keeps_its_place_until_then():
    """A reset makes misses at once and frees places when the readers are done: case R01."""
    pool = HostPool((100,), 200)
    stored(pool, [key(0)])
    (place,) = pool.prepare_load([key(0)])
    pool.prepare_store([key(1)])
    pool.reset()

    assert pool.lookup([key(0), key(1)]) == [MISS, MISS]
    out = pool.prepare_store([key(0), key(2)])
    assert out.refused == [key(0), key(2)]

    pool.complete_load([key(0)])
    pool.complete_store([key(1)])
    assert pool.lookup([key(0), key(1)]) == [MISS, MISS]
    assert pool.stats().free_bytes == 200
    assert place in pool.prepare_store([key(3), key(4)]).places


def test_a_chunk_held_in_part_is_a_hit_for_those_blocks():
    """Blocks that were not stored are misses, and a load of them gets no place."""
    pool = HostPool((400,), 4000)
    stored(pool, [key(0)], [(1, 2)])

    assert pool.lookup([key(0)]) == [MISS]
    assert pool.lookup([key(0)] * 3, [(1, 2), (2, 1), (0, 2)]) == [HIT, HIT, MISS]
    assert pool.prepare_load([key(0)]) == [None]
    assert pool.prepare_load([key(0)], [(0, 1)]) == [None]
    assert pool.prepare_load([key(0)], [(2, 1)]) != [None]
    assert stored(pool, [key(0)]).present == [key(0)], "in use: not replaced"

    pool.complete_load([key(0)])
    assert stored(pool, [key(0)], [(1, 1)]).present == [key(0)]
    assert stored(pool, [key(0)]).keys == [key(0)], "replaced by the whole chunk"
    assert pool.lookup([key(0)]) == [HIT]


def test_a_store_threshold_admits_at_the_nth_offer():
    """Offers are counted per key; promotion passes by; the count remembers so many keys."""
    pool = HostPool((100,), 1000, store_threshold=3, threshold_memory=2)
    for _ in range(2):
        assert pool.prepare_store([key(0)]).refused == [key(0)]
    assert stored(pool, [key(0)]).keys == [key(0)]
    assert pool.stats().not_admitted == 2

    assert pool.prepare_store([key(1)], admit_all=True).keys == [key(1)]
    for number in (2, 3, 4, 2, 3, 4):
        assert pool.prepare_store([key(number)]).refused == [key(number)]
    with pytest.raises(ValueError) as error:
        HostPool((100,), 1000, store_threshold=-1)
    assert str(error.value) == "a store threshold is at least 0, its memory at least 1 key"


def test_a_key_of_no_group_is_an_error():
    """The message says which group the key names, and how many there are: case R22."""
    pool = HostPool((100, 100), 1000)
    with pytest.raises(ValueError) as error:
        pool.prepare_store([key(0, 2)])
    assert str(error.value) == "a key names group 2, there are 2 groups"


def test_leaving_chunks_can_be_read_before_they_go():
    """Who would leave next is pinned and named, and goes when retired, unless a load reads it."""
    pool = HostPool((100,), 1000)
    stored(pool, [key(n) for n in range(10)])
    leaving = pool.yield_places(5, 64)
    assert [k for k, _ in leaving] == [key(9), key(8)]
    assert pool.lookup([key(9), key(8)]) == [HIT, HIT]
    pool.prepare_load([key(9)])

    pool.retire([key(9), key(8)])

    assert pool.lookup([key(9), key(8)]) == [HIT, MISS]
    pool.complete_load([key(9)])
    pool.check()
    assert pool.yield_places(10, 64) == []


def test_ranks_agree_on_the_least_budget():
    """No rank is sent to bytes that it does not have: case R05."""
    assert agree([300, 200, 400]) == 200


def test_the_books_need_no_torch():
    """A scheduler process keeps books without loading torch or numpy."""
    code = (
        "import sys, kvengine.runtime.pool, kvengine.runtime.books\n"
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
