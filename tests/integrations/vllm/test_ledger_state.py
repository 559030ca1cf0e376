"""Random interleavings of everything that vLLM, ranks and tiers do: no wrong byte, no lost place.

A rank carries jobs out late and may fail them; it writes its own bytes or, when told to fail,
rubbish. A tier answers late, refuses or corrupts. Whatever is a hit must load as the bytes that
belong to its key.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvengine.integrations.vllm.jobs import Mark
from kvengine.integrations.vllm.ledger import Answer
from kvengine.runtime.tiers.base import Outcome
from tests.integrations.vllm.test_ledger import SIZES, Engine, key
from tests.runtime.memory_tier import MemoryTier

KEYS = [key(number, number % 2) for number in range(12)]
REQUESTS = ["a", "b"]


def payload(k):
    return k[7:8] * SIZES[k[-1]]


class Ledgers(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.tier = MemoryTier(patient=True)
        self.engine = Engine(chunks=7, tiers=[self.tier])
        self.stores, self.loads, self.stale = [], [], []

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5, unique=True))
    def begin_store(self, keys):
        order = self.engine.begin(keys)
        if order is not None and order.keys:
            assert not set(order.evicted) & set(keys)
            self.stores.append(order)

    @precondition(lambda self: self.stores)
    @rule(at=st.integers(0, 9), fail=st.booleans())
    def end_store(self, at, fail):
        order = self.stores.pop(at % len(self.stores))
        self.write(order, rubbish=fail)
        self.engine.board.set(0, order.ticket, Mark.FAILED if fail else Mark.DONE)
        self.engine.ledger.complete_store(set(order.keys))

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True),
        request=st.sampled_from(REQUESTS),
    )
    def look_up_and_load(self, keys, request):
        found = [self.engine.ledger.lookup(k, request, (0,)) for k in keys]
        hits = [k for k, answer in zip(keys, found, strict=True) if answer is Answer.HIT]
        if hits and not any(r == request for _, r in self.loads):
            order = self.engine.ledger.prepare_load(hits, request)
            assert order is not None
            self.loads.append((order, request))
        self.engine.ledger.end_step()

    @precondition(lambda self: self.loads)
    @rule(at=st.integers(0, 9))
    def end_load(self, at):
        order, request = self.loads.pop(at % len(self.loads))
        self.read(order)
        self.engine.board.set(0, order.ticket, Mark.DONE)
        self.engine.ledger.complete_load(set(order.keys), request)

    @rule(request=st.sampled_from(REQUESTS))
    def finish(self, request):
        self.engine.ledger.finish(request)

    @rule(hold=st.booleans())
    def tier_works(self, hold):
        self.tier.tick(hold=hold)

    @rule()
    def tier_lets_go(self):
        self.tier.let_go()

    @rule(k=st.sampled_from(KEYS), outcome=st.sampled_from([Outcome.CORRUPT, Outcome.FAILED, None]))
    def tier_turns(self, k, outcome):
        if outcome is None:
            self.tier.bad.pop(k, None)
        else:
            self.tier.bad[k] = outcome

    @rule()
    def reset(self):
        self.engine.ledger.reset()
        self.stale += [(order, True) for order in self.stores]
        self.stale += [(order, False) for order, _ in self.loads]
        self.stores, self.loads = [], []

    @precondition(lambda self: self.stale)
    @rule(at=st.integers(0, 9))
    def stale_job_ends(self, at):
        order, stores = self.stale.pop(at % len(self.stale))
        if stores:
            self.write(order, rubbish=True)
        self.engine.board.set(0, order.ticket, Mark.DONE)

    def write(self, order, *, rubbish):
        for k, place in zip(order.keys, order.places, strict=True):
            at = 0
            for start, count in place:
                right = payload(k)[at : at + count]
                self.engine.data[start : start + count] = b"\x99" * count if rubbish else right
                at += count

    def read(self, order):
        for k, place in zip(order.keys, order.places, strict=True):
            found = b"".join(bytes(self.engine.data[s : s + n]) for s, n in place)
            assert found == payload(k), "a hit holds the bytes of its key"

    @invariant()
    def books_balance(self):
        self.engine.ledger.pool.check()
        assert all(data == payload(k) for k, data in self.tier.chunks.items())

    def teardown(self):
        for order in self.stores:
            self.write(order, rubbish=False)
            self.engine.board.set(0, order.ticket, Mark.DONE)
            self.engine.ledger.complete_store(set(order.keys))
        for order, request in self.loads:
            self.read(order)
            self.engine.board.set(0, order.ticket, Mark.DONE)
            self.engine.ledger.complete_load(set(order.keys), request)
        for order, _ in self.stale:
            self.engine.board.set(0, order.ticket, Mark.DONE)
        self.tier.tick()
        self.tier.let_go()
        for request in REQUESTS:
            self.engine.ledger.finish(request)
        self.engine.ledger.end_step()
        for request in REQUESTS:
            self.engine.ledger.finish(request)
        self.engine.ledger.reset()
        self.tier.tick()
        self.engine.ledger.end_step()
        stats = self.engine.ledger.pool.stats()
        assert stats.free_bytes == stats.capacity_bytes, "every place came back"


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
