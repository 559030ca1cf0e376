import threading

import numpy as np
import pytest
import torch
from attrs import evolve

from kvengine.runtime import HostTier, OffloadEngine, allocate
from kvengine.runtime.jobs import Kind
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.pool import Found
from kvengine.runtime.shared import SharedMemory
from kvengine.runtime.stats import prometheus_text
from kvengine.runtime.tiers.base import Outcome
from tests.runtime.memory_tier import MemoryTier
from tests.runtime.plans import Shape, make
from tests.runtime.tiers.kit import wait_until

DONE, FAILED, MISS, REFUSED = Outcome.DONE, Outcome.FAILED, Outcome.MISS, Outcome.REFUSED
SHAPES = (Shape(pages=(48, 48)), Shape(pages=(48,), blocks_per_chunk=2))


def key(number, group=0):
    return number.to_bytes(8, "big") + group.to_bytes(4, "big")


class Bed:
    """An engine over a small cache with known bytes."""

    def __init__(
        self, *behind, shapes=SHAPES, host_bytes=960, blocks=16, layout="packed", **options
    ):
        self.plan = make(layout, shapes, blocks)
        self.cache = allocate(self.plan)
        for allocation in self.cache.allocations:
            noise = np.random.default_rng(1).integers(0, 256, allocation.nbytes, dtype=np.uint8)
            allocation.copy_(torch.from_numpy(noise))
        self.before = [allocation.clone() for allocation in self.cache.allocations]
        tier = options.pop("host", HostTier(budget_bytes=host_bytes))
        self.engine = OffloadEngine(self.plan, self.cache, [tier, *behind], **options)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.engine.close()

    def store(self, keys, blocks, firsts=None):
        return self.finished(self.engine.store(keys, blocks, firsts))

    def load(self, keys, blocks, firsts=None):
        return self.finished(self.engine.load(keys, blocks, firsts))

    def finished(self, job):
        assert self.engine.wait(job, 20)
        return job.outcomes

    def page(self, block, layer="group0.layer0"):
        return self.cache.layers[layer][block]


class Gate:
    """A fault hook that holds copies until it is opened."""

    def __init__(self):
        self.opened, self.reached = threading.Event(), threading.Event()
        self.seen = []

    def __call__(self, kind, key):
        self.seen.append((kind, key))
        self.reached.set()
        assert self.opened.wait(20)


@pytest.mark.parametrize("layout", ["packed", "pools", "layer-outer"])
def test_a_round_trip_restores_every_byte_and_no_other(layout):
    """Chunks of every group come back into other blocks; the rest of the cache stays."""
    with Bed(layout=layout) as bed:
        keys, blocks = [key(1), key(2), key(3, 1)], [[0], [1], [2, 3]]
        assert bed.store(keys, blocks) == (DONE,) * 3
        assert bed.engine.lookup([*keys, key(9)]) == [Found.HIT] * 3 + [Found.MISS]
        assert bed.load(keys, [[8], [9], [10, 11]]) == (DONE,) * 3

        for layer in ("group0.layer0", "group0.layer1"):
            assert torch.equal(bed.page(8, layer), bed.page(0, layer))
            assert torch.equal(bed.page(9, layer), bed.page(1, layer))
        assert torch.equal(bed.page(10, "group1.layer0"), bed.page(2, "group1.layer0"))
        assert torch.equal(bed.page(11, "group1.layer0"), bed.page(3, "group1.layer0"))
        for block in (*range(8), *range(12, 16)):
            for before, now in zip(bed.before, bed.cache.allocations, strict=True):
                stride = now.nbytes // 16 if layout != "layer-outer" else 48
                at = slice(block * stride, (block + 1) * stride)
                assert torch.equal(before[at], now[at])


def test_a_chunk_is_entered_in_the_middle():
    """A load from block 1 on fills that block alone; one stored from there is a hit from there."""
    with Bed() as bed:
        bed.store([key(1, 1)], [[0, 1]])
        assert bed.load([key(1, 1)], [[9]], [1]) == (DONE,)
        assert torch.equal(bed.page(9, "group1.layer0"), bed.page(1, "group1.layer0"))

        bed.store([key(2, 1)], [[3]], [1])
        assert bed.engine.lookup([key(2, 1)] * 2, [(1, 1), (0, 2)]) == [Found.HIT, Found.MISS]
        assert bed.load([key(2, 1)], [[10, 11]]) == (MISS,)
        assert bed.load([key(2, 1)], [[10]], [1]) == (DONE,)
        assert torch.equal(bed.page(10, "group1.layer0"), bed.page(3, "group1.layer0"))


