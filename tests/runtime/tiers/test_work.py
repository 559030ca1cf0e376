"""Queues: loads first, bounded, never later than their deadlines."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kvengine.runtime.tiers.base import Batch, Outcome
from kvengine.runtime.tiers.work import Part, Workers
from tests.runtime.tiers.kit import wait_until


class Stage:
    """Work that waits for a sign, and says in which order it ran."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.order: list[str] = []
        self.go = threading.Event()
        self.begun = threading.Event()

    def part(self, name: str, num_bytes: int = 1, timeout_s: float = 60) -> Part:
        batch = Batch([name.encode()], timeout_s)
        self.workers.watch(batch)

        def run(parts: Sequence[Part]) -> None:
            self.begun.set()
            self.go.wait(10)
            self.order.append(name)
            batch.settle(0, Outcome.DONE)

        return Part(batch, [0], num_bytes, run)


def make(queue_bytes: int = 100, loaders: int = 0, together_bytes: int = 0) -> Stage:
    return Stage(
        Workers(
            "test",
            loaders=loaders,
            storers=1,
            queue_bytes=queue_bytes,
            ahead=True,
            loads_together_bytes=together_bytes,
            stores_together_bytes=together_bytes,
        )
    )


def test_loads_go_before_stores():
    """A storer with both in its queues loads first, whatever came first."""
    stage = make()
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    stage.workers.store([stage.part("store 1"), stage.part("store 2")])
    stage.workers.load([stage.part("load 1"), stage.part("load 2")])
    stage.go.set()
    stage.workers.close(10)

    assert stage.order == ["running", "load 1", "load 2", "store 1", "store 2"]


def test_idle_threads_are_those_that_would_begin_at_once():
    """What is queued already will take some of them."""
    stage = make(loaders=2)
    workers = stage.workers
    wait_until(lambda: (workers.idle_loaders, workers.idle_storers) == (3, 1))
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    assert (workers.idle_loaders, workers.idle_storers) == (2, 0)
    workers.store([stage.part("waiting")])
    wait_until(lambda: workers.idle_storers == -1)
    stage.go.set()
    wait_until(lambda: (workers.idle_loaders, workers.idle_storers) == (3, 1))
    workers.close(10)


def test_loaders_never_store():
    """A read never waits behind a write: loaders are free while storers are busy."""
    stage = make(loaders=1)
    stage.workers.store([stage.part("store 1"), stage.part("store 2")])
    assert stage.begun.wait(5)
    load = stage.part("load")
    free = Part(load.batch, [0], 1, lambda _: load.batch.settle(0, Outcome.DONE))
    stage.workers.load([free])

    assert load.batch.wait(5)
    stage.go.set()
    stage.workers.close(10)


def test_a_full_queue_refuses_at_once():
    """Back-pressure is an outcome, and what was taken is unharmed."""
    stage = make(queue_bytes=100)
    stage.workers.store([stage.part("running", 100)])
    assert stage.begun.wait(5)
    parts = [stage.part("first", 60), stage.part("second", 60), stage.part("third", 10)]
    stage.workers.store(parts)

    assert [part.batch.done for part in parts] == [False, True, True]
    assert parts[1].batch.outcomes == (Outcome.REFUSED,)
    assert stage.workers.queued_bytes == 60
    stage.go.set()
    stage.workers.close(10)
    assert stage.order == ["running", "first"]


def test_an_empty_queue_takes_a_part_larger_than_itself():
    """Otherwise it could never be done."""
    stage = make(queue_bytes=10)
    part = stage.part("large", 1000)
    stage.go.set()
    stage.workers.store([part])

    assert part.batch.wait(5)
    assert part.batch.outcomes == (Outcome.DONE,)
    stage.workers.close(10)


