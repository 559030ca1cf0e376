"""Log lines about trouble that comes in thousands: the first of a kind at once, then a summary."""

from __future__ import annotations

import logging
import threading
import time

__all__ = ["Complaints"]


class Complaints:
    """Warns about each kind of trouble at most every ``every_s`` seconds. Thread-safe."""

    def __init__(self, log: logging.Logger, every_s: float = 30.0) -> None:
        self._log = log
        self._every_s = every_s
        self._last_s: dict[str, float] = {}
        self._held_back: dict[str, int] = {}
        self._lock = threading.Lock()

    def say(self, kind: str, message: str, *args: object) -> None:
        """Log ``message % args``, with how many of this kind were held back before it."""
        now_s = time.monotonic()
        with self._lock:
            last_s = self._last_s.get(kind)
            if last_s is not None and now_s - last_s < self._every_s:
                self._held_back[kind] = self._held_back.get(kind, 0) + 1
                return
            self._last_s[kind] = now_s
            more = self._held_back.pop(kind, 0)
        if more:
            message += f" (and {more} more of the kind before)"
        self._log.warning(message, *args)