def test_loads_go_before_stores_that_wait():
    """With the worker busy, a load queued behind a store is copied before it."""
    gate = Gate()
    with Bed(fault=gate, threads=1) as bed:
        gate.opened.set()
        bed.store([key(1)], [[0]])
        gate.opened.clear()
        gate.reached.clear()
        jobs = [bed.engine.store([key(2)], [[1]])]
        assert gate.reached.wait(20)
        jobs += [bed.engine.store([key(3)], [[2]]), bed.engine.load([key(1)], [[8]])]
        gate.opened.set()
        for job in jobs:
            assert bed.finished(job) == (DONE,)

    assert gate.seen[1:] == [(Kind.STORE, key(2)), (Kind.LOAD, key(1)), (Kind.STORE, key(3))]


def test_a_chunk_is_no_hit_before_its_bytes_are_there():
    """While the copy is held back the chunk is pending: case R02."""
    gate = Gate()
    with Bed(fault=gate) as bed:
        job = bed.engine.store([key(1)], [[0]])
        assert gate.reached.wait(20)
        assert bed.engine.lookup([key(1)]) == [Found.PENDING]
        assert not job.done
        with pytest.raises(RuntimeError) as error:
            _ = job.outcomes
        assert str(error.value) == f"<Job {job.number}: store, 1 of 1 open> has no outcomes yet"
        gate.opened.set()
        assert bed.finished(job) == (DONE,)
        assert bed.engine.lookup([key(1)]) == [Found.HIT]


def test_a_failed_copy_is_a_miss_and_the_others_go_on():
    """The chunk that fails is reported with its blocks, forgotten, and its place comes back.

    Cases R10, R19, R20: the others of its job arrive; a failed load is not a hit again.
    """
    bad = {(Kind.STORE, key(2)), (Kind.LOAD, key(3))}

    def fault(kind, name):
        if (kind, name) in bad:
            raise OSError("injected")

    with Bed(fault=fault) as bed:
        keys, blocks = [key(1), key(2), key(3)], [[0], [1], [2]]
        job = bed.engine.store(keys, blocks)
        assert bed.finished(job) == (DONE, FAILED, DONE)
        assert job.failed == ((key(2), [1], FAILED),)
        assert not job.succeeded
        assert bed.engine.lookup(keys) == [Found.HIT, Found.MISS, Found.HIT]

        assert bed.load([key(1), key(3)], [[8], [9]]) == (DONE, FAILED)
        assert bed.engine.lookup(keys) == [Found.HIT, Found.MISS, Found.MISS]
        stats = bed.engine.stats()
        assert stats.host.free_bytes == 960 - 96
        assert stats.failures == {"failed": 2}
        assert (stats.store.failed_chunks, stats.load.failed_chunks) == (1, 1)


@pytest.mark.parametrize("early", [True, False], ids=["while preparing", "while copying"])
def test_a_mover_that_raises_fails_its_chunk_only(early):
    """An error in the middle of a batch is tried again chunk by chunk."""

    def broken():
        raise RuntimeError("copy failed")

    with Bed() as bed:
        prepared = bed.engine._mover.prepared

        def sometimes(moves, fence=None, *, store):
            if not any(1 in move.blocks for move in moves):
                return prepared(moves, fence, store=store)
            return broken() if early else broken

        bed.engine._mover.prepared = sometimes
        assert bed.store([key(1), key(2), key(3)], [[0], [1], [2]]) == (DONE, FAILED, DONE)


def test_in_flight_bytes_are_bounded_and_the_caller_sees_it():
    """What is beyond the limit is refused at once, in order, and later ones are welcome again."""
    gate = Gate()
    with Bed(fault=gate, in_flight_bytes=2 * 96) as bed:
        job = bed.engine.store([key(1), key(2), key(3)], [[0], [1], [2]])
        assert bed.engine.stats().in_flight_bytes == 2 * 96
        refused = bed.engine.store([key(4)], [[4]])
        assert refused.done
        assert refused.outcomes == (REFUSED,)
        gate.opened.set()
        assert bed.finished(job) == (DONE, DONE, REFUSED)
        assert bed.engine.stats().in_flight_bytes == 0
        assert bed.store([key(4)], [[4]]) == (DONE,)


