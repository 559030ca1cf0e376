"""The scheduler's books: what is a hit, who may be evicted, what a tier brings."""

import pytest

from kvengine.integrations.vllm.jobs import Board, Mark
from kvengine.integrations.vllm.ledger import Answer, Event, Ledger
from kvengine.integrations.vllm.metrics import METRICS, Report
from kvengine.runtime.pool import HostPool
from kvengine.runtime.tiers.base import Outcome
from tests.runtime.memory_tier import MemoryTier

SIZES = (4096, 8192)


def key(number, group=0):
    return number.to_bytes(8, "big") + group.to_bytes(4, "big")


class Engine:
    """A ledger, the memory behind it, and one rank that does what it is told at once."""

    def __init__(self, *, chunks=4, tiers=(), **more):
        budget_bytes = chunks * SIZES[0]
        self.data = memoryview(bytearray(budget_bytes))
        self.board = Board(memoryview(bytearray(64)), 1)
        pool = HostPool(SIZES, budget_bytes, policy=more.pop("policy", "lru"))
        self.ledger = Ledger(pool, self.data, self.board, tiers, writers=1, **more)
        self.tiers = tuple(range(len(tiers)))

    def answers(self, keys, request="r"):
        found = [self.ledger.lookup(k, request, self.tiers) for k in keys]
        self.ledger.end_step()
        return found

    def begin(self, keys):
        return self.ledger.prepare_store(list(keys))

    def end(self, order, *, mark=Mark.DONE):
        for k, place in zip(order.keys, order.places, strict=True):
            for start, count in place:
                self.data[start : start + count] = k[7:8] * count
        self.board.set(0, order.ticket, mark)
        self.ledger.complete_store(set(order.keys))

    def store(self, keys):
        order = self.begin(keys)
        self.end(order)
        return order

    def load(self, keys, request="r"):
        order = self.ledger.prepare_load(list(keys), request)
        found = [b"".join(bytes(self.data[s : s + n]) for s, n in place) for place in order.places]
        self.board.set(0, order.ticket, Mark.DONE)
        self.ledger.complete_load(set(order.keys), request)
        return found


def test_a_chunk_is_a_hit_only_when_every_rank_has_stored_it():
    """Until then it is on its way, which vLLM waits for."""
    engine = Engine()
    order = engine.begin([key(1)])

    assert engine.answers([key(1), key(2)]) == [Answer.PENDING, Answer.MISS]
    engine.end(order)
    assert engine.answers([key(1)]) == [Answer.HIT]
    assert engine.load([key(1)]) == [b"\x01" * SIZES[0]]


def test_groups_take_their_own_sizes():
    """Two small chunks and one large one fill what four small ones would."""
    engine = Engine()
    order = engine.store([key(1), key(2), key(3, group=1)])

    assert [sum(n for _, n in place) for place in order.places] == [4096, 4096, 8192]
    assert engine.ledger.pool.stats().free_bytes == 0


def test_a_store_that_failed_is_a_miss():
    """The board says so; the place comes back, and nothing is announced."""
    engine = Engine()
    engine.end(engine.begin([key(1)]), mark=Mark.FAILED)

    assert engine.answers([key(1)]) == [Answer.MISS]
    assert engine.ledger.take_events() == []
    assert engine.ledger.counts["failed_stores"] == 1
    assert engine.ledger.pool.stats().free_bytes == 4 * SIZES[0]


def test_chunks_of_the_same_call_are_never_evicted():
    """Neither those that are stored nor those that are there already."""
    engine = Engine()
    engine.store([key(1), key(2)])
    order = engine.store([key(number) for number in range(1, 7)])

    assert order.keys == [key(3), key(4)]
    assert order.evicted == []
    assert engine.answers([key(1), key(2), key(3), key(4)]) == [Answer.HIT] * 4


def test_a_chunk_that_is_offered_again_counts_as_used():
    """The device has it, so nobody loads it; vLLM 0.32 says so by no other call."""
    engine = Engine()
    engine.store([key(number) for number in range(4)])
    oldest = engine.begin([key(9)]).evicted
    engine = Engine()
    engine.store([key(number) for number in range(4)])
    engine.store(oldest)

    assert engine.begin([key(9)]).evicted != oldest


