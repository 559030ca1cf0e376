"""What was learnt lately about which chunks a store holds; it is never asked twice in a moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence

__all__ = ["Presence"]


class Presence:
    """Answers what it was told for ``good_s`` seconds, of ``most`` keys. Thread-safe."""

    def __init__(self, good_s: float, most: int = 200_000) -> None:
        self._good_s = good_s
        self._most = most
        self._known: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._asked: set[bytes] = set()
        self._lock = threading.Lock()

    def look(self, keys: Sequence[bytes], absent_good_s: float = 0.0) -> list[bool | None]:
        """What is known of each key; None if nothing is, or not lately.

        ``absent_good_s`` is how long it is good to know that a key is not there, if that is longer.
        """
        now_s = time.monotonic()
        since_s = {True: now_s - self._good_s, False: now_s - max(self._good_s, absent_good_s)}
        known = self._known.get
        return [
            found[0] if (found := known(key)) is not None and found[1] > since_s[found[0]] else None
            for key in keys
        ]

    def ask(self, keys: Iterable[bytes]) -> list[bytes]:
        """The keys that somebody has to ask the store about: those that nobody is asking now."""
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self._asked]
            self._asked.update(new)
        return new

    def asked(self, keys: Iterable[bytes]) -> None:
        """Asking about keys is over, with or without an answer."""
        with self._lock:
            self._asked.difference_update(keys)

    def learn(self, keys: Iterable[bytes], present: bool) -> None:
        """Keys are in the store, or are not."""
        now_s = time.monotonic()
        with self._lock:
            for key in keys:
                self._known[key] = (present, now_s)
                self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def forget(self) -> None:
        """Know nothing."""
        with self._lock:
            self._known.clear()