def test_a_full_tier_evicts_then_stores():
    """Full means evict; with everything pinned it means refuse; both recover: case R16, R21."""
    gate = Gate()
    gate.opened.set()
    with Bed(fault=gate, host_bytes=192) as bed:
        bed.store([key(1), key(2)], [[0], [1]])
        assert bed.store([key(3)], [[2]]) == (DONE,)
        assert bed.engine.lookup([key(1), key(2), key(3)]) == [Found.HIT, Found.MISS, Found.HIT]
        gate.opened.clear()
        load = bed.engine.load([key(1), key(3)], [[8], [9]])
        assert bed.store([key(4)], [[4]]) == (REFUSED,)
        gate.opened.set()
        assert bed.finished(load) == (DONE, DONE)
        assert bed.store([key(4)], [[4]]) == (DONE,)


def test_blocks_belong_to_a_job_until_it_is_done():
    """Loading into a block that is still stored from, or twice, is an error and changes nothing."""
    gate = Gate()
    with Bed(fault=gate) as bed:
        job = bed.engine.store([key(1)], [[0]])
        for act in (
            lambda: bed.engine.load([key(5)], [[0]]),
            lambda: bed.engine.load([key(5)], [[0]]),
        ):
            with pytest.raises(ValueError) as error:
                act()
            assert str(error.value) == "block 0 belongs to a job that is not done yet"
        second = bed.engine.store([key(2)], [[0]])
        gate.opened.set()
        assert bed.finished(job) == bed.finished(second) == (DONE,)
        assert bed.load([key(1)], [[0]]) == (DONE,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (([key(1)], []), "keys, blocks and first blocks are lists of one length"),
        (([key(1), key(1)], [[0], [1]]), "a job names each chunk once"),
        (([key(1)], [[16]]), "block ids are 0 to 15, not 16 to 16"),
        (([key(1)], [[-1]]), "block ids are 0 to 15, not -1 to -1"),
        (([key(1, 1)], [[1, 2, 3]]), "chunk 0 has blocks 0 to 1, not 3 from 0 on"),
        (([key(1, 1)], [[1, 2]], [1]), "chunk 0 has blocks 0 to 1, not 2 from 1 on"),
        (([key(1, 1)], [[]]), "chunk 0 has blocks 0 to 1, not 0 from 0 on"),
        (([key(1, 2)], [[0]]), "a key names group 2, there are 2 groups"),
    ],
)
def test_calls_that_make_no_sense_are_errors(call, message):
    """Ids, lengths and groups are checked before anything is queued: cases R05, R22."""
    with Bed() as bed:
        for act in (bed.engine.store, bed.engine.load):
            with pytest.raises(ValueError) as error:
                act(*call)
            assert str(error.value) == message
        assert bed.engine.stats().in_flight_bytes == 0


def test_cancel_takes_back_what_has_not_begun():
    """The waiting job is refused and its blocks are free; the running one ends by itself."""
    gate = Gate()
    with Bed(fault=gate, threads=1) as bed:
        running = bed.engine.store([key(1)], [[0]])
        assert gate.reached.wait(20)
        waiting = bed.engine.store([key(2)], [[1]])
        assert bed.engine.cancel(waiting)
        assert waiting.outcomes == (REFUSED,)
        assert waiting.cancelled
        assert not bed.engine.cancel(running)
        assert not bed.engine.wait(running, 0.01)
        assert bed.engine.lookup([key(2)]) == [Found.MISS]
        gate.opened.set()
        assert bed.finished(running) == (DONE,)
        assert bed.engine.poll() == [waiting, running]
        assert bed.engine.poll() == []


def test_close_during_transfers_is_safe_and_leaves_no_thread():
    """What runs is finished, what waits is refused, and later calls are errors: case R11."""
    gate = Gate()
    bed = Bed(fault=gate, threads=2)
    jobs = [bed.engine.store([key(n)], [[n]]) for n in range(6)]
    assert gate.reached.wait(20)
    threading.Timer(0.05, gate.opened.set).start()
    bed.engine.close()
    bed.engine.close()

    assert all(job.done for job in jobs)
    assert {job.outcomes[0] for job in jobs} <= {DONE, REFUSED}
    assert not [t for t in threading.enumerate() if t.name.startswith("kvengine-copy")]
    with pytest.raises(RuntimeError) as error:
        bed.engine.store([key(9)], [[0]])
    assert str(error.value) == "the engine is closed"


