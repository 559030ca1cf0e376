"""What a tier counts while it works."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from kvengine.runtime.tiers.base import TierStats

__all__ = ["Tally"]


class Tally:
    """Counters of one tier. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._seconds = {"store_seconds": 0.0, "load_seconds": 0.0}
        self._lock = threading.Lock()

    def stored(self, chunks: int, num_bytes: int, seconds: float) -> None:
        """Chunks that were written."""
        with self._lock:
            self._counts["stores"] += chunks
            self._counts["stored_bytes"] += num_bytes
            self._seconds["store_seconds"] += seconds

    def loaded(self, chunks: int, num_bytes: int, seconds: float) -> None:
        """Chunks that were read and found good."""
        with self._lock:
            self._counts["hits"] += chunks
            self._counts["loaded_bytes"] += num_bytes
            self._seconds["load_seconds"] += seconds

    def missed(self, chunks: int) -> None:
        """Chunks that were asked for and not there."""
        with self._lock:
            self._counts["misses"] += chunks

    def failed(self, kind: str, chunks: int = 1) -> None:
        """Chunks that something went wrong with."""
        with self._lock:
            self._failures[kind] += chunks

    def stats(self, **gauges: Any) -> TierStats:
        """The counters so far, with gauges that only the tier knows."""
        with self._lock:
            counts: dict[str, Any] = {**self._counts, **self._seconds}
            failures = dict(self._failures)
        return TierStats(name=self._name, failures=failures, **counts, **gauges)
