"""The cost of keeping books, and the share of a budget that is payload: integers only, no torch."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from kvengine.runtime.policies import POLICIES
from kvengine.runtime.pool import HostPool

__all__ = ["Bookkeeping", "measure_books", "measure_usable_share"]

_BATCH = 64


@frozen(kw_only=True)
class Bookkeeping:
    """The time an operation takes per chunk, in a pool that holds ``chunks`` of them."""

    operation: str
    policy: str
    chunks: int
    seconds_per_chunk: float


def measure_books(chunk_bytes: Sequence[int], chunks: int) -> Iterator[Bookkeeping]:
    """Look up, store with eviction, and load, in batches of 64, under every policy."""
    groups = len(chunk_bytes)
    budget = sum(chunk_bytes[number % groups] for number in range(chunks))
    old, new = _batches(groups, chunks), _batches(groups, chunks)
    for policy in POLICIES:
        pool = HostPool(chunk_bytes, budget, policy=policy)
        _store(pool, old)
        for operation, act in (
            ("lookup", lambda pool=pool: _lookup(pool, old)),
            ("load", lambda pool=pool: _load(pool, old)),
            ("store", lambda pool=pool: _store(pool, new)),
        ):
            yield Bookkeeping(
                operation=operation,
                policy=policy,
                chunks=chunks,
                seconds_per_chunk=_timed(act) / chunks,
            )


def _batches(groups: int, chunks: int) -> list[list[bytes]]:
    keys = [os.urandom(32) + (at % groups).to_bytes(4, "big") for at in range(chunks)]
    return [keys[at : at + _BATCH] for at in range(0, chunks, _BATCH)]


def _lookup(pool: HostPool, batches: Sequence[Sequence[bytes]]) -> None:
    for keys in batches:
        pool.lookup(keys)


def _store(pool: HostPool, batches: Sequence[Sequence[bytes]]) -> None:
    for keys in batches:
        pool.complete_store(pool.prepare_store(keys).keys)


def _load(pool: HostPool, batches: Sequence[Sequence[bytes]]) -> None:
    for keys in batches:
        places = pool.prepare_load(keys)
        pool.complete_load([key for key, place in zip(keys, places, strict=True) if place])


def _timed(act: Callable[[], None]) -> float:
    gc.collect()
    gc.disable()
    try:
        started_s = time.thread_time()
        act()
        return time.thread_time() - started_s
    finally:
        gc.enable()


def measure_usable_share(
    chunk_bytes: Sequence[int],
    *,
    budget_bytes: int | None = None,
    policy: str = "lru",
    seed: int = 0,
) -> float:
    """The least share of the budget that is resident payload once the pool is full.

    The mix shifts: each phase stores mostly one group's chunks, with others mixed in, until it
    has replaced the contents; the share is measured all along. The budget defaults to that of
    200 chunks of the largest group; nothing is allocated.
    """
    chance = random.Random(seed)
    groups = range(len(chunk_bytes))
    budget = budget_bytes or 200 * max(chunk_bytes)
    pool = HostPool(chunk_bytes, budget, policy=policy)
    least = 1.0
    number = 0
    for phase in (*groups, *reversed(groups)):
        weights = [8 if group == phase else 1 for group in groups]
        written = 0
        while written < 2 * budget:
            keys = []
            for group in chance.choices(groups, weights, k=chance.randint(1, 8)):
                number += 1
                keys.append(number.to_bytes(8, "big") + group.to_bytes(4, "big"))
                written += chunk_bytes[group]
            pool.complete_store(pool.prepare_store(keys).keys)
            stats = pool.stats()
            if stats.evictions:
                least = min(least, stats.resident_bytes / budget)
    return least
