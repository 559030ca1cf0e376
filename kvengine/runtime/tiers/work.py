"""The threads of a tier: bounded queues with loads first, and deadlines that always fall due."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from attrs import frozen

from kvengine.runtime.tiers.base import Batch, Item, Outcome

__all__ = ["Deadlines", "Part", "Workers"]

_log = logging.getLogger(__name__)
_SWEEP_S = 0.05
_MOST_CHUNKS_TOGETHER = 256


@frozen(eq=False)
class Part:
    """Some chunks of a batch that one thread handles in one go.

    ``run`` is called with this part, and perhaps others whose ``run`` is equal, their buffers held
    (``Batch.hold``); it settles every index of each. ``ahead`` may be called before, with the
    buffers held, while the part waits for a thread: it is for what takes the processor and not the
    device. ``items`` are the part's chunks, where ``run`` wants to know.
    """

    batch: Batch
    indices: Sequence[int]
    num_bytes: int
    run: Callable[[Sequence[Part]], None]
    items: Sequence[Item] = ()
    ahead: Callable[[], None] | None = None


class Workers:
    """Threads for the parts of batches, in order of arrival, loads first.

    Loaders only load. Storers store, and load as long as loads are queued; with ``ahead`` and while
    all of them are busy, one thread more does what can be done ahead. What is queued beyond a part
    per thread is handled together, up to ``loads_together_bytes`` or ``stores_together_bytes``.
    Each queue takes up to ``queue_bytes`` (a single larger part is taken by an empty queue).
    """

    def __init__(
        self,
        name: str,
        *,
        loaders: int,
        storers: int,
        queue_bytes: int,
        ahead: bool = False,
        loads_together_bytes: int = 0,
        stores_together_bytes: int = 0,
    ) -> None:
        self._queue_bytes = queue_bytes
        self._loads_together_bytes = loads_together_bytes
        self._stores_together_bytes = stores_together_bytes
        self._loaders = loaders
        self._loads: deque[Part] = deque()
        self._stores: deque[Part] = deque()
        self._ready: deque[Part] = deque()
        self._load_bytes = 0
        self._store_bytes = 0
        self._running = 0
        self._free_loaders = 0
        self._free_storers = 0
        self._storers = storers
        self._closing = False
        self._lock = threading.Lock()
        self._for_loaders = threading.Condition(self._lock)
        self._for_storers = threading.Condition(self._lock)
        self._for_ahead = threading.Condition(self._lock)
        self._now_idle = threading.Condition(self._lock)
        self._deadlines = Deadlines(name)
        roles = {f"{name}-load-{i}": partial(self._work, False) for i in range(loaders)}
        roles |= {f"{name}-store-{i}": partial(self._work, True) for i in range(storers)}
        if ahead:
            roles[f"{name}-ahead"] = partial(self._work_ahead)
        self._threads = [
            threading.Thread(target=work, name=label, daemon=True) for label, work in roles.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued_bytes(self) -> int:
        """Bytes waiting in both queues."""
        return self._load_bytes + self._store_bytes

    @property
    def idle_storers(self) -> int:
        """Threads that would begin a store at once."""
        return self._free_storers - len(self._loads) - len(self._stores)

    @property
    def idle_loaders(self) -> int:
        """Threads that would begin a load at once."""
        return self._free_loaders + self._free_storers - len(self._loads)

    def watch(self, batch: Batch) -> None:
        """See to it that the batch is done at its deadline, whatever hangs."""
        self._deadlines.watch(batch)

    def load(self, parts: Sequence[Part]) -> None:
        """Queue loads; what does not fit is settled as ``REFUSED`` at once."""
        with self._lock:
            fit, num_bytes = self._fitting(parts, self._load_bytes)
            self._loads.extend(parts[:fit])
            self._load_bytes += num_bytes
            self._for_loaders.notify(fit)
            self._for_storers.notify(fit)
        _refuse(parts[fit:])

    def store(self, parts: Sequence[Part]) -> None:
        """Queue stores; what does not fit is settled as ``REFUSED`` at once."""
        with self._lock:
            fit, num_bytes = self._fitting(parts, self._store_bytes)
            self._stores.extend(parts[:fit])
            self._store_bytes += num_bytes
            self._for_storers.notify(fit)
            self._for_ahead.notify()
        _refuse(parts[fit:])

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is queued or running; False when ``timeout_s`` was too short."""
        with self._lock:
            return self._now_idle.wait_for(self._idle, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Let queued parts finish for up to ``timeout_s``, refuse the rest, end the threads.

        False when a thread hangs in a system call: it ends when the call does.
        """
        until_s = time.monotonic() + timeout_s
        self.drain(timeout_s)
        with self._lock:
            self._closing = True
            left = [*self._loads, *self._ready, *self._stores]
            self._loads.clear()
            self._ready.clear()
            self._stores.clear()
            self._load_bytes = self._store_bytes = 0
            self._for_loaders.notify_all()
            self._for_storers.notify_all()
            self._for_ahead.notify_all()
        _refuse(left)
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()) + 0.1)
        self._deadlines.close()
        return not any(thread.is_alive() for thread in self._threads)

    def _fitting(self, parts: Sequence[Part], queued_bytes: int) -> tuple[int, int]:
        """How many of the parts, from the first, the queue takes, and their bytes."""
        if self._closing:
            return 0, 0
        taken_bytes = 0
        for index, part in enumerate(parts):
            total_bytes = queued_bytes + taken_bytes + part.num_bytes
            if total_bytes > self._queue_bytes and total_bytes != part.num_bytes:
                return index, taken_bytes
            taken_bytes += part.num_bytes
        return len(parts), taken_bytes

    def _idle(self) -> bool:
        return not (self._loads or self._ready or self._stores or self._running)

    def _take(self, stores: bool) -> list[Part]:
        """What is next: one part, or several that go together; nothing at the end."""
        ready = self._for_storers if stores else self._for_loaders
        with self._lock:
            while not self._closing:
                if self._loads:
                    parts = _together(self._loads, self._loaders, self._loads_together_bytes)
                    self._load_bytes -= sum(part.num_bytes for part in parts)
                elif stores and (self._ready or self._stores):
                    some = self._ready or self._stores
                    parts = _together(some, self._storers, self._stores_together_bytes)
                    self._store_bytes -= sum(part.num_bytes for part in parts)
                    self._for_ahead.notify()
                else:
                    self._free_storers += stores
                    self._free_loaders += not stores
                    ready.wait()
                    self._free_storers -= stores
                    self._free_loaders -= not stores
                    continue
                self._running += 1
                return parts
            return []

    def _work(self, stores: bool) -> None:
        while parts := self._take(stores):
            try:
                _run(parts)
            finally:
                del parts
                with self._lock:
                    self._end_one()

    def _take_ahead(self) -> Part | None:
        """A store that no storer has time for, unless enough of them are ready already."""
        with self._lock:
            while not self._closing:
                wanted = not self._free_storers and len(self._ready) < self._storers
                if wanted and self._stores and self._stores[0].ahead is not None:
                    self._running += 1
                    return self._stores.popleft()
                self._for_ahead.wait()
            return None

    def _work_ahead(self) -> None:
        while (part := self._take_ahead()) is not None:
            try:
                _run_ahead(part)
            finally:
                with self._lock:
                    closing = self._closing
                    if not closing:
                        self._ready.append(part)
                        self._for_storers.notify()
                    self._end_one()
                if closing:
                    _refuse([part])
                del part

    def _end_one(self) -> None:
        self._running -= 1
        if self._idle():
            self._now_idle.notify_all()


class Deadlines:
    """Settles batches whose deadline has passed, also when every worker hangs."""

    def __init__(self, name: str) -> None:
        self._batches: list[Batch] = []
        self._closed = False
        self._changed = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._sweep, name=f"{name}-deadlines", daemon=True)
        self._thread.start()

    def watch(self, batch: Batch) -> None:
        """Settle ``batch`` at its deadline if nobody did before."""
        with self._changed:
            if not self._closed:
                self._batches.append(batch)
                self._changed.notify()
                return
        batch.settle_all(Outcome.REFUSED)

    def close(self) -> None:
        """End the thread; what is still open is ``REFUSED``."""
        with self._changed:
            self._closed = True
            left, self._batches = self._batches, []
            self._changed.notify()
        for batch in left:
            batch.settle_all(Outcome.REFUSED)
        self._thread.join()

    def _sweep(self) -> None:
        while True:
            with self._changed:
                while not self._batches and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            time.sleep(_SWEEP_S)
            with self._changed:
                self._batches = [batch for batch in self._batches if not batch.done]
                batches = list(self._batches)
            for batch in batches:
                batch.expire()


def _together(waiting: deque[Part], threads: int, most_bytes: int) -> list[Part]:
    """The next part, and those after it of its kind, but for one for every other thread."""
    parts = [waiting.popleft()]
    num_bytes, num_chunks = parts[0].num_bytes, len(parts[0].indices)
    while len(waiting) >= max(1, threads) and waiting[0].run == parts[0].run:
        num_bytes += waiting[0].num_bytes
        num_chunks += len(waiting[0].indices)
        if num_bytes > most_bytes or num_chunks > _MOST_CHUNKS_TOGETHER:
            break
        parts.append(waiting.popleft())
    return parts


def _refuse(parts: Sequence[Part]) -> None:
    for part in parts:
        part.batch.settle_many(part.indices, Outcome.REFUSED)


def _run_ahead(part: Part) -> None:
    if part.ahead is None or not part.batch.hold():
        return
    try:
        part.ahead()
    except Exception:
        _log.exception("a tier's worker met an error that nobody expected; it will try again")
    finally:
        part.batch.drop()


def _run(parts: Sequence[Part]) -> None:
    parts = [part for part in parts if part.batch.hold()]
    if not parts:
        return
    try:
        parts[0].run(parts)
    except Exception:
        _log.exception("a tier's worker met an error that nobody expected; its chunks are misses")
    finally:
        for part in parts:
            part.batch.settle_many(part.indices, Outcome.FAILED)  # the first word counts
            part.batch.drop()