def test_a_deadline_falls_due_while_every_worker_hangs():
    """Batches behind a hanging one are done in time; what ran late finds nobody waiting (R11)."""
    stage = make()
    hanging, waiting = stage.part("hanging", timeout_s=0.05), stage.part("waiting", timeout_s=0.05)
    seen = threading.Event()
    waiting.batch.when_done(lambda _: seen.set())
    stage.workers.store([hanging, waiting])

    assert seen.wait(5)
    assert hanging.batch.wait()
    assert not hanging.batch.released
    assert waiting.batch.released
    stage.go.set()
    stage.workers.close(10)
    assert stage.order == ["hanging"]


def test_close_refuses_what_it_cannot_finish_and_leaves_no_thread():
    """Every batch is done, every thread has ended."""
    before = threading.active_count()
    stage = make()
    running, queued = stage.part("running"), stage.part("queued")
    stage.workers.store([running, queued])
    assert stage.begun.wait(5)
    threading.Timer(0.2, stage.go.set).start()

    assert stage.workers.close(0.15)
    late = stage.part("late")
    stage.workers.store([late])
    assert queued.batch.outcomes == (Outcome.REFUSED,)
    assert late.batch.outcomes == (Outcome.REFUSED,)
    assert running.batch.done
    assert threading.active_count() == before