def test_without_room_for_any_nothing_is_promised():
    """vLLM tries again later."""
    engine = Engine()
    orders = [engine.begin([key(number)]) for number in range(4)]

    assert engine.begin([key(9)]) is None
    engine.end(orders[0])
    assert engine.begin([key(9)]).evicted == [key(0)]


def test_a_chunk_that_is_loaded_stays():
    """Pinned chunks are not evicted, whatever is stored meanwhile."""
    engine = Engine()
    engine.store([key(number) for number in range(4)])
    order = engine.ledger.prepare_load([key(0)], "r")
    engine.store([key(number) for number in range(10, 14)])

    assert engine.answers([key(0)]) == [Answer.HIT]
    engine.board.set(0, order.ticket, Mark.DONE)
    engine.ledger.complete_load({key(0)}, "r")


def test_only_what_is_offered_often_enough_is_stored():
    """The threshold counts offers, and holds for what comes from the device only."""
    engine = Engine(store_threshold=2)

    assert engine.begin([key(1)]).keys == []
    assert engine.begin([key(1), key(2)]).keys == [key(1)]


def test_events_tell_what_came_and_what_left():
    """In order, with the chunks that had to make room."""
    engine = Engine()
    engine.store([key(number) for number in range(4)])
    engine.store([key(9)])

    assert engine.ledger.take_events() == [
        Event([key(number) for number in range(4)], removed=False),
        Event([key(3)] if engine.answers([key(3)]) == [Answer.MISS] else [key(0)], removed=True),
        Event([key(9)], removed=False),
    ]


def test_what_an_announced_tier_took_is_an_event():
    """vLLM's own tiers tell what they store, and never what leaves them."""
    told, quiet = MemoryTier(patient=True), MemoryTier()
    engine = Engine(tiers=[quiet, told], announced=[1])
    told.bad[key(2)] = Outcome.FAILED
    engine.store([key(1), key(2)])
    assert engine.ledger.announcing
    told.tick()
    engine.ledger.end_step()

    assert engine.ledger.take_events()[1:] == [Event([key(1)], removed=False, tier=1)]
    assert not engine.ledger.announcing


def test_metrics_are_named_in_the_order_of_their_values():
    """And nothing is reported of a step in which nothing happened."""
    engine = Engine(tiers=[MemoryTier()])
    per_tier = [metric.name for metric in METRICS if metric.per_tier]
    engine.store([key(1)])
    engine.answers([key(1), key(2)])
    values = dict(zip([metric.name for metric in METRICS], engine.ledger.values(), strict=True))

    assert [*engine.ledger.behind.counts[0], "tier_in_service"] == per_tier
    assert values["host_resident_bytes"] == SIZES[0]
    assert values["lookup_hits"] == values["lookup_misses"] == values["stored_chunks"] == 1
    assert values["demoted_chunks"] == values["tier_in_service"] == 1
    engine.ledger.changed = False
    engine.ledger.end_step()
    assert not engine.ledger.changed


class Stats:
    """vLLM's stats object, as far as a report uses it."""

    def __init__(self):
        self.seen = {}

    def set_gauge(self, name, value, labels):
        self.seen[(name, *labels)] = ("gauge", value)

    def increase_counter(self, name, value, labels):
        self.seen[(name, *labels)] = ("counter", value)


def test_a_report_tells_only_what_changed():
    """At first every series, so that all of them are there; counters as their growth."""
    report, first, second = Report(["fs", "fs-2"]), Stats(), Stats()
    values = [0] * (len(METRICS) + 5)
    report.fill(first, list(values))
    values[2], values[4], values[-1] = 3, 7, 1
    report.fill(second, list(values))

    assert len(first.seen) == len(values)
    assert second.seen == {
        ("vllm:kvengine_host_resident_chunks",): ("gauge", 3),
        ("vllm:kvengine_lookup_hits",): ("counter", 7),
        ("vllm:kvengine_tier_in_service", "fs-2"): ("gauge", 1),
    }


def test_stored_chunks_are_written_through_and_come_up_again():
    """What left host memory is pending while a tier brings it, then a hit, with its bytes."""
    tier = MemoryTier(patient=True)
    engine = Engine(tiers=[tier])
    engine.store([key(1), key(2)])
    tier.tick()
    engine.store([key(number) for number in range(10, 14)])
    tier.tick()
    engine.ledger.end_step()
    assert engine.answers([key(1), key(2)], "a") == [Answer.PENDING] * 2
    assert engine.answers([key(1)], "a") == [Answer.PENDING]
    tier.tick()

    assert engine.answers([key(1), key(2)], "a") == [Answer.HIT] * 2
    assert engine.ledger.behind.origin(key(1)) == "memory"
    assert engine.load([key(1), key(2)], "a") == [b"\x01" * SIZES[0], b"\x02" * SIZES[0]]
    assert engine.ledger.behind.counts[0]["promoted_chunks"] == 2


