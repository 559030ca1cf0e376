"""What stands behind host memory: chunks come up from tiers before a hit is answered.

The connector takes a hit for a promise, so a chunk in a tier is *pending* until its bytes are
verified in host memory, and a miss for as long as its retry time when they never get there. Stored
chunks are written through to every tier. Nothing here waits: tiers work in their own threads.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from kvengine.runtime.places import Place
from kvengine.runtime.pool import HostPool
from kvengine.runtime.tiers.base import Batch, Outcome, Tier
from kvengine.runtime.tiers.health import Guarded

__all__ = ["Behind"]

_MISS_FOR_S = 5.0
"""How long a chunk that could not be brought up is a miss: a request goes on without it."""
_REMEMBERED = 100_000
_COUNTS = ("promoted_chunks", "failed_promotions", "demoted_chunks", "refused_demotions")


@frozen(eq=False)
class _Transfer:
    """A batch under way, and the host bytes behind it; scattered chunks pass through a copy."""

    tier: int
    batch: Batch
    up: bool
    keys: tuple[bytes, ...]
    places: tuple[Place, ...]
    copies: tuple[bytearray | None, ...]


class Behind:
    """The tiers behind a pool whose bytes are ``data``. Single owner, as the pool."""

    def __init__(
        self,
        pool: HostPool,
        data: memoryview,
        tiers: Sequence[Tier],
        announced: Collection[int] = (),
    ) -> None:
        self._pool = pool
        self._data = data
        self.tiers = tuple(tiers)
        self.announced = frozenset(announced)
        """The tiers of which it is published what they hold."""
        self.counts = tuple(dict.fromkeys(_COUNTS, 0) for _ in tiers)
        """What became of chunks, per tier."""
        self._wanted: dict[int, dict[bytes, None]] = {}
        self._coming: dict[bytes, set[str]] = {}
        self._transfers: list[_Transfer] = []
        self._misses: OrderedDict[bytes, float] = OrderedDict()
        self._origins: OrderedDict[bytes, int] = OrderedDict()
        self.arrived: list[tuple[bytes, set[str]]] = []
        """Chunks that came up since the last look, pinned once, and who waits for them."""
        self.evicted: list[bytes] = []
        self.written: list[tuple[int, list[bytes]]] = []
        """Chunks that announced tiers took since the last look."""

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._transfers or self._wanted)

    def in_service(self, index: int) -> bool:
        """Whether a tier is in use; a guard takes one out that keeps failing."""
        tier = self.tiers[index]
        return tier.in_service if isinstance(tier, Guarded) else True

    def wait_for(self, key: bytes, request: str) -> None:
        """A request waits for a chunk too, if that comes from a tier."""
        waiting = self._coming.get(key)
        if waiting is not None:
            waiting.add(request)

    def origin(self, key: bytes) -> str | None:
        """The tier that a chunk came up from lately; None when it came from the device."""
        index = self._origins.get(key)
        return None if index is None else self.tiers[index].name

    def find(self, key: bytes, request: str, allowed: Collection[int]) -> bool | None:
        """Whether a chunk that host memory lacks is coming up; None: being found out.

        Begins to bring it up at the next :meth:`start`, from the first tier that has it.
        """
        waiting = self._coming.get(key)
        if waiting is not None:
            waiting.add(request)
            return True
        if self._missed(key):
            return False
        unknown = False
        for index in allowed:
            (found,) = self.tiers[index].exists([key])
            if found:
                self._coming[key] = {request}
                self._wanted.setdefault(index, {})[key] = None
                return True
            unknown |= found is None
        return None if unknown else False

    def start(self) -> None:
        """Begin what :meth:`find` promised since the last call: one batch per tier."""
        wanted, self._wanted = self._wanted, {}
        for index, keys in wanted.items():
            prepared = self._pool.prepare_store(list(keys))
            self.evicted += prepared.evicted
            for key in prepared.present:
                self._coming.pop(key, None)
            for key in prepared.refused:
                self._coming.pop(key, None)
                self._remember_miss(key)
            if not prepared.keys:
                continue
            items, copies = [], []
            for key, place in zip(prepared.keys, prepared.places, strict=True):
                view, copy = self._view(place)
                items.append((key, view))
                copies.append(copy)
            batch = self.tiers[index].get(items)
            self._transfers.append(
                _Transfer(
                    index, batch, True, tuple(prepared.keys), tuple(prepared.places), tuple(copies)
                )
            )

    def write(self, keys: Sequence[bytes]) -> None:
        """Write resident chunks through to every tier; they stay pinned meanwhile."""
        for index, tier in enumerate(self.tiers):
            found = self._pool.prepare_load(keys)
            pinned = [(k, p) for k, p in zip(keys, found, strict=True) if p is not None]
            if not pinned:
                continue
            items, copies = [], []
            for key, place in pinned:
                view, copy = self._view(place)
                if copy is not None:
                    _gather(self._data, place, copy)
                items.append((key, view))
                copies.append(copy)
            self._transfers.append(
                _Transfer(
                    index,
                    tier.put(items),
                    False,
                    tuple(key for key, _ in pinned),
                    tuple(place for _, place in pinned),
                    tuple(copies),
                )
            )

    def poll(self) -> None:
        """Take note of the transfers whose host bytes are nobody's any more."""
        if not self._transfers:
            return
        still = []
        for transfer in self._transfers:
            transfer.batch.expire()
            if not transfer.batch.released:
                still.append(transfer)
            elif transfer.up:
                self._came(transfer)
            else:
                self._went(transfer)
        self._transfers = still

    def forget(self) -> None:
        """The pool was reset: what is coming up is dropped when it arrives."""
        self._wanted.clear()
        self._coming.clear()
        self._misses.clear()

    def close(self, timeout_s: float) -> None:
        """Let tiers finish what they took, at most ``timeout_s`` each, and end them."""
        for tier in self.tiers:
            tier.close(timeout_s)
        self.poll()

    def _came(self, transfer: _Transfer) -> None:
        counts = self.counts[transfer.tier]
        for key, place, copy, outcome in zip(
            transfer.keys, transfer.places, transfer.copies, transfer.batch.outcomes, strict=True
        ):
            good = outcome is Outcome.DONE
            if good and copy is not None:
                _scatter(self._data, place, copy)
            self._pool.complete_store([key], success=good)
            counts["promoted_chunks" if good else "failed_promotions"] += 1
            waiting = self._coming.pop(key, None)
            if not good:
                self._remember_miss(key)
                continue
            self._origins[key] = transfer.tier
            if len(self._origins) > _REMEMBERED:
                self._origins.popitem(last=False)
            if waiting is not None and self._pool.prepare_load([key])[0] is not None:
                self.arrived.append((key, waiting))

    def _went(self, transfer: _Transfer) -> None:
        counts = self.counts[transfer.tier]
        outcomes = zip(transfer.keys, transfer.batch.outcomes, strict=True)
        done = [key for key, outcome in outcomes if outcome is Outcome.DONE]
        counts["demoted_chunks"] += len(done)
        counts["refused_demotions"] += len(transfer.keys) - len(done)
        if done and transfer.tier in self.announced:
            self.written.append((transfer.tier, done))
        self._pool.complete_load(transfer.keys)

    def _view(self, place: Place) -> tuple[memoryview, bytearray | None]:
        """The host bytes of a chunk in one piece: themselves, or memory to copy through."""
        if len(place) == 1:
            start, num_bytes = place[0]
            return self._data[start : start + num_bytes], None
        copy = bytearray(sum(num_bytes for _, num_bytes in place))
        return memoryview(copy), copy

    def _remember_miss(self, key: bytes) -> None:
        self._misses[key] = time.monotonic() + _MISS_FOR_S
        self._misses.move_to_end(key)
        if len(self._misses) > _REMEMBERED:
            self._misses.popitem(last=False)

    def _missed(self, key: bytes) -> bool:
        until_s = self._misses.get(key)
        if until_s is None:
            return False
        if time.monotonic() < until_s:
            return True
        del self._misses[key]
        return False


def _gather(data: memoryview, place: Iterable[tuple[int, int]], copy: bytearray) -> None:
    at = 0
    for start, num_bytes in place:
        copy[at : at + num_bytes] = data[start : start + num_bytes]
        at += num_bytes


def _scatter(data: memoryview, place: Iterable[tuple[int, int]], copy: bytearray) -> None:
    at = 0
    for start, num_bytes in place:
        data[start : start + num_bytes] = memoryview(copy)[at : at + num_bytes]
        at += num_bytes
