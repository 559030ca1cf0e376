import threading
import time
from unittest import mock

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvengine.runtime import HostTier, OffloadEngine, allocate, engine
from kvengine.runtime.jobs import Kind
from kvengine.runtime.pool import Found
from kvengine.runtime.tiers.base import Outcome
from tests.runtime.memory_tier import MemoryTier
from tests.runtime.plans import plans

KEYS = 3
OFTEN = st.sampled_from([True, True, False])
NUMBERS = st.integers(0, 2 * KEYS)  # most break nothing
BAD = [Outcome.MISS, Outcome.FAILED, Outcome.CORRUPT, Outcome.TIMEOUT, Outcome.REFUSED]


def copy_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("kvengine-copy")]


class NoWrongByte(RuleBasedStateMachine):
    """Stores, loads, failures, cancels and scribbling in any order: a loaded byte is right.

    The bytes of a chunk follow from its key. Blocks and host bytes that belong to nobody are
    scribbled over at any time, so reading or keeping one too long shows.
    """

    def __init__(self):
        super().__init__()
        self.engine = None
        self.failing, self.slow = set(), False
        self.busy = {}

    @initialize(
        plan=plans(min_blocks=8),
        chunks=st.integers(1, 6),
        policy=st.sampled_from(["lru", "arc", "s3fifo"]),
        behind=st.integers(0, 2),
        write=st.sampled_from(["through", "late"]),
        in_flight_chunks=st.sampled_from([1, 2, 100]),
        threads=st.integers(1, 3),
        least_slice_bytes=st.sampled_from([1, 1 << 20]),
    )
    def begin(
        self, plan, chunks, policy, behind, write, in_flight_chunks, threads, least_slice_bytes
    ):
        self.slicing = mock.patch.object(engine, "_LEAST_SLICE_BYTES", least_slice_bytes)
        self.slicing.start()
        self.plan, self.cache = plan, allocate(plan)
        self.sizes = plan.offload.chunk_bytes
        self.tiers = [MemoryTier(f"memory{n}", patient=n == 0) for n in range(behind)]
        self.engine = OffloadEngine(
            plan,
            self.cache,
            [HostTier(budget_bytes=chunks * max(self.sizes), eviction_policy=policy), *self.tiers],
            in_flight_bytes=in_flight_chunks * max(self.sizes),
            threads=threads,
            write=write,
            fault=self.fault,
        )
        self.free = list(range(plan.num_blocks))
        self.keys = [
            number.to_bytes(2, "big") + group.to_bytes(4, "big")
            for number in range(KEYS)
            for group in range(len(self.sizes))
        ]
        self.some_keys = st.lists(st.sampled_from(self.keys), min_size=1, max_size=3, unique=True)

    def fault(self, kind, key):
        if self.slow:
            time.sleep(0.0005)
        if (kind, key) in self.failing:
            raise OSError("injected")

    def content(self, key):
        group = int.from_bytes(key[-4:], "big")
        noise = np.random.default_rng(list(key)).integers(0, 256, self.sizes[group])
        return torch.from_numpy(noise.astype(np.uint8))

    def rows(self, group, block):
        """The pages of a block, in the order of a host row."""
        slots = [slot for slot in self.plan.slots if slot.group == group]
        return [self.cache.layers[slot.layer][block] for slot in slots]

    def draw_chunks(self, data):
        """Different keys, each with free blocks, a part of a chunk or all of it."""
        keys, blocks, firsts = [], [], []
        for key in data.draw(self.some_keys):
            size = self.plan.offload.blocks_per_chunk[int.from_bytes(key[-4:], "big")]
            first, count = 0, size
            if data.draw(st.integers(0, 3)) == 3:
                first = data.draw(st.integers(0, size - 1))
                count = data.draw(st.integers(1, size - first))
            if count > len(self.free):
                continue
            some = self.free[:count]
            self.free = [block for block in self.free if block not in some]
            keys.append(key)
            blocks.append(some)
            firsts.append(first)
        return keys, blocks, firsts

    @rule(data=st.data(), finish=OFTEN)
    def store(self, data, finish):
        keys, blocks, firsts = self.draw_chunks(data)
        for key, some, first in zip(keys, blocks, firsts, strict=True):
            group = int.from_bytes(key[-4:], "big")
            rows = self.content(key).view(-1, self.plan.groups[group].row_bytes)
            for index, block in enumerate(some, start=first):
                at = 0
                for page in self.rows(group, block):
                    page.copy_(rows[index, at : at + len(page)])
                    at += len(page)
        self.last_stored = keys
        self.begun(self.engine.store(keys, blocks, firsts), blocks, firsts, finish)

    @rule(data=st.data(), finish=OFTEN)
    def load(self, data, finish):
        keys, blocks, firsts = self.draw_chunks(data)
        self.begun(self.engine.load(keys, blocks, firsts), blocks, firsts, finish)

    @rule(data=st.data(), finish=OFTEN)
    def store_and_load(self, data, finish):
        self.store(data, finish=True)
        keys = self.last_stored
        sizes = [self.plan.offload.blocks_per_chunk[key[-1]] for key in keys]
        if sum(sizes) > len(self.free):
            return
        blocks = [[self.free.pop() for _ in range(size)] for size in sizes]
        self.begun(self.engine.load(keys, blocks), blocks, [0] * len(keys), finish)

    @rule(data=st.data())
    def store_and_fetch_from_behind(self, data):
        self.store(data, finish=True)
        self.tick(hold=False)
        self.reset()
        self.load(data, finish=True)

    @rule(data=st.data(), finish=OFTEN)
    @precondition(lambda self: self.tiers)
    def prefetch(self, data, finish):
        keys = data.draw(self.some_keys)
        self.begun(self.engine.prefetch(keys), [()] * len(keys), [0] * len(keys), finish)

    def begun(self, job, blocks, firsts, finish):
        self.busy[job] = (blocks, firsts)
        if finish:
            self.finish_job(job)

    @rule(data=st.data())
    @precondition(lambda self: self.busy)
    def cancel(self, data):
        job = data.draw(st.sampled_from(sorted(self.busy, key=lambda job: job.number)))
        self.engine.cancel(job)

    @rule(data=st.data())
    @precondition(lambda self: self.busy)
    def finish(self, data):
        self.finish_job(data.draw(st.sampled_from(sorted(self.busy, key=lambda job: job.number))))

    def finish_job(self, job):
        for tier in self.tiers:
            tier.tick()
        assert self.engine.wait(job, 20)
        self.check(job)

    @rule()
    def poll(self):
        # Which jobs are done by now depends on threads; drawing must not.
        assert all(job.done for job in self.engine.poll())

    def check(self, job):
        blocks, firsts = self.busy.pop(job)
        for key, some, first, outcome in zip(job.keys, blocks, firsts, job.outcomes, strict=True):
            group = int.from_bytes(key[-4:], "big")
            if job.kind is Kind.LOAD and outcome is Outcome.DONE:
                rows = self.content(key).view(-1, self.plan.groups[group].row_bytes)
                for index, block in enumerate(some, start=first):
                    assert torch.equal(torch.cat(self.rows(group, block)), rows[index])
            self.free += some
        self.scribble()

    @rule()
    def scribble(self):
        for group in range(len(self.sizes)):
            for block in self.free:
                for page in self.rows(group, block):
                    page.fill_(0xEE)

    @rule()
    def scribble_free_host_memory(self):
        with self.engine._lock:
            taken = np.zeros(self.engine.memory.num_bytes, dtype=bool)
            for chunk in self.engine.pool._chunks.values():
                for start, count in chunk.place:
                    taken[start : start + count] = True
            self.engine.memory.bytes[~taken] = 0xDD

    @rule(kind=st.sampled_from([Kind.STORE, Kind.LOAD]), number=NUMBERS, slow=st.booleans())
    def break_copies(self, kind, number, slow):
        self.slow = slow
        self.failing = {(kind, key) for key in self.keys if key[1] == number}

    @rule(number=NUMBERS, outcome=st.sampled_from(BAD))
    @precondition(lambda self: self.tiers)
    def break_tiers(self, number, outcome):
        for tier in self.tiers:
            tier.bad = {key: outcome for key in self.keys if key[1] == number}

    @rule(hold=st.booleans())
    @precondition(lambda self: self.tiers)
    def tick(self, hold):
        for tier in self.tiers:
            tier.tick(hold=hold)

    @rule()
    @precondition(lambda self: self.tiers)
    def let_go(self):
        for tier in self.tiers:
            tier.let_go()

    @rule()
    def reset(self):
        self.engine.reset()

    @rule(data=st.data())
    def look(self, data):
        keys, blocks, firsts = self.draw_chunks(data)
        self.free += [block for some in blocks for block in some]
        spans = [(first, len(some)) for first, some in zip(firsts, blocks, strict=True)]
        assert all(isinstance(found, Found) for found in self.engine.lookup(keys, spans))
        self.engine.touch(keys)

    def teardown(self):
        if self.engine is None:
            return
        self.slicing.stop()
        self.engine.close()
        assert copy_threads() == []
        for job in list(self.busy):
            assert job.done, "close leaves no job open"
            self.check(job)
        stats = self.engine.stats()
        self.engine.pool.check()
        assert (stats.in_flight_bytes, stats.host.pending_bytes, stats.host.pinned_bytes) == (
            0,
            0,
            0,
        )
        self.engine.reset()
        assert self.engine.stats().host.free_bytes == stats.host.capacity_bytes


NoWrongByte.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
test_no_wrong_byte_is_ever_loaded = NoWrongByte.TestCase