@pytest.mark.parametrize("outcome", [Outcome.CORRUPT, Outcome.FAILED, Outcome.TIMEOUT])
def test_a_tier_that_fails_is_a_miss_and_is_not_asked_again_at_once(outcome):
    """The request goes on without the chunk instead of waiting for ever (case R19)."""
    tier = MemoryTier()
    engine = Engine(tiers=[tier])
    tier.chunks[key(1)] = b"\x01" * SIZES[0]
    tier.bad[key(1)] = outcome
    assert engine.answers([key(1)]) == [Answer.PENDING]

    assert engine.answers([key(1)]) == [Answer.MISS]
    assert engine.answers([key(1)]) == [Answer.MISS]
    assert tier.gets == 1
    assert engine.ledger.pool.stats().free_bytes == 4 * SIZES[0]


def test_what_came_up_stays_for_the_request_that_waits():
    """Stores in between do not push it out again before the request has loaded it."""
    tier = MemoryTier()
    engine = Engine(tiers=[tier])
    tier.chunks[key(1)] = b"\x01" * SIZES[0]
    engine.answers([key(1)], "a")
    engine.answers([key(1)], "a")
    engine.store([key(number) for number in range(10, 16)])
    assert engine.answers([key(1)], "a") == [Answer.HIT]
    engine.ledger.finish("a")
    engine.store([key(number) for number in range(20, 26)])

    assert engine.ledger.pool.chunk(key(1)) is None


def test_a_prefix_larger_than_host_memory_ends_in_a_miss():
    """What finds no room is a miss, so that the request is answered with what there is."""
    tier = MemoryTier()
    engine = Engine(tiers=[tier])
    keys = [key(number) for number in range(6)]
    tier.chunks = {k: k[7:8] * SIZES[0] for k in keys}
    engine.answers(keys)

    assert engine.answers(keys) == [Answer.HIT] * 4 + [Answer.MISS] * 2


def test_places_of_jobs_before_a_reset_wait_for_the_ranks():
    """A rank may still write: the place is given to nobody until its mark is there."""
    engine = Engine()
    order = engine.begin([key(number) for number in range(4)])
    engine.ledger.reset()
    assert engine.answers([key(0)]) == [Answer.MISS]
    assert engine.begin([key(9)]) is None
    engine.board.set(0, order.ticket, Mark.DONE)

    assert engine.begin([key(9)]).keys == [key(9)]
    engine.ledger.pool.check()


def test_buffers_of_a_tier_before_a_reset_wait_for_the_tier():
    """What a tier still fills or reads is not given away, and never becomes a hit."""
    tier = MemoryTier(patient=True)
    engine = Engine(tiers=[tier])
    tier.chunks[key(1)] = b"\x01" * SIZES[0]
    engine.answers([key(1)])
    engine.ledger.reset()
    assert engine.ledger.pool.stats().free_bytes == 3 * SIZES[0]
    tier.tick()
    engine.ledger.end_step()

    assert engine.ledger.pool.stats().free_bytes == 4 * SIZES[0]
    assert engine.ledger.pool.chunk(key(1)) is None


def test_scattered_places_pass_through_a_copy():
    """A chunk whose place has several runs goes to a tier and back, byte for byte."""
    tier = MemoryTier()
    engine = Engine(tiers=[tier])
    engine.store([key(number) for number in range(4)])
    for number in (0, 2):
        engine.ledger.pool.discard([key(number)])
    order = engine.store([key(5, group=1)])
    assert len(order.places[0]) == 2
    engine.ledger.end_step()
    engine.ledger.pool.discard([key(5, group=1)])
    engine.answers([key(5, group=1)])

    assert engine.answers([key(5, group=1)]) == [Answer.HIT]
    assert engine.load([key(5, group=1)]) == [b"\x05" * SIZES[1]]
    assert tier.chunks[key(5, group=1)] == b"\x05" * SIZES[1]
