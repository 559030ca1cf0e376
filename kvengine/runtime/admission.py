"""Which chunks are worth a place: those that were offered often enough."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Admission"]


class Admission:
    """Counts how often each absent chunk was offered, for the last ``memory`` different keys.

    A chunk is let in at its ``threshold``-th offer (vLLM's ``store_threshold``); 0 and 1 let
    everything in and count nothing.
    """

    def __init__(self, threshold: int = 0, memory: int = 64_000) -> None:
        if threshold < 0 or memory < 1:
            raise ValueError("a store threshold is at least 0, its memory at least 1 key")
        self.threshold = threshold
        self.memory = memory
        self._offers: OrderedDict[bytes, int] = OrderedDict()

    @property
    def open(self) -> bool:
        """Whether everything is let in."""
        return self.threshold < 2

    def admits(self, key: bytes) -> bool:
        """Count one offer of ``key``; whether that was enough."""
        if self.open:
            return True
        offers = self._offers.pop(key, 0) + 1
        if offers >= self.threshold:
            return True
        self._offers[key] = offers
        if len(self._offers) > self.memory:
            self._offers.popitem(last=False)
        return False
