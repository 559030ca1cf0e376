"""Which chunk lies where: the index in memory, rebuilt from the segments at every start."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from attrs import define

from kvengine.runtime.tiers.disk.format import Entry
from kvengine.runtime.tiers.disk.segment import Segment

__all__ = ["Catalog", "Place"]


@define(eq=False)
class Place:
    """Where one chunk lies, and whether anybody wanted it since it was put there."""

    segment: Segment
    entry: Entry
    wanted: bool = False


class Catalog:
    """Keys and their places. Thread-safe; no method does I/O."""

    def __init__(self) -> None:
        self._places: dict[bytes, Place] = {}
        self._payload_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all chunks that can be found."""
        return self._payload_bytes

    def has(self, keys: Sequence[bytes]) -> list[bool | None]:
        """Whether each key has a place."""
        places = self._places
        return [key in places for key in keys]

    def find(self, keys: Sequence[bytes]) -> list[Place | None]:
        """The place of each key, marked as wanted."""
        with self._lock:
            places = [self._places.get(key) for key in keys]
        for place in places:
            if place is not None:
                place.wanted = True
        return places

    def add(self, segment: Segment, entries: Iterable[Entry]) -> None:
        """Let entries of a segment be found; the last word on a key counts."""
        with self._lock:
            for entry in entries:
                if entry.length:
                    self._set(entry.key, Place(segment, entry))
                else:
                    self._pop(entry.key)

    def add_missing(self, segment: Segment, entries: Iterable[Entry]) -> None:
        """Let those entries be found whose keys have no place yet; another process wrote them."""
        latest = {entry.key: entry for entry in entries}
        with self._lock:
            for key, entry in latest.items():
                if entry.length and key not in self._places:
                    self._set(key, Place(segment, entry))

    def move(self, place: Place, segment: Segment, entry: Entry) -> bool:
        """Let a chunk be found at its new place; False if it was deleted in the meantime."""
        with self._lock:
            current = self._places.get(entry.key)
            if current is place:
                self._set(entry.key, Place(segment, entry))
            return current is not None

    def drop(self, place: Place) -> bool:
        """Forget a place, unless its key has found a better one by now: then False."""
        with self._lock:
            current = self._places.get(place.entry.key) is place
            return current and self._pop(place.entry.key)

    def delete(self, keys: Iterable[bytes]) -> list[bytes]:
        """Forget keys; those that had a place."""
        with self._lock:
            return [key for key in keys if self._pop(key)]

    def drop_segment(self, segment: Segment) -> int:
        """Forget everything that lies in a segment; how many chunks that was."""
        with self._lock:
            places = self._in(segment)
            for place in places:
                self._pop(place.entry.key)
        return len(places)

    def wanted_in(self, segment: Segment) -> list[Place]:
        """The places in a segment that somebody asked for since they were written there."""
        with self._lock:
            return [place for place in self._in(segment) if place.wanted]

    def _in(self, segment: Segment) -> list[Place]:
        found = (self._places.get(entry.key) for entry in segment.entries)
        places = {id(p): p for p in found if p is not None and p.segment is segment}
        return list(places.values())

    def _set(self, key: bytes, place: Place) -> None:
        old = self._places.get(key)
        self._payload_bytes += place.entry.length - (old.entry.length if old else 0)
        self._places[key] = place

    def _pop(self, key: bytes) -> bool:
        place = self._places.pop(key, None)
        if place is None:
            return False
        self._payload_bytes -= place.entry.length
        return True
