"""Between host memory and the tiers behind it: chunks are passed on, and fetched back.

Every chunk goes through its place in host memory. A place that a tier reads or fills stays taken
until the tier has let go of it, which can be later than the outcome (case R01).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from kvengine.runtime.memory import HostMemory
from kvengine.runtime.places import Place
from kvengine.runtime.pool import Found, HostPool
from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier

__all__ = ["Gateway"]

Then = Callable[[list[Outcome]], None]
"""Called once, with the engine's lock held, when every outcome of a fetch is known."""

_FAILED_KEYS = 1 << 16
_LOW_SHARE = 8
_BATCH_CHUNKS = 64


class Gateway:
    """The tiers behind one pool, nearest first. ``lock`` is the engine's, and reentrant.

    Tiers are called without the lock, for they may answer on the spot.
    """

    def __init__(
        self,
        pool: HostPool,
        memory: HostMemory,
        tiers: Sequence[Tier],
        lock: threading.RLock,
        *,
        late: bool = False,
    ) -> None:
        self.tiers = tuple(tiers)
        self.promoted = 0
        self.demoted = 0
        self._pool = pool
        self._memory = memory
        self._lock = lock
        self._late = late
        self._closed = False
        self._waiting: dict[bytes, list[Callable[[Outcome], None]]] = {}
        self._open: set[Batch] = set()
        # Chunks that failed to come are not asked for again until they are stored anew (R19).
        self._failed: OrderedDict[bytes, None] = OrderedDict()

    def look_behind(self, keys: Sequence[bytes], found: list[Found]) -> None:
        """Replace each ``MISS`` for which a tier behind answers better."""
        absent = [index for index, what in enumerate(found) if what is Found.MISS]
        for tier in self.tiers:
            if not absent:
                return
            asked = [index for index in absent if keys[index] not in self._failed]
            absent = []
            for index, there in zip(asked, tier.exists([keys[i] for i in asked]), strict=True):
                if there is False:
                    absent.append(index)
                else:
                    found[index] = Found.BEHIND if there else Found.PENDING

    def fetch(self, keys: Sequence[bytes], then: Then) -> None:
        """Bring chunks into host memory; they are resident when ``then`` says ``DONE``."""
        gather = _Gather(len(keys), then)
        homes = self._homes(keys)
        wanted: dict[Tier, list[bytes]] = {}
        with self._lock:
            for index, key in enumerate(keys):
                arrived = gather.slot(index)
                tier = homes.get(key)
                if self._pool.lookup_one(key) is Found.HIT:
                    arrived(Outcome.DONE)
                elif key in self._waiting:
                    self._waiting[key].append(arrived)
                elif tier is None or self._closed:
                    arrived(Outcome.MISS if tier is None else Outcome.REFUSED)
                else:
                    self._waiting[key] = [arrived]
                    wanted.setdefault(tier, []).append(key)
        for tier, some in wanted.items():
            self._get(tier, some)

    def pass_on(self, keys: Sequence[bytes]) -> None:
        """Chunks have been stored: give them to the tiers behind, now or when space runs low."""
        if not self.tiers or self._closed:
            return
        with self._lock:
            for key in keys:
                self._failed.pop(key, None)
            if self._late:
                places = self._pool.yield_places(_LOW_SHARE, _BATCH_CHUNKS)
            else:
                found = self._pool.prepare_load(keys)
                places = [(k, p) for k, p in zip(keys, found, strict=True) if p is not None]
        if places:
            self._put(places)

    def poll(self) -> None:
        """Let deadlines pass."""
        for batch in list(self._open):
            batch.expire()

    def close(self) -> None:
        """Close the tiers; what they have not brought by then is ``REFUSED``."""
        self._closed = True
        for tier in self.tiers:
            tier.close()
        self.poll()

    def _homes(self, keys: Sequence[bytes]) -> dict[bytes, Tier]:
        """The nearest tier that may have each chunk."""
        homes: dict[bytes, Tier] = {}
        for tier in self.tiers:
            asked = [key for key in keys if key not in homes and key not in self._failed]
            for key, there in zip(asked, tier.exists(asked) if asked else (), strict=True):
                if there is not False:
                    homes[key] = tier
        return homes

    def _get(self, tier: Tier, keys: Sequence[bytes]) -> None:
        with self._lock:
            prepared = self._pool.prepare_store(keys, admit_all=True)
            refused = [*prepared.present, *prepared.refused]
            self._arrive(refused, Outcome.REFUSED)
        if not prepared.keys:
            return
        items = [
            (key, self._bytes(place))
            for key, place in zip(prepared.keys, prepared.places, strict=True)
        ]
        batch = tier.get(items)
        self._track(batch)
        places = prepared.places
        batch.when_done(lambda done: self._got(done, items, places))
        batch.when_released(self._let_go_of_filled)

    def _got(self, batch: Batch, items: Sequence[Item], places: Sequence[Place]) -> None:
        with self._lock:
            for (key, data), place, outcome in zip(items, places, batch.outcomes, strict=True):
                if outcome is Outcome.DONE:
                    self._spread(data, place)
                    self._pool.complete_store([key], pin=True)  # until the tier lets go
                    self.promoted += 1
                else:
                    self._pool.discard([key])  # a miss now; its place comes back when let go
                    self._failed[key] = None
                    if len(self._failed) > _FAILED_KEYS:
                        self._failed.popitem(last=False)
                self._arrive([key], outcome)

    def _let_go_of_filled(self, batch: Batch) -> None:
        with self._lock:
            for key, outcome in zip(batch.keys, batch.outcomes, strict=True):
                if outcome is Outcome.DONE:
                    self._pool.complete_load([key])
                else:
                    self._pool.complete_store([key], success=False)
            self._open.discard(batch)

    def _put(self, places: Sequence[tuple[bytes, Place]]) -> None:
        items = [(key, self._bytes(place)) for key, place in places]
        count = _Countdown(len(self.tiers), lambda: self._let_go_of_read(places))
        for tier in self.tiers:
            batch = tier.put(items)
            self._track(batch)
            batch.when_released(count.down)

    def _let_go_of_read(self, places: Sequence[tuple[bytes, Place]]) -> None:
        keys = [key for key, _ in places]
        with self._lock:
            if self._late:
                self._pool.retire(keys)
            else:
                self._pool.complete_load(keys)
            self.demoted += len(keys)
            self._open = {batch for batch in self._open if not batch.released}

    def _track(self, batch: Batch) -> None:
        with self._lock:
            self._open.add(batch)

    def _arrive(self, keys: Sequence[bytes], outcome: Outcome) -> None:
        for key in keys:
            for arrived in self._waiting.pop(key, ()):
                arrived(outcome)

    def _bytes(self, place: Place) -> memoryview:
        """The bytes of a place; of one with several runs a copy that ``_spread`` brings home."""
        if len(place) == 1:
            return self._memory.view(*place[0])
        return memoryview(bytearray().join(self._memory.view(*run) for run in place))

    def _spread(self, data: memoryview, place: Place) -> None:
        if len(place) == 1:
            return
        start = 0
        for run_start, num_bytes in place:
            self._memory.view(run_start, num_bytes)[:] = data[start : start + num_bytes]
            start += num_bytes


class _Gather:
    """Outcomes that come one by one, in any order; the last one calls ``then``."""

    def __init__(self, count: int, then: Then) -> None:
        self._outcomes = [Outcome.MISS] * count
        self._left = count
        self._then = then

    def slot(self, index: int) -> Callable[[Outcome], None]:
        def arrived(outcome: Outcome) -> None:
            self._outcomes[index] = outcome
            self._left -= 1
            if not self._left:
                self._then(self._outcomes)

        return arrived


class _Countdown:
    """Calls ``zero`` when ``down`` was called ``count`` times, from any thread."""

    def __init__(self, count: int, zero: Callable[[], None]) -> None:
        self._left = count
        self._zero = zero
        self._lock = threading.Lock()

    def down(self, batch: Batch) -> None:
        with self._lock:
            self._left -= 1
            left = self._left
        if not left:
            self._zero()
