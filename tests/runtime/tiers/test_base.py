"""Batches: done once, released later, never late."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from kvengine.runtime.tiers.base import Batch, Outcome

KEYS = [b"a", b"b", b"c"]


def test_the_first_word_on_a_chunk_counts():
    """A later outcome changes nothing."""
    batch = Batch(KEYS, 1)
    batch.settle(1, Outcome.MISS)
    batch.settle_all(Outcome.DONE)
    batch.settle_all(Outcome.FAILED)

    assert batch.outcomes == (Outcome.DONE, Outcome.MISS, Outcome.DONE)


def test_a_batch_of_nothing_is_done_and_released():
    """Nothing has to be waited for."""
    batch = Batch([], 1)

    assert batch.done
    assert batch.released
    assert batch.outcomes == ()


def test_the_deadline_settles_what_is_open():
    """A wait ends at the deadline, and what is open then is a timeout."""
    batch = Batch(KEYS, 0.02)
    batch.settle(0, Outcome.DONE)
    started_s = time.monotonic()

    assert batch.wait()
    assert time.monotonic() - started_s < 1
    assert batch.outcomes == (Outcome.DONE, Outcome.TIMEOUT, Outcome.TIMEOUT)


def test_a_wait_shorter_than_the_deadline_says_that_it_was():
    """The batch goes on."""
    batch = Batch(KEYS, 60)

    assert not batch.wait(0.01)
    assert not batch.done


def test_buffers_are_released_after_the_last_holder_even_when_the_deadline_passed():
    """A batch that timed out keeps its buffers until nobody touches them (R01)."""
    batch = Batch(KEYS, 0.01)
    assert batch.hold()
    assert batch.wait()

    assert batch.done
    assert not batch.released
    assert not batch.wait_released(0.01)
    batch.drop()
    assert batch.released
    assert batch.wait_released(0)


def test_a_done_batch_cannot_be_held():
    """A worker that comes too late must not touch the buffers."""
    batch = Batch(KEYS, 0)

    assert not batch.hold()
    assert batch.outcomes == (Outcome.TIMEOUT,) * 3


def test_callbacks_come_once_and_in_order():
    """``when_done`` before ``when_released``, at once if it is so already."""
    batch = Batch(KEYS, 60)
    seen: list[str] = []
    batch.when_released(lambda _: seen.append("released"))
    batch.when_done(lambda _: seen.append("done"))
    batch.hold()
    batch.settle_all(Outcome.DONE)
    assert seen == ["done"]
    batch.drop()
    batch.when_done(lambda _: seen.append("late done"))
    batch.when_released(lambda _: seen.append("late released"))

    assert seen == ["done", "released", "late done", "late released"]


def test_a_failing_callback_does_not_stop_the_others(caplog):
    """It is logged; the worker and the other callbacks go on."""
    batch = Batch(KEYS, 60)
    seen: list[str] = []
    batch.when_done(lambda _: 1 // 0)
    batch.when_done(lambda _: seen.append("done"))
    batch.settle_all(Outcome.DONE)

    assert seen == ["done"]
    assert caplog.messages == ["a callback of a batch failed"]


@given(st.lists(st.integers(0, 9), max_size=40))
def test_settling_from_many_threads_counts_every_chunk_once(order):
    """However outcomes arrive, the batch is done exactly when all are known."""
    batch = Batch([b"%d" % i for i in range(10)], 60)
    threads = [threading.Thread(target=batch.settle, args=(index, Outcome.DONE)) for index in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert batch.done == (set(order) == set(range(10)))
