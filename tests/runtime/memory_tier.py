"""A tier in a dictionary that answers when told to: late, never, or wrongly."""

from __future__ import annotations

from collections.abc import Sequence

from kvengine.runtime.tiers.base import Batch, Item, Outcome, Tier, TierStats


class MemoryTier(Tier):
    """Holds bytes by key. With ``patient`` nothing happens before ``tick``."""

    def __init__(self, name: str = "memory", *, patient: bool = False) -> None:
        self.name = name
        self.patient = patient
        self.chunks: dict[bytes, bytes] = {}
        self.bad: dict[bytes, Outcome] = {}
        self.waiting: list[tuple[str, Batch, list[Item]]] = []
        self.held: list[Batch] = []
        self.closed = False
        self.gets = self.puts = 0

    def exists(self, keys: Sequence[bytes]) -> list[bool | None]:
        return [key in self.chunks and not self.closed for key in keys]

    def put(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        self.puts += 1
        return self._begin("put", items, timeout_s)

    def get(self, items: Sequence[Item], timeout_s: float | None = None) -> Batch:
        self.gets += 1
        return self._begin("get", items, timeout_s)

    def delete(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self.chunks.pop(key, None)

    def stats(self) -> TierStats:
        return TierStats(name=self.name, resident_chunks=len(self.chunks))

    def tick(self, *, hold: bool = False) -> None:
        """Do what is waiting; with ``hold`` the buffers stay taken until ``let_go``."""
        waiting, self.waiting = self.waiting, []
        for what, batch, items in waiting:
            if not batch.hold():
                continue
            for index, (key, data) in enumerate(items):
                batch.settle(index, self._do(what, key, data))
            if hold:
                self.held.append(batch)
            else:
                batch.drop()

    def let_go(self) -> None:
        held, self.held = self.held, []
        for batch in held:
            batch.drop()

    def close(self, timeout_s: float = 10.0) -> None:
        self.closed = True
        for _, batch, _ in self.waiting:
            batch.settle_all(Outcome.REFUSED)
        self.let_go()

    def _begin(self, what: str, items: Sequence[Item], timeout_s: float | None) -> Batch:
        batch = Batch([key for key, _ in items], timeout_s or 60.0)
        if self.closed:
            batch.settle_all(Outcome.REFUSED)
            return batch
        self.waiting.append((what, batch, list(items)))
        if not self.patient:
            self.tick()
        return batch

    def _do(self, what: str, key: bytes, data: memoryview) -> Outcome:
        if key in self.bad:
            if what == "get":
                data[:] = b"\x66" * len(data)
            return self.bad[key]
        if what == "put":
            self.chunks.setdefault(key, bytes(data))
        elif key not in self.chunks:
            return Outcome.MISS
        else:
            assert len(data) == len(self.chunks[key])
            data[:] = self.chunks[key]
        return Outcome.DONE
