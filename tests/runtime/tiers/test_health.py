"""A tier that keeps failing is taken out, said so, probed and taken back (R12, R21)."""

from __future__ import annotations

import logging
import re
import time

import pytest

from kvengine.runtime.tiers.base import Outcome
from kvengine.runtime.tiers.health import Guarded
from tests.runtime.memory_tier import MemoryTier
from tests.runtime.tiers.kit import DONE, MISS, get, key_of, keys_of, put, wait_until

KEYS = keys_of(range(4))


class Sick(MemoryTier):
    """Fails as long as it is ill."""

    def __init__(self) -> None:
        super().__init__()
        self.ill = False
        self.probes = 0

    def put(self, items, timeout_s=None):
        self.bad = {key: Outcome.FAILED for key, _ in items} if self.ill else {}
        return super().put(items, timeout_s)

    def probe(self, timeout_s):
        self.probes += 1
        return not self.ill


@pytest.fixture
def sick():
    return Sick()


def test_trouble_in_a_row_takes_it_out_and_a_probe_brings_it_back(sick, caplog):
    """Out: puts are refused, gets miss, at once; log and stats say so; back: all is well."""
    caplog.set_level(logging.WARNING)
    with Guarded(sick, most_failures=4, pause_s=0.05) as tier:
        put(tier, KEYS[:1])
        sick.ill = True
        assert put(tier, KEYS) == (Outcome.FAILED,) * 4

        assert not tier.in_service
        assert put(tier, KEYS) == (Outcome.REFUSED,) * 4
        assert get(tier, KEYS[:1])[0] == (MISS,)
        assert tier.exists(KEYS[:1]) == [False]
        assert tier.resolve(KEYS[:1], 1) == [False]
        assert (tier.stats().in_service, tier.stats().outages) == (False, 1)
        wait_until(lambda: sick.probes > 1)
        sick.ill = False
        wait_until(lambda: tier.in_service)
        assert put(tier, KEYS) == (DONE,) * 4
        assert tier.stats().in_service
    assert [re.sub(r"\d+\.\d s", "N s", message) for message in caplog.messages] == [
        "tier memory is out of service: 4 chunks failed one after the other, the last as failed",
        "tier memory is back in service after N s",
    ]


def test_a_good_chunk_between_failures_keeps_it_in(sick):
    """Only trouble without pause counts."""
    with Guarded(sick, most_failures=4) as tier:
        for _ in range(5):
            sick.ill = True
            put(tier, KEYS[:3])
            sick.ill = False
            put(tier, KEYS[:1])

        assert tier.in_service


def test_misses_and_refusals_are_no_trouble(sick):
    """A tier that is empty or full works."""
    with Guarded(sick, most_failures=2) as tier:
        for number in range(10):
            get(tier, [key_of(number)])

        assert tier.in_service


def test_probes_come_ever_more_rarely(sick):
    """A dead device is not hammered."""
    sick.ill = True
    with Guarded(sick, most_failures=1, pause_s=0.02) as tier:
        put(tier, KEYS[:1])
        time.sleep(0.2)

        assert 1 <= sick.probes <= 4


def test_close_ends_the_probing(sick):
    """Also while it is out."""
    sick.ill = True
    tier = Guarded(sick, most_failures=1, pause_s=30)
    put(tier, KEYS[:1])
    started_s = time.monotonic()
    tier.close()

    assert time.monotonic() - started_s < 5
    assert sick.closed
