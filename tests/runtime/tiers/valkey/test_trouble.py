"""A store that dies, hangs, lies or comes back: misses in time, never wrong bytes (R10, R11)."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from kvengine.runtime.tiers.base import Outcome
from kvengine.runtime.tiers.health import Guarded
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    DONE,
    MISS,
    done,
    get,
    identity,
    keys_of,
    payload_of,
    put,
    readable,
    wait_until,
)
from tests.runtime.tiers.valkey.proxy import proxy
from tests.runtime.tiers.valkey.servers import free_port, needs_server, server, store

pytestmark = needs_server
KEYS = keys_of(range(20))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def between(running):
    with running.client() as client:
        client.flushall()
    with proxy(running.port, seed=5) as between:
        yield between


def test_no_store_at_all_is_a_failure_in_time():
    """The tier opens nevertheless."""
    with store(f"valkey://127.0.0.1:{free_port()}", timeout_s=0.5) as tier:
        started_s = time.monotonic()
        assert put(tier, KEYS[:2]) == (Outcome.FAILED,) * 2
        assert get(tier, KEYS[:2])[0] == (Outcome.FAILED,) * 2
        assert tier.resolve(KEYS[:2], 0.5) == [False, False]
        assert not tier.probe(0.5)
        assert time.monotonic() - started_s < 3


def test_a_server_killed_under_load_costs_what_was_in_flight(tmp_path, caplog):
    """Two engines on it, five kills: no wrong byte, no hang, and soon all is well again."""
    caplog.set_level(logging.CRITICAL)
    with server(tmp_path) as running, store(running.url) as first, store(running.url) as second:
        problems: list[BaseException] = []
        counts = dict.fromkeys(Outcome, 0)
        stop = threading.Event()

        def work(tier, numbers):
            try:
                while not stop.is_set():
                    for outcome in put(tier, keys_of(numbers)):
                        counts[outcome] += 1
                    readable(tier, keys_of(range(60)))
            except BaseException as error:
                problems.append(error)

        threads = [
            threading.Thread(target=work, args=(tier, range(start, start + 30)))
            for start, tier in [(0, first), (30, second)]
        ]
        for thread in threads:
            thread.start()
        for _ in range(5):
            time.sleep(0.15)
            running.kill()
            time.sleep(0.05)
            running.start()
        time.sleep(0.1)
        stop.set()
        for thread in threads:
            thread.join(30)

        assert problems == []
        assert counts[DONE] > 100
        wait_until(lambda: set(put(first, KEYS)) == {DONE})
        time.sleep(0.3)
        assert readable(second, KEYS) == KEYS


def test_a_store_that_dies_is_left_alone_and_taken_back(tmp_path):
    """Under guard: refused at once while it is out, in service again after a restart."""
    with server(tmp_path) as running:
        options = {"timeout_s": 0.5, "presence_s": 0.01}
        with Guarded(store(running.url, **options), most_failures=4, pause_s=0.05) as tier:
            assert set(put(tier, KEYS)) == {DONE}
            running.kill()
            for _ in range(3):
                get(tier, KEYS)
            assert not tier.in_service
            started_s = time.monotonic()
            assert get(tier, KEYS)[0] == (MISS,) * 20
            assert put(tier, KEYS) == (Outcome.REFUSED,) * 20
            assert time.monotonic() - started_s < 0.1
            running.start()
            wait_until(lambda: tier.in_service)

            assert set(put(tier, KEYS)) == {DONE}


@pytest.mark.parametrize("what", ["put", "get"])
def test_a_store_that_hangs_ends_in_timeouts_and_lets_go(between, what):
    """At the deadline, and the buffers are free soon after (R01)."""
    with store(between.url, timeout_s=0.3) as tier:
        put(tier, KEYS[:2])
        between.stall = True
        items = [(key, memoryview(bytearray(payload_of(key)))) for key in KEYS[:4]]
        batch = tier.put(items[2:]) if what == "put" else tier.get(items[:2])
        started_s = time.monotonic()

        assert batch.wait()
        assert set(batch.outcomes) == {Outcome.TIMEOUT}
        assert batch.wait_released(5)
        assert time.monotonic() - started_s < 1.5
        between.stall = False
        wait_until(lambda: set(put(tier, KEYS)) == {DONE})
        assert readable(tier, KEYS) == KEYS


def test_a_slow_store_is_slow_but_right(between):
    """Each piece delayed."""
    with store(between.url, 200_000, timeout_s=20) as tier:
        between.delay_s = 0.005
        keys = KEYS[:4]

        assert set(put(tier, keys, 200_000)) == {DONE}
        assert readable(tier, keys, 200_000) == keys


def test_a_connection_that_is_cut_is_tried_again(between):
    """Within the deadline; a cut reply leaves nothing behind on the connection."""
    with store(between.url, timeout_s=5, retries=5) as tier:
        put(tier, KEYS)
        between.drop()

        assert readable(tier, KEYS) == KEYS


def test_cuts_never_give_wrong_bytes(between, caplog):
    """One piece in ten ends its connection in the middle."""
    caplog.set_level(logging.CRITICAL)
    with store(between.url, timeout_s=2) as tier:
        between.cut = 0.1
        good = 0
        for _ in range(30):
            put(tier, KEYS)
            good += len(readable(tier, KEYS))
        between.cut = 0
        wait_until(lambda: set(put(tier, KEYS)) == {DONE})

        assert readable(tier, KEYS) == KEYS
        assert between.cuts > 20
        assert good > 20


def test_flipped_bits_never_give_wrong_bytes(between, caplog):
    """In either direction, in values, keys, lengths and answers."""
    caplog.set_level(logging.CRITICAL)
    who = identity(CHUNK_BYTES)
    with store(between.url, who=who, timeout_s=0.3, retries=0, ttl_s=None) as tier:
        between.corrupt = 0.2
        until_s, good = time.monotonic() + 4, 0
        while time.monotonic() < until_s:
            put(tier, KEYS)
            good += len(readable(tier, KEYS))
        between.corrupt = 0
        print(f"{between.flips} bits flipped, {good} chunks good, none wrong")

        assert between.flips > 50
        between.drop()
        wait_until(lambda: DONE in get(tier, KEYS)[0] or DONE in put(tier, KEYS))
        readable(tier, KEYS)


def test_close_during_trouble_is_quick(between):
    """Everything is settled, and no thread stays."""
    before = threading.active_count()
    tier = store(between.url, timeout_s=0.5)
    put(tier, KEYS[:2])
    between.stall = True
    batch = tier.get([(key, memoryview(bytearray(CHUNK_BYTES))) for key in KEYS[:2]])
    started_s = time.monotonic()
    tier.close(5)

    assert time.monotonic() - started_s < 3
    assert set(done(batch)) == {Outcome.TIMEOUT}
    between.stall = False
    between.drop()
    wait_until(lambda: threading.active_count() <= before)