def test_a_job_of_nothing_is_done():
    """Empty calls finish at once."""
    with Bed() as bed:
        jobs = [bed.engine.store([], []), bed.engine.load([], []), bed.engine.prefetch([])]
        assert all(job.done and job.succeeded and job.outcomes == () for job in jobs)
        assert bed.engine.poll() == jobs


def test_a_reset_forgets_everything():
    """After a reset nothing is a hit, and all places are free."""
    with Bed() as bed:
        bed.store([key(1), key(2)], [[0], [1]])
        bed.engine.reset()
        assert bed.engine.lookup([key(1), key(2)]) == [Found.MISS, Found.MISS]
        assert bed.engine.stats().host.free_bytes == 960


def test_stored_chunks_go_to_the_tiers_behind_and_come_back():
    """Evicted from host memory, a chunk is behind; a load brings it through: case R14."""
    tier = MemoryTier()
    with Bed(tier) as bed:
        bed.store([key(1), key(2, 1)], [[0], [1, 2]])
        bed.engine.reset()
        assert bed.engine.lookup([key(1), key(2, 1), key(3)]) == [
            Found.BEHIND,
            Found.BEHIND,
            Found.MISS,
        ]
        assert bed.load([key(1), key(2, 1), key(3)], [[8], [9, 10], [11]]) == (DONE, DONE, MISS)
        assert torch.equal(bed.page(8), bed.page(0))
        assert torch.equal(bed.page(10, "group1.layer0"), bed.page(2, "group1.layer0"))
        assert bed.engine.lookup([key(1)]) == [Found.HIT]
        assert bed.engine.stats().promoted_chunks == 2
    assert tier.closed


def test_a_prefetch_brings_chunks_into_host_memory():
    """Afterwards they are hits; the store threshold does not apply to them."""
    tier = MemoryTier()
    with Bed(tier, host=HostTier(budget_bytes=960, store_threshold=2)) as bed:
        assert bed.store([key(1)], [[0]]) == (REFUSED,)
        assert bed.store([key(1)], [[0]]) == (DONE,)
        bed.engine.reset()
        job = bed.engine.prefetch([key(1), key(2)])
        assert bed.finished(job) == (DONE, MISS)
        assert bed.engine.lookup([key(1)]) == [Found.HIT]


@pytest.mark.parametrize("outcome", [FAILED, Outcome.CORRUPT, Outcome.TIMEOUT])
def test_a_chunk_that_a_tier_fails_to_bring_is_a_miss_from_then_on(outcome):
    """The outcome says why, no byte of it is used, and it is not tried again: cases R10, R19."""
    tier = MemoryTier()
    with Bed(tier) as bed:
        bed.store([key(1)], [[0]])
        bed.engine.reset()
        tier.bad = {key(1): outcome}
        bed.page(8).fill_(0xEE)
        assert bed.load([key(1)], [[8]]) == (outcome,)
        assert bed.page(8).eq(0xEE).all()
        assert bed.engine.lookup([key(1)]) == [Found.MISS]
        assert bed.load([key(1)], [[8]]) == (MISS,)
        assert tier.gets == 1

        tier.bad = {}
        bed.store([key(1)], [[0]])
        bed.engine.reset()
        assert bed.load([key(1)], [[8]]) == (DONE,)


def test_a_place_stays_taken_until_the_tier_lets_go():
    """A buffer that a slow device may still fill is not given to another chunk: case R01."""
    tier = MemoryTier(patient=True)
    with Bed(tier, host_bytes=96) as bed:
        tier.chunks[key(1)] = bytes(96)
        tier.bad = {key(1): FAILED}
        job = bed.engine.load([key(1)], [[8]])
        tier.tick(hold=True)
        assert bed.finished(job) == (FAILED,)
        assert bed.store([key(2)], [[0]]) == (REFUSED,), "the only place is still held"
        tier.let_go()
        assert bed.store([key(2)], [[0]]) == (DONE,)


