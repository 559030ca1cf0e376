"""The disk tier: batches in, threads that read and write segments, outcomes out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kvengine.config.tiers.own import DiskOptions
from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier, TierError, TierStats
from kvengine.runtime.tiers.complaints import Complaints
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES, MAX_KEY_BYTES
from kvengine.runtime.tiers.disk.journal import NoRoom
from kvengine.runtime.tiers.disk.mount import Mount
from kvengine.runtime.tiers.disk.probe import probe_direct
from kvengine.runtime.tiers.disk.reader import Want, runs
from kvengine.runtime.tiers.disk.segment import extent_bytes
from kvengine.runtime.tiers.disk.writer import Pending, Put, PutExtent, extents
from kvengine.runtime.tiers.identity import Identity
from kvengine.runtime.tiers.tally import Tally
from kvengine.runtime.tiers.work import Part, Workers
from kvengine.units import ceil_div

__all__ = ["DiskTier"]

_log = logging.getLogger(__name__)
_LEAST_CALL_BYTES = 512 << 10
_MOST_CALL_BYTES = 8 << 20
_NOTHING = memoryview(b"")


class DiskTier(Tier):
    """Chunks in segments below a directory; ``options`` say where and how much.

    Opening raises TierError; it loads the index of what is there already. Other processes may use
    the same directory at the same time: each has a lane of its own, those of equal identity read
    each other's chunks, and the limit is one for all.
    """

    def __init__(
        self,
        options: DiskOptions,
        identity: Identity,
        *,
        name: str = "fs",
        files: Files | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._identity = identity
        self._files = files or Files()
        self._tally = Tally(name)
        self._complaints = Complaints(_log)
        self._pending = Pending()
        self._wake = threading.Event()
        self._mount: Mount | None = self._open()
        self._device_id = self._mount.device_id
        self._lost: list[Mount] = []
        self._workers = Workers(
            name,
            loaders=options.n_read_threads + 1,
            storers=options.n_write_threads,
            queue_bytes=options.queue_bytes,
            ahead=True,
        )
        self._closing = False
        self._tend_s = 0.0
        self._keeper = threading.Thread(target=self._keep, name=f"{name}-keeper", daemon=True)
        self._keeper.start()

    def exists(self, keys: Sequence[bytes]) -> list[bool | None]:
        """Whether the index has each key; costs one dict lookup a key."""
        mount = self._mount
        return mount.catalog.has(keys) if mount else [False] * len(keys)

    def put(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Store chunks, those of a batch next to each other; see ``Tier.put``."""
        batch = self._batch(items, timeout_s)
        mount = self._mount
        if mount is None:
            batch.settle_all(Outcome.REFUSED if self._closing else Outcome.FAILED)
            return batch
        new = self._enlist(mount, batch, items)
        batch.when_done(self._pending.strike)
        if new:
            most_bytes = min(
                mount.space.segment_bytes // 8, _share(new, self._workers.idle_storers)
            )
            self._workers.watch(batch)
            self._workers.store(self._stores(mount, batch, extents(new, most_bytes)))
        return batch

    def get(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        """Read chunks, neighbours in one go; see ``Tier.get``."""
        batch = self._batch(items, timeout_s)
        mount = self._mount
        places = mount.catalog.find(batch.keys) if mount else [None] * len(items)
        views = [_as_bytes(view) for _, view in items]
        wants: list[Want] = []
        misses: list[int] = []
        for index, (place, view) in enumerate(zip(places, views, strict=True)):
            if place is not None and place.entry.length == len(view):
                wants.append((index, place, view))
            else:
                misses.append(index)
        batch.settle_many(misses, Outcome.MISS)
        self._tally.missed(len(misses))
        if wants and mount is not None:
            most_bytes = _share(wants, self._workers.idle_loaders - 1)  # one is for checksums
            self._workers.watch(batch)
            self._workers.load(
                [
                    _part(batch, run, partial(self._load, mount, batch, run))
                    for run in runs(wants, most_bytes)
                ]
            )
        return batch

    def delete(self, keys: Sequence[bytes]) -> None:
        """Forget chunks now; that they are deleted is written, for the next start, soon after."""
        mount = self._mount
        if mount is None:
            return
        self._mark_deleted(mount, self._pending.delete(keys, mount.catalog))

    def stats(self) -> TierStats:
        """Counters and gauges; ``capacity_bytes`` is the limit over all that share the root."""
        mount = self._mount
        if mount is None:
            return self._tally.stats(in_service=False)
        io = mount.device.io
        return self._tally.stats(
            capacity_bytes=mount.space.max_bytes,
            used_bytes=mount.journal.used_bytes,
            resident_bytes=mount.catalog.payload_bytes,
            resident_chunks=len(mount.catalog),
            queued_bytes=self._workers.queued_bytes,
            evictions=mount.journal.evictions,
            io_bytes=dict(io.bytes_by_way),
            io_sizes=dict(sorted(io.calls_by_size.items())),
        )

    def probe(self, timeout_s: float) -> bool:
        """Whether a scratch file in the directory can be written and read right now."""
        self._wake.set()
        batch = Batch([b"probe"], timeout_s)
        self._workers.watch(batch)
        self._workers.load([Part(batch, [0], 0, lambda _: self._try(batch))])
        batch.wait()
        return batch.outcomes == (Outcome.DONE,)

    def close(self, timeout_s: float = 10.0) -> None:
        """Finish what is queued within ``timeout_s``, seal, and give the lane up."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        idle = self._workers.close(timeout_s)
        self._keeper.join(timeout_s)
        mounts, self._mount = [self._mount, *self._lost], None
        if not idle or self._keeper.is_alive():
            _log.warning("%s: the device hangs; its files stay open", self._options.root_dir)
            return
        for mount in mounts:
            if mount is not None:
                mount.close()

    def _batch(self, items: Sequence[Item], timeout_s: float | None) -> Batch:
        default_s = self._options.timeout_s
        return Batch([key for key, _ in items], default_s if timeout_s is None else timeout_s)

    def _enlist(self, mount: Mount, batch: Batch, items: Sequence[Item]) -> list[Put]:
        """What has to be written; all else is settled, or follows the batch that writes it."""
        places = mount.catalog.find(batch.keys)
        known: list[int] = []
        unfit: list[int] = []
        new: list[Put] = []
        most_bytes = mount.space.segment_bytes - extent_bytes([0]) - 3 * BLOCK_BYTES
        for index, ((key, view), place) in enumerate(zip(items, places, strict=True)):
            payload = _as_bytes(view)
            if place is not None and place.entry.length == len(payload):
                known.append(index)
            elif 0 < len(payload) <= most_bytes and 0 < len(key) <= MAX_KEY_BYTES:
                new.append((index, key, payload))
            else:
                unfit.append(index)
                self._complaints.say(
                    "unfit",
                    "%s takes keys of 1-%d bytes and chunks of 1-%d; there was one of %d and %d",
                    self._options.root_dir,
                    MAX_KEY_BYTES,
                    most_bytes,
                    len(key),
                    len(payload),
                )
        batch.settle_many(known, Outcome.DONE)
        batch.settle_many(unfit, Outcome.REFUSED)
        return self._pending.enlist(batch, new)

    def _stores(self, mount: Mount, batch: Batch, some: Iterable[Sequence[Put]]) -> list[Part]:
        parts = []
        for puts in some:
            extent = PutExtent(puts)
            run = partial(self._store, mount, batch, extent)
            parts.append(_part(batch, puts, run, extent.compute))
        return parts

    def _mark_deleted(self, mount: Mount, keys: Sequence[bytes]) -> None:
        """Have it written, for the next start, that chunks are gone."""
        batch = Batch(keys, self._options.timeout_s)
        marks = [(index, key, _NOTHING) for index, key in enumerate(keys)]
        self._workers.store(self._stores(mount, batch, extents(marks, 0)))

    def _store(self, mount: Mount, batch: Batch, extent: PutExtent) -> None:
        started_s = time.perf_counter()
        outcome = mount.writer.write(batch, extent)
        num_bytes = sum(len(payload) for _, _, payload in extent.puts)
        if outcome is Outcome.DONE and num_bytes:
            self._tally.stored(len(extent.puts), num_bytes, time.perf_counter() - started_s)
        batch.settle_many([index for index, _, _ in extent.puts], outcome)

    def _load(self, mount: Mount, batch: Batch, run: Sequence[Want]) -> None:
        started_s = time.perf_counter()
        loaded = loaded_bytes = 0
        lengths = {index: len(view) for index, _, view in run}
        outcomes = mount.reader.read(run)
        for index, outcome in outcomes:
            if outcome is Outcome.DONE:
                loaded += 1
                loaded_bytes += lengths[index]
            elif outcome is Outcome.MISS:
                self._tally.missed(1)
            else:
                self._tally.failed(outcome.value)
        self._tally.loaded(loaded, loaded_bytes, time.perf_counter() - started_s)
        corrupt = [batch.keys[index] for index, found in outcomes if found is Outcome.CORRUPT]
        if corrupt:
            self._mark_deleted(mount, corrupt)
        for index, outcome in outcomes:
            batch.settle(index, outcome)

    def _try(self, batch: Batch) -> None:
        mount = self._mount
        if mount is None:
            return
        try:
            probe_direct(self._files, mount.lane.dir_fd, mount.lane.path, False)
        except (OSError, TierError):
            return
        batch.settle(0, Outcome.DONE)

    def _open(self, again: int | None = None) -> Mount:
        mount = Mount(
            self._files, self._options, self._identity, self._pending, self._tally, again=again
        )
        mount.journal.on_full = self._wake.set
        return mount

    def _keep(self) -> None:
        """Look after the directory until the tier closes."""
        while not self._closing:
            self._wake.wait(self._options.refresh_s)
            self._wake.clear()
            try:
                self._look_after()
            except (OSError, TierError, NoRoom) as error:
                self._complaints.say("tend", "%s: %s", self._options.root_dir, error)
            except Exception:
                _log.exception("%s: an error that nobody expected", self._options.root_dir)

    def _look_after(self) -> None:
        mount = self._mount
        if mount is not None and not mount.is_there():
            _log.error("%s is gone: its chunks are misses", mount.lane.path)
            self._mount = None
            mount.journal.abandon()
            self._lost.append(mount)
        if self._mount is None and not self._closing:
            mount = self._mount = self._open(again=self._device_id)
            _log.warning("%s is back", mount.lane.path)
        if mount is None or self._closing:
            return
        try:
            mount.journal.prepare()
            mount.cleaner.clean()
            mount.journal.begin_next()
        finally:
            mount.journal.seal_full()
            if time.monotonic() >= self._tend_s:
                self._tend_s = time.monotonic() + self._options.refresh_s
                mount.tend()


def _share(chunks: Sequence[Put] | Sequence[Want], threads: int) -> int:
    """The bytes that a thread moves in one go: enough to be quick, some for every idle thread."""
    share = ceil_div(sum(len(chunk[2]) for chunk in chunks), max(1, threads))
    return min(max(share, _LEAST_CALL_BYTES), _MOST_CALL_BYTES)


def _part(
    batch: Batch,
    chunks: Sequence[Put] | Sequence[Want],
    run: Callable[[], None],
    ahead: Callable[[], None] | None = None,
) -> Part:
    num_bytes = sum(len(chunk[2]) for chunk in chunks)
    indices = [chunk[0] for chunk in chunks]
    return Part(batch, indices, num_bytes, lambda _: run(), ahead=ahead)


def _as_bytes(view: memoryview) -> memoryview:
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
