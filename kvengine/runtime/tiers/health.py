"""A tier that keeps failing is taken out of service, said so, probed, and taken back (case R12)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from attrs import evolve

from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier, TierStats

__all__ = ["Guarded"]

_log = logging.getLogger(__name__)
_TROUBLE = {Outcome.FAILED, Outcome.TIMEOUT, Outcome.CORRUPT}
_LONGEST_PAUSE_S = 60.0


class Guarded(Tier):
    """Another tier, left alone while it does not work.

    ``most_failures`` chunks in trouble without a good one between them take it out; then puts are
    ``REFUSED`` and gets ``MISS`` at once. A probe is tried after ``pause_s``, then after twice as
    long, up to a minute; when one succeeds the tier is back.
    """

    def __init__(
        self,
        tier: Tier,
        *,
        most_failures: int = 8,
        pause_s: float = 2.0,
        probe_timeout_s: float = 5.0,
    ) -> None:
        self.name = tier.name
        self._tier = tier
        self._most_failures = most_failures
        self._first_pause_s = pause_s
        self._probe_timeout_s = probe_timeout_s
        self._failures = 0
        self._out = False
        self._outages = 0
        self._out_since_s = 0.0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._prober: threading.Thread | None = None

    @property
    def in_service(self) -> bool:
        """Whether the tier is being used."""
        return not self._out

    def exists(self, keys: Sequence[bytes]) -> list[bool | None]:
        """As the tier says; nothing while it is out."""
        return [False] * len(keys) if self._out else self._tier.exists(keys)

    def resolve(self, keys: Sequence[bytes], timeout_s: float) -> list[bool]:
        """As the tier says; nothing while it is out."""
        return [False] * len(keys) if self._out else self._tier.resolve(keys, timeout_s)

    def put(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """As the tier does; ``REFUSED`` while it is out."""
        if self._out:
            return _settled(items, Outcome.REFUSED)
        batch = self._tier.put(items, timeout_s)
        batch.when_done(self._judge)
        return batch

    def get(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """As the tier does; ``MISS`` while it is out."""
        if self._out:
            return _settled(items, Outcome.MISS)
        batch = self._tier.get(items, timeout_s)
        batch.when_done(self._judge)
        return batch

    def delete(self, keys: Sequence[bytes]) -> None:
        """As the tier does, in service or not."""
        self._tier.delete(keys)

    def stats(self) -> TierStats:
        """As the tier says, and whether it is in service."""
        stats = self._tier.stats()
        return evolve(stats, in_service=stats.in_service and not self._out, outages=self._outages)

    def probe(self, timeout_s: float) -> bool:
        """As the tier says."""
        return self._tier.probe(timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """End probing and close the tier."""
        self._closing.set()
        if self._prober is not None:
            self._prober.join(timeout_s)
        self._tier.close(timeout_s)

    def _judge(self, batch: Batch) -> None:
        outcomes = batch.outcomes
        good = any(outcome is Outcome.DONE for outcome in outcomes)
        bad = sum(outcome in _TROUBLE for outcome in outcomes)
        if not bad and not (good and self._failures):
            return
        with self._lock:
            self._failures = 0 if good else self._failures + bad
            if self._failures < self._most_failures or self._out or self._closing.is_set():
                return
            self._out = True
            self._outages += 1
            self._out_since_s = time.monotonic()
            self._prober = threading.Thread(
                target=self._probe_until_well, name=f"{self.name}-prober", daemon=True
            )
        _log.error(
            "tier %s is out of service: %d chunks failed one after the other, the last as %s",
            self.name,
            self._failures,
            next(outcome.value for outcome in reversed(outcomes) if outcome in _TROUBLE),
        )
        self._prober.start()

    def _probe_until_well(self) -> None:
        pause_s = self._first_pause_s
        while not self._closing.wait(pause_s):
            if self._tier.probe(self._probe_timeout_s):
                with self._lock:
                    self._failures = 0
                    self._out = False
                out_s = time.monotonic() - self._out_since_s
                _log.warning("tier %s is back in service after %.1f s", self.name, out_s)
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _settled(items: Sequence[Item], outcome: Outcome) -> Batch:
    batch = Batch([key for key, _ in items], 0.0)
    batch.settle_all(outcome)
    return batch