def test_a_load_from_behind_has_a_deadline():
    """A tier that never answers ends as a timeout, found out by waiting: case R11."""
    tier = MemoryTier(patient=True)
    get = tier.get
    tier.get = lambda items, timeout_s=None: get(items, 0.1)
    with Bed(tier) as bed:
        tier.chunks[key(1)] = bytes(96)
        job = bed.engine.load([key(1)], [[8]])
        assert bed.finished(job) == (Outcome.TIMEOUT,)


def test_late_writing_moves_what_would_leave_next():
    """When host memory runs low, the least used chunks go behind before they are evicted."""
    tier = MemoryTier()
    with Bed(tier, host_bytes=960, write="late") as bed:
        bed.store([key(n) for n in range(8)], [[n] for n in range(8)])
        assert not tier.chunks
        bed.store([key(8), key(9)], [[8], [9]])
        assert set(tier.chunks) == {key(7), key(6)}
        assert bed.engine.lookup([key(5), key(7)]) == [Found.HIT, Found.BEHIND]
        assert bed.engine.stats().demoted_chunks == 2


def test_a_tier_that_refuses_costs_nothing_but_its_copy():
    """Back-pressure behind host memory does not disturb host memory: case R12."""
    tier = MemoryTier()
    tier.bad = {key(1): REFUSED}
    with Bed(tier) as bed:
        assert bed.store([key(1)], [[0]]) == (DONE,)
        assert bed.engine.lookup([key(1)]) == [Found.HIT]
        assert bed.engine.stats().host.pinned_bytes == 0
        assert not tier.chunks


def test_metrics_say_capacity_residency_and_pins_apart():
    """Prometheus text has each of them per tier, and bytes per direction: case R28."""
    with Bed(MemoryTier(), host_bytes=960) as bed:
        bed.store([key(1), key(2)], [[0], [1]])
        bed.load([key(1)], [[8]])
        bed.engine.lookup([key(1), key(5)])
        lines = prometheus_text(bed.engine).splitlines()

    for line in (
        'kvengine_capacity_bytes{tier="host"} 960.0',
        'kvengine_resident_bytes{tier="host"} 192.0',
        'kvengine_pinned_bytes{tier="host"} 0.0',
        'kvengine_stores_total{tier="host"} 2.0',
        'kvengine_hits_total{tier="host"} 1.0',
        'kvengine_misses_total{tier="host"} 1.0',
        'kvengine_copied_bytes_total{direction="store"} 192.0',
        'kvengine_copied_chunks_total{direction="load"} 1.0',
        'kvengine_in_service{tier="memory"} 1.0',
        "kvengine_in_flight_bytes 0.0",
    ):
        assert line in lines


def test_stores_that_never_hit_are_reported():
    """Much stored and nothing loaded means that writer and reader disagree: case R18."""
    with Bed(host_bytes=96) as bed:
        for number in range(1001):
            bed.store([key(number)], [[0]])
        assert bed.engine.stats().stores_without_hits
        bed.load([key(1000)], [[1]])
        assert not bed.engine.stats().stores_without_hits


def test_transfers_are_counted_by_size():
    """Slices are counted by the power of two of their bytes: case R27."""
    with Bed() as bed:
        bed.store([key(1), key(2)], [[0], [1]])
        stats = bed.engine.stats()
        assert stats.store.slices_by_bytes == {256: 1}
        assert (stats.store.jobs, stats.store.chunks, stats.store.num_bytes) == (1, 2, 192)
        assert stats.to_dict()["host"]["stores"] == 2


def test_idle_workers_share_a_job(monkeypatch):
    """One that is large enough; while they are busy, jobs stay whole."""
    monkeypatch.setattr("kvengine.runtime.engine._LEAST_SLICE_BYTES", 96)
    gate = Gate()
    with Bed(fault=gate, threads=2) as bed:
        wait_until(lambda: bed.engine._transfers.num_idle == 2)
        shared = bed.engine.store([key(n) for n in range(4)], [[n] for n in range(4)])
        wait_until(lambda: bed.engine._transfers.num_idle == 0)
        whole = bed.engine.store([key(n) for n in range(4, 8)], [[n] for n in range(4, 8)])
        gate.opened.set()
        assert bed.finished(shared) == bed.finished(whole) == (DONE,) * 4
        assert bed.engine.stats().store.slices_by_bytes == {256: 2, 512: 1}