def test_an_unexpected_error_is_a_failure_of_that_part_only(caplog):
    """The worker goes on."""
    stage = make()
    stage.go.set()
    bad = Batch([b"bad"], 60)
    stage.workers.store([Part(bad, [0], 1, lambda _: 1 // 0)])
    good = stage.part("good")
    stage.workers.store([good])

    assert good.batch.wait(5)
    assert bad.outcomes == (Outcome.FAILED,)
    assert bad.released
    stage.workers.close(10)
    assert caplog.messages == [
        "a tier's worker met an error that nobody expected; its chunks are misses"
    ]


def test_what_can_be_done_ahead_is_done_while_storers_are_busy():
    """By one thread more, with the buffers held, and once."""
    stage = make()
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    done, held = threading.Event(), []
    part = stage.part("store")

    def ahead() -> None:
        stage.order.append("ahead")
        held.append(not part.batch.released)
        done.set()

    stage.workers.store([Part(part.batch, [0], 1, part.run, ahead=ahead)])
    assert done.wait(5)
    assert not part.batch.done
    stage.go.set()
    stage.workers.close(10)

    assert held == [True]
    assert stage.order == ["ahead", "running", "store"]


def test_a_free_storer_does_everything_itself():
    """To hand work over takes longer than a checksum."""
    stage = make()
    stage.go.set()
    part = stage.part("store")
    stage.workers.store(
        [Part(part.batch, [0], 1, part.run, ahead=lambda: stage.order.append("ahead"))]
    )
    stage.workers.close(10)

    assert stage.order == ["store"]


def test_what_fails_ahead_is_tried_again_by_the_storer(caplog):
    """An error there settles nothing."""
    stage = make()
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    part, tried = stage.part("store"), threading.Event()

    def ahead() -> None:
        tried.set()
        raise ValueError("ahead")

    stage.workers.store([Part(part.batch, [0], 1, part.run, ahead=ahead)])
    assert tried.wait(5)
    stage.go.set()
    stage.workers.close(10)

    assert part.batch.outcomes == (Outcome.DONE,)
    assert len(caplog.messages) == 1


def test_what_is_under_way_ahead_at_the_end_is_refused():
    """Closing waits neither for it nor loses it."""
    stage = make()
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    part, tried, go = stage.part("store"), threading.Event(), threading.Event()

    def ahead() -> None:
        tried.set()
        go.wait(10)

    stage.workers.store([Part(part.batch, [0], 1, part.run, ahead=ahead)])
    assert tried.wait(5)
    threading.Timer(0.2, lambda: (go.set(), stage.go.set())).start()

    stage.workers.close(0.1)

    assert part.batch.wait(5)
    assert part.batch.outcomes == (Outcome.REFUSED,)
    assert part.batch.wait_released(5)


def test_stores_keep_their_order_where_nothing_can_be_done_ahead():
    """One storer takes them as they come."""
    stage = make(queue_bytes=1000)
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    stage.workers.store([stage.part(f"store {number}") for number in range(20)])
    stage.go.set()
    stage.workers.close(10)

    assert stage.order == ["running", *(f"store {number}" for number in range(20))]


class Together:
    """Parts of batches of their own that one ``run`` handles, however many at once."""

    def __init__(self) -> None:
        self.seen: list[list[bytes]] = []

    def part(self, name: str, num_bytes: int, timeout_s: float = 60) -> Part:
        return Part(Batch([name.encode()], timeout_s), [0], num_bytes, self.run)

    def run(self, parts: Sequence[Part]) -> None:
        self.seen.append([part.batch.keys[0] for part in parts])
        for part in parts:
            part.batch.settle(0, Outcome.DONE)


def test_stores_that_waited_are_handled_together_up_to_a_limit():
    """Of one kind, in order; each batch hears of its own chunks."""
    stage = make(queue_bytes=1000, together_bytes=10)
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    some, others = Together(), Together()
    parts = [some.part(name, 4) for name in "abc"]
    parts += [others.part(name, 4) for name in "de"]
    parts += [some.part("large", 20), some.part("last", 1)]
    stage.workers.store(parts)
    stage.go.set()
    stage.workers.close(10)

    assert some.seen == [[b"a", b"b"], [b"c"], [b"large"], [b"last"]]
    assert others.seen == [[b"d", b"e"]]
    assert all(part.batch.outcomes == (Outcome.DONE,) for part in parts)


def test_loads_that_waited_are_handled_together_as_well():
    """Those for which no loader is free."""
    stage = make(loaders=1, together_bytes=10)
    stage.workers.store([stage.part("storing")])
    assert stage.begun.wait(5)
    stage.workers.load([stage.part("loading")])
    wait_until(lambda: not stage.workers.queued_bytes)
    some = Together()
    stage.workers.load([some.part(name, 1) for name in "abc"])
    stage.go.set()
    stage.workers.close(10)

    assert [key for keys in some.seen for key in keys] == [b"a", b"b", b"c"]
    assert len(some.seen) < 3


def test_no_more_than_256_chunks_go_together():
    """However small they are, and if they have no bytes at all."""
    stage = make(together_bytes=10)
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    some = Together()
    stage.workers.store([some.part(str(number), 0) for number in range(300)])
    stage.go.set()
    stage.workers.close(10)

    assert [len(keys) for keys in some.seen] == [256, 44]


def test_one_that_is_too_late_does_not_hold_up_the_others():
    """Its buffers are not touched any more, theirs are handled."""
    stage = make(queue_bytes=1000, together_bytes=10)
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)
    some = Together()
    late, good = some.part("late", 1, timeout_s=0.0), some.part("good", 1)
    stage.workers.store([some.part("first", 1), late, good])
    stage.go.set()
    stage.workers.close(10)

    assert some.seen == [[b"first", b"good"]]
    assert late.batch.outcomes == (Outcome.TIMEOUT,)
    assert good.batch.outcomes == (Outcome.DONE,)


def test_an_unexpected_error_is_the_failure_of_all_that_went_together(caplog):
    """And every buffer is given back."""
    stage = make(queue_bytes=1000, together_bytes=10)
    stage.workers.store([stage.part("running")])
    assert stage.begun.wait(5)

    def run(parts: Sequence[Part]) -> None:
        raise ValueError(len(parts))

    batches = [Batch([b"key"], 60) for _ in range(2)]
    stage.workers.store([Part(batch, [0], 1, run) for batch in batches])
    stage.go.set()
    stage.workers.close(10)

    assert [batch.outcomes for batch in batches] == [(Outcome.FAILED,)] * 2
    assert all(batch.released for batch in batches)
    assert len(caplog.messages) == 1
