"""The shared store as a tier: batches in, threads with a connection each, outcomes out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    OutOfMemoryError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as TooLate

from kvengine.config.tiers.own import ValkeyOptions
from kvengine.plan.tiers import STORE_PART_BYTES
from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier, TierError, TierStats
from kvengine.runtime.tiers.complaints import Complaints
from kvengine.runtime.tiers.identity import Identity
from kvengine.runtime.tiers.tally import Tally
from kvengine.runtime.tiers.valkey.address import urls_of
from kvengine.runtime.tiers.valkey.connect import connect
from kvengine.runtime.tiers.valkey.parts import Sealed
from kvengine.runtime.tiers.valkey.presence import Presence
from kvengine.runtime.tiers.valkey.sockets import Sockets
from kvengine.runtime.tiers.valkey.store import Store
from kvengine.runtime.tiers.work import Part, Workers
from kvengine.units import ceil_div

__all__ = ["ValkeyTier"]

_log = logging.getLogger(__name__)
_CALL_BYTES = 512 << 10  # larger calls keep client and server waiting for each other
_ALONE_BYTES = 4 << 20  # puts of a single thread: the server takes one while the next is sent
_CALL_CHUNKS = 256
_BACKOFF_S = 0.02
_ABSENT_S = 60.0  # a put of what was absent so lately is sent without asking again
_AGAIN = (LostConnection, TooLate, BusyLoadingError, ClusterDownError, TryAgainError)
_NEVER_AGAIN = (AuthenticationError, AuthorizationError)
Answer = TypeVar("Answer")
Chunk = tuple[int, bytes, memoryview]


class ValkeyTier(Tier):
    """Chunks in a store that other engines use too: those of equal identity share them.

    Opening raises TierError for options that cannot work; a store that does not answer is no
    error, for it may come back.
    """

    def __init__(self, options: ValkeyOptions, identity: Identity, *, name: str = "valkey") -> None:
        self.name = name
        self._options = options
        self._space = f"{options.prefix}:{identity.digest}"
        self._chunk_bytes = identity.chunk_bytes
        self._tally = Tally(name)
        self._complaints = Complaints(_log)
        self._presence = Presence(options.presence_s)
        self._sockets = Sockets()
        self._store: Store | None = None
        self._connecting = threading.Lock()
        self._closed = False
        try:
            self._connected()
        except RedisError as error:
            _log.warning("%s: no store yet (%s)", urls_of(options)[0], error)
        self._put_bytes = _ALONE_BYTES if options.threads == 1 else _CALL_BYTES
        self._workers = Workers(
            name,
            loaders=options.threads + 1,
            storers=options.threads,
            queue_bytes=options.queue_bytes,
            # In a cluster each chunk is asked for by itself, and nodes fail one by one.
            loads_together_bytes=0 if options.cluster else _CALL_BYTES,
            stores_together_bytes=0 if options.cluster else self._put_bytes,
        )

    def exists(self, keys: Sequence[bytes]) -> list[bool | None]:
        """What was learnt lately; unknown keys (None) are being asked about in the background."""
        known = self._presence.look(keys)
        unknown = [key for key, found in zip(keys, known, strict=True) if found is None]
        asking = self._presence.ask(unknown) if unknown else []
        if asking:
            batch = Batch(asking, self._options.timeout_s)
            batch.when_done(lambda batch: self._presence.asked(batch.keys))
            self._workers.watch(batch)
            self._workers.load([Part(batch, range(len(asking)), 0, self._learn)])
        return known

    def resolve(self, keys: Sequence[bytes], timeout_s: float) -> list[bool]:
        """Ask the store about what is not known, in one round trip."""
        known = self._presence.look(keys)
        unknown = [key for key, found in zip(keys, known, strict=True) if found is None]
        if unknown and not self._closed:
            self._learn([Part(Batch(unknown, timeout_s), range(len(unknown)), 0, self._learn)])
            known = self._presence.look(keys)
        return [bool(found) for found in known]

    def put(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Store chunks; those known to be there are not sent again."""
        batch = self._batch(items, timeout_s)
        known = self._presence.look(batch.keys)
        batch.settle_many([i for i, found in enumerate(known) if found], Outcome.DONE)
        chunks = [
            (index, key, view)
            for index, (key, view) in enumerate(items)
            if not known[index] and self._fits(batch, index, key, view)
        ]
        if chunks:
            self._workers.watch(batch)
            groups = self._groups(chunks, self._put_bytes)
            self._workers.store([_part(batch, some, self._put) for some in groups])
        return batch

    def get(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Read chunks; each lands in its buffer straight from the socket."""
        batch = self._batch(items, timeout_s)
        chunks = [
            (index, key, view)
            for index, (key, view) in enumerate(items)
            if self._fits(batch, index, key, view)
        ]
        if chunks:
            self._workers.watch(batch)
            groups = self._groups(chunks, _CALL_BYTES)
            self._workers.load([_part(batch, some, self._get) for some in groups])
        return batch

    def delete(self, keys: Sequence[bytes]) -> None:
        """Remove chunks from the store, for every engine."""
        self._presence.learn(keys, present=False)
        batch = Batch(keys, self._options.timeout_s)
        self._workers.watch(batch)
        self._workers.store([Part(batch, range(len(keys)), 0, self._delete)])

    def stats(self) -> TierStats:
        """Counters; what the store holds altogether is not known here."""
        return self._tally.stats(queued_bytes=self._workers.queued_bytes)

    def probe(self, timeout_s: float) -> bool:
        """Whether the store takes a value and gives it back."""
        until_s = time.monotonic() + timeout_s
        try:
            return self._attempt(lambda store: store.works(until_s), until_s)
        except (RedisError, OSError):
            return False

    def close(self, timeout_s: float = 10.0) -> None:
        """Finish what is queued within ``timeout_s`` and close the connections."""
        if self._closed:
            return
        self._closed = True
        self._workers.close(timeout_s)
        self._sockets.close()

    def _batch(self, items: Sequence[Item], timeout_s: float | None) -> Batch:
        default_s = self._options.timeout_s
        batch = Batch([key for key, _ in items], default_s if timeout_s is None else timeout_s)
        if self._closed:
            batch.settle_all(Outcome.REFUSED)
        return batch

    def _fits(self, batch: Batch, index: int, key: bytes, view: memoryview) -> bool:
        """Whether a chunk has the length that its group's chunks have; settles it if not."""
        group = int.from_bytes(key[-4:], "big")
        if group < len(self._chunk_bytes) and view.nbytes == self._chunk_bytes[group]:
            return True
        batch.settle(index, Outcome.REFUSED)
        self._complaints.say(
            "unfit", "%s: a chunk of group %d has %d bytes", self.name, group, view.nbytes
        )
        return False

    def _num_parts(self, keys: Sequence[bytes]) -> list[int]:
        groups = [int.from_bytes(key[-4:], "big") for key in keys]
        sizes = self._chunk_bytes
        return [ceil_div(sizes[g], STORE_PART_BYTES) if g < len(sizes) else 1 for g in groups]

    def _groups(self, chunks: Sequence[Chunk], most_bytes: int) -> Iterator[list[Chunk]]:
        total = sum(view.nbytes for _, _, view in chunks)
        return _groups(chunks, min(most_bytes, ceil_div(total, self._options.threads)))

    def _put(self, parts: Sequence[Part]) -> None:
        started_s = time.perf_counter()
        items = [item for part in parts for item in part.items]
        keys = [key for key, _ in items]

        def put(store: Store, until_s: float) -> list[int]:
            unknown = any(found is None for found in self._presence.look(keys, _ABSENT_S))
            there = [False] * len(keys)
            if unknown:
                there = store.present(keys, self._num_parts(keys), until_s)
            new = [item for item, found in zip(items, there, strict=True) if not found]
            if new:
                # Computed just before they are sent: the bytes then come from the cache.
                store.put([Sealed.of(key, view) for key, view in new], until_s)
            return [len(view) for _, view in new]

        written_bytes = self._settled(parts, put)
        if written_bytes is not None:
            self._presence.learn(keys, present=True)
            seconds = time.perf_counter() - started_s
            self._tally.stored(len(written_bytes), sum(written_bytes), seconds)
            for part in parts:
                part.batch.settle_many(part.indices, Outcome.DONE)

    def _get(self, parts: Sequence[Part]) -> None:
        started_s = time.perf_counter()
        chunks = [
            (part.batch, index, key, view)
            for part in parts
            for index, (key, view) in zip(part.indices, part.items, strict=True)
        ]
        items = [(key, view) for _, _, key, view in chunks]
        found = self._settled(parts, lambda store, until_s: store.get(items, until_s))
        if found is None:
            self._presence.learn([key for key, _ in items], present=False)
            return
        loaded_bytes = 0
        for (batch, index, key, view), good in zip(chunks, found, strict=True):
            self._presence.learn([key], present=bool(good))
            if good:
                loaded_bytes += len(view)
                batch.settle(index, Outcome.DONE)
            elif good is None:
                self._tally.missed(1)
                batch.settle(index, Outcome.MISS)
            else:
                self._tally.failed(Outcome.CORRUPT.value)
                self._complaints.say("corrupt", "%s: a value is not what was stored", self.name)
                batch.settle(index, Outcome.CORRUPT)
        loaded = sum(bool(good) for good in found)
        self._tally.loaded(loaded, loaded_bytes, time.perf_counter() - started_s)

    def _learn(self, parts: Sequence[Part]) -> None:
        keys = [key for part in parts for key in part.batch.keys]
        num_parts = self._num_parts(keys)
        found = self._settled(parts, lambda store, until_s: store.present(keys, num_parts, until_s))
        if found is None:
            self._presence.learn(keys, present=False)
            return
        pairs = list(zip(keys, found, strict=True))
        self._presence.learn([key for key, there in pairs if there], present=True)
        self._presence.learn([key for key, there in pairs if not there], present=False)
        for part in parts:
            part.batch.settle_all(Outcome.DONE)

    def _delete(self, parts: Sequence[Part]) -> None:
        keys = [key for part in parts for key in part.batch.keys]
        num_parts = self._num_parts(keys)
        self._settled(parts, lambda store, until_s: store.delete(keys, num_parts, until_s))

    def _settled(
        self, parts: Sequence[Part], ask: Callable[[Store, float], Answer]
    ) -> Answer | None:
        """The answer; or None when there is none, and the outcomes of the parts say why."""
        # A batch whose own deadline is earlier is done by then all the same: see ``Deadlines``.
        until_s = max(part.batch.deadline_s for part in parts)
        try:
            return self._attempt(lambda store: ask(store, until_s), until_s)
        except OutOfMemoryError:
            kind, outcome = "OOM", Outcome.REFUSED
            self._complaints.say(kind, "%s: the store is full and does not evict", self.name)
        except (RedisError, OSError, TierError) as error:
            late = time.monotonic() >= until_s
            kind, outcome = type(error).__name__, Outcome.TIMEOUT if late else Outcome.FAILED
            self._complaints.say(kind, "%s: %s: %s", self.name, kind, error)
        for part in parts:
            self._tally.failed(kind, len(part.indices))
            part.batch.settle_many(part.indices, outcome)
        return None

    def _attempt(self, ask: Callable[[Store], Answer], until_s: float) -> Answer:
        """Ask, and again after a failure that may pass, while there are tries and time left."""
        tries = 0
        while True:
            try:
                return ask(self._connected())
            except _NEVER_AGAIN:
                raise
            except _AGAIN:
                pause_s = _BACKOFF_S * 2**tries
                if tries >= self._options.retries or time.monotonic() + pause_s >= until_s:
                    raise
            tries += 1
            time.sleep(pause_s)

    def _connected(self) -> Store:
        with self._connecting:
            if self._store is None:
                options = self._options
                try:
                    client = connect(options, self._sockets)
                except RedisClusterException as error:
                    raise LostConnection(str(error)) from error
                self._store = Store(
                    client,
                    self._space,
                    cluster=options.cluster,
                    ttl_s=options.ttl_s,
                    threads=options.threads,
                )
            return self._store


def _part(batch: Batch, chunks: Sequence[Chunk], run: Callable[[Sequence[Part]], None]) -> Part:
    indices = [index for index, _, _ in chunks]
    items = [(key, view.cast("B")) for _, key, view in chunks]
    return Part(batch, indices, sum(len(view) for _, view in items), run, items)


def _groups(chunks: Sequence[Chunk], most_bytes: int) -> Iterator[list[Chunk]]:
    """Chunks in groups that are sent or asked for together."""
    group: list[Chunk] = []
    group_bytes = 0
    for chunk in chunks:
        full = group_bytes + chunk[2].nbytes > most_bytes or len(group) == _CALL_CHUNKS
        if group and full:
            yield group
            group, group_bytes = [], 0
        group.append(chunk)
        group_bytes += chunk[2].nbytes
    if group:
        yield group