@pytest.mark.parametrize("kind", [Kind.STORE, Kind.LOAD])
def test_a_shared_job_leaves_from_its_end_whichever_worker_is_first(monkeypatch, kind):
    """The end of a prefix is of no use without its beginning."""
    monkeypatch.setattr("kvengine.runtime.engine._LEAST_SLICE_BYTES", 96)
    keys, blocks = [key(n) for n in range(8)], [[n] for n in range(8)]
    begun, go = threading.Event(), threading.Event()

    def late(now, name):
        """The last slice is copied last."""
        if now is kind and name == keys[-1]:
            begun.set()
            assert go.wait(20)

    with Bed(fault=late, threads=2, host_bytes=8 * 96) as bed:
        if kind is Kind.LOAD:
            bed.store(keys, blocks)
        wait_until(lambda: bed.engine._transfers.num_idle == 2)
        act = bed.engine.store if kind is Kind.STORE else bed.engine.load
        job = act(keys, blocks)
        assert begun.wait(20)
        wait_until(lambda: bed.engine._transfers.num_idle == 1)
        go.set()
        assert bed.finished(job) == (DONE,) * 8
        bed.store([key(8), key(9), key(10)], [[8], [9], [10]])
        assert bed.engine.lookup(keys) == [Found.HIT] * 5 + [Found.MISS] * 3


def test_an_engine_may_be_made_in_inference_mode(caplog):
    """As engines of models often are; its threads are not in that mode."""
    with torch.inference_mode(), Bed() as bed:
        assert bed.store([key(1), key(2)], [[0], [1]]) == (DONE, DONE)
        assert bed.load([key(1), key(2)], [[8], [9]]) == (DONE, DONE)
        assert torch.equal(bed.page(8), bed.page(0))
    assert not caplog.messages


def test_engines_of_a_node_share_one_region(tmp_path):
    """Each rank's engine works in its own part of the file."""
    memories = [SharedMemory("node", 960, rank=rank, ranks=2, folder=tmp_path) for rank in range(2)]
    for memory in memories:
        with Bed(host=HostTier(budget_bytes=960, memory=memory)) as bed:
            assert bed.store([key(1)], [[0]]) == (DONE,)
            bed.before = None
            assert bed.load([key(1)], [[8]]) == (DONE,)
            assert torch.equal(bed.page(8), bed.page(0))
        memory.close()


def test_plans_without_offload_and_odd_tiers_are_refused():
    """The engine says what it needs."""
    plan = make("packed", SHAPES, 4)
    cache = allocate(plan)
    with pytest.raises(ValueError) as error:
        OffloadEngine(evolve(plan, offload=None), cache, [HostTier(budget_bytes=960)])
    assert str(error.value) == "the plan does not offload"
    for tiers in ([], [MemoryTier()], [MemoryTier(), HostTier(budget_bytes=9)]):
        with pytest.raises(ValueError) as error:
            OffloadEngine(plan, cache, tiers)
        assert str(error.value) == "the first tier, and no other, is a HostTier"


def test_host_memory_smaller_than_the_budget_is_refused():
    """Places must lie inside the memory that is given."""
    plan = make("packed", SHAPES, 4)
    with pytest.raises(ValueError) as error:
        OffloadEngine(plan, allocate(plan), [HostTier(budget_bytes=960, memory=HostMemory(500))])
    assert str(error.value) == "the host tier has 960 bytes, its memory 500"


def test_trouble_is_logged_once_with_its_error(caplog):
    """The first failed copy of a kind is a line with the error; the start says what fits: R12."""

    def fault(kind, name):
        raise OSError(5, "injected")

    with caplog.at_level("INFO", "kvengine.runtime"), Bed(fault=fault) as bed:
        job = bed.engine.store([key(1), key(2)], [[0], [1]])
        assert bed.finished(job) == (FAILED, FAILED)

    assert [record.getMessage() for record in caplog.records] == [
        "host tier: bytes=960 tokens=96 unit_bytes=96 chunk_bytes=[96, 96] policy=lru behind=[]",
        f"copy failed: direction=store job={job.number} bytes=192 error=OSError(5, 'injected')",
    ]
