"""The commands that a shared store is asked with: few, batched, and the same for every client."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kvengine.runtime.tiers.base import Item
from kvengine.runtime.tiers.valkey.parts import HEAD_BYTES, Sealed, cut, names, verified
from kvengine.runtime.tiers.valkey.wire import Gathered, landing

__all__ = ["Store"]


class Store:
    """Chunks as values below one namespace. Thread-safe; raises what the client raises.

    In a cluster the parts of one chunk share a node, and different chunks need not: there each
    chunk is asked for by itself. At most ``threads`` gets use the network at a time; a further
    thread verifies checksums meanwhile.
    """

    def __init__(
        self, client: Any, space: str, *, cluster: bool, ttl_s: int | None, threads: int
    ) -> None:
        self._client = client
        self._space = space.encode() + b":"
        self._cluster = cluster
        self._ttl_s = ttl_s
        self._gets = threading.Semaphore(threads)

    def present(
        self, keys: Sequence[bytes], num_parts: Sequence[int], until_s: float
    ) -> list[bool]:
        """Whether each chunk has all its parts; those that are there live on for a full TTL."""
        pipe = self._pipe()
        for key, count in zip(keys, num_parts, strict=True):
            for name in names(self._space, key, count):
                if self._ttl_s is None:
                    pipe.execute_command("EXISTS", name)
                else:
                    pipe.execute_command("EXPIRE", name, self._ttl_s)
        with landing(until_s):
            found = iter(pipe.execute())
        return [sum(int(next(found)) for _ in range(count)) == count for count in num_parts]

    def put(self, chunks: Sequence[Sealed], until_s: float) -> None:
        """Write chunks."""
        commands = [command for chunk in chunks for command in self._set(chunk)]
        with landing(until_s):
            if self._cluster or len(commands) == 1:
                for command in commands:
                    self._client.execute_command(*command)
                return
            pipe = self._pipe()
            for command in commands:
                pipe.execute_command(*command)
            pipe.execute()

    def get(self, items: Sequence[Item], until_s: float) -> list[bool | None]:
        """Read chunks into their buffers; None for one that is not there, False for a wrong one."""
        if not self._cluster:
            return self._get(items, until_s)
        return [found for item in items for found in self._get([item], until_s)]

    def delete(self, keys: Sequence[bytes], num_parts: Sequence[int], until_s: float) -> None:
        """Remove chunks."""
        pipe = self._pipe()
        for key, count in zip(keys, num_parts, strict=True):
            for name in names(self._space, key, count):
                pipe.execute_command("UNLINK", name)
        with landing(until_s):
            pipe.execute()

    def works(self, until_s: float) -> bool:
        """Whether a value can be written and read."""
        payload = memoryview(bytearray(b"works?"))
        self.put([Sealed.of(b"\0probe", payload)], until_s)
        room = memoryview(bytearray(len(payload)))
        return self.get([(b"\0probe", room)], until_s) == [True] and room == payload

    def _pipe(self) -> Any:
        if self._cluster:
            return self._client.pipeline()
        return self._client.pipeline(transaction=False)

    def _set(self, chunk: Sealed) -> list[tuple[Any, ...]]:
        expiry = () if self._ttl_s is None else ("EX", self._ttl_s)
        found = names(self._space, chunk.key, len(chunk.parts))
        return [
            ("SET", name, Gathered([memoryview(head), part]), *expiry)
            for name, head, part in zip(found, chunk.heads, chunk.parts, strict=True)
        ]

    def _get(self, items: Sequence[Item], until_s: float) -> list[bool | None]:
        parts = [cut(payload) for _, payload in items]
        found_heads = [[memoryview(bytearray(HEAD_BYTES)) for _ in some] for some in parts]
        targets = [
            [head, part]
            for some_heads, some in zip(found_heads, parts, strict=True)
            for head, part in zip(some_heads, some, strict=True)
        ]
        asked = [
            name
            for (key, _), some in zip(items, parts, strict=True)
            for name in names(self._space, key, len(some))
        ]
        with landing(until_s, targets), self._gets:
            replies = iter(self._client.execute_command("MGET", *asked))
        outcomes: list[bool | None] = []
        for (key, payload), some_heads in zip(items, found_heads, strict=True):
            values = [next(replies) for _ in some_heads]
            if any(value is None for value in values):
                outcomes.append(None)
            else:
                landed = all(isinstance(value, int) for value in values)
                outcomes.append(landed and verified(key, payload, some_heads))
        return outcomes
