"""Starts writers on a tier, kills them with SIGKILL at random, and tells what was left.

Run as a program of its own: it imports neither torch nor pytest and has no threads, so that it can
fork writers within a millisecond. Each writer first checks what the killed ones before it left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import redis
from attrs import frozen

from kvengine.runtime.tiers.base import Outcome, Tier
from kvengine.runtime.tiers.open import options_of
from kvengine.runtime.tiers.valkey.tier import ValkeyTier
from tests.runtime.tiers import kit


@frozen
class Disk:
    """A directory that writers share."""

    root: Path
    limit: int
    length = 12 * kit.KIB
    numbers = range(240)
    life_s, haste = 0.03, 1

    def open(self) -> Tier:
        """The tier of one writer."""
        who = kit.identity(self.length)
        return kit.disk(self.root, who, max_bytes=self.limit, refresh_s=0.005)

    def is_over_limit(self) -> bool:
        """Whether the files take more than they may."""
        return kit.bytes_below(self.root) > self.limit

    def is_emptied(self, chance: random.Random) -> bool:
        """Never: what leaves a disk leaves by its limit."""
        return False

    def is_torn(self) -> bool:
        """Unknown: the format hides what was cut off."""
        return False

    def left(self, tier: Tier) -> dict[str, int]:
        """What is on disk when somebody has opened it once more: nothing that nobody knows."""
        files = kit.segments(self.root)
        known = tier.stats().used_bytes or 0
        return {
            "lanes": len({path.parent for path in files}),
            "leaked_bytes": sum(path.stat().st_size for path in files) - known,
        }


@frozen
class Store:
    """A server that writers share; a chunk is cut into values of 1 MiB there."""

    url: str
    length = 8 * kit.MIB
    numbers = range(8)
    life_s, haste = 0.3, 3  # most die early, with their first chunks half sent

    def open(self) -> Tier:
        """The tier of one writer."""
        options = options_of({"type": "valkey", "url": self.url, "threads": 2})
        return ValkeyTier(options, kit.identity(self.length))

    def is_over_limit(self) -> bool:
        """The server sees to its limit itself."""
        return False

    def is_emptied(self, chance: random.Random) -> bool:
        """Every other time, so that there is something to store anew."""
        emptied = chance.random() < 0.5
        if emptied:
            with self._client() as client:
                client.flushall()
        return emptied

    def is_torn(self) -> bool:
        """Whether some chunk has not all of its values."""
        with self._client() as client:
            values = Counter(name.rpartition(b":")[0] for name in client.scan_iter())
        return any(count * kit.MIB != self.length for count in values.values())

    def left(self, tier: Tier) -> dict[str, int]:
        """Nothing beside the chunks."""
        return {}

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url.replace("valkey", "redis", 1))


def main(place: str, kills: str, seed: str, max_mib: str, writers: str) -> None:
    """Kill ``kills`` times, with so many writers at a time; print a JSON object.

    ``place`` is a directory, or the url of a server.
    """
    chance = random.Random(int(seed))
    shared = Store(place) if "://" in place else Disk(Path(place), int(max_mib) * kit.MIB)
    facts: dict[str, Any] = {"kills": 0, "checked": 0, "found": 0, "wrong": 0, "lost": 0}
    facts |= {"stored": 0, "over_limit": 0, "torn": 0}
    sure: set[int] = set()  # stored for certain, by writers of former rounds
    for key in kit.keys_of(shared.numbers):
        kit.payload_of(key, shared.length)  # known before anybody forks
    while facts["kills"] < int(kills):
        if shared.is_emptied(chance):
            sure.clear()
        children = [fork(shared, chance.random(), sure) for _ in range(int(writers))]
        for pid, ear in children:
            if chance.random() < 0.6:
                select.select([ear], [], [], 10)  # it has begun to write
            time.sleep(chance.random() ** shared.haste * shared.life_s)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            facts["kills"] += 1
        for _, fd in children:
            for word, *rest in heard(fd):
                if word == "stored":
                    sure.update(rest)
                    facts["stored"] += len(rest)
                elif word == "found":
                    facts["checked"] += 1
                    facts["found"] += rest[0]
                    facts["lost"] += rest[1]
                else:
                    facts["wrong"] += 1
        facts["torn"] += shared.is_torn()
        facts["over_limit"] += shared.is_over_limit()
    print(json.dumps(facts | at_the_end(shared, sure)))


def fork(shared: Disk | Store, seed: float, sure: set[int]) -> tuple[int, int]:
    """Start a writer: its process id, and where it tells what it did."""
    mouth, ear = os.pipe()[::-1]
    pid = os.fork()
    if not pid:
        os.close(ear)
        try:
            write(shared, random.Random(seed), sure, mouth)
        except BaseException as error:
            tell(mouth, "wrong", repr(error))
        os._exit(1)
    os.close(mouth)
    return pid, ear


def write(shared: Disk | Store, chance: random.Random, sure: set[int], mouth: int) -> None:
    with shared.open() as tier:
        keys = kit.keys_of(shared.numbers)
        found = set(kit.readable(tier, keys, shared.length))
        lost = [number for number in sure if keys[number] not in found]
        tell(mouth, "found", len(found), len(lost))

        def store() -> None:
            mine = random.Random(chance.random())
            while True:
                some = mine.sample(shared.numbers, mine.randint(1, 8))
                outcomes = kit.put(tier, [keys[number] for number in some], shared.length)
                done = [n for n, o in zip(some, outcomes, strict=True) if o is Outcome.DONE]
                tell(mouth, "stored", *done)
                some = mine.sample(shared.numbers, 4)
                kit.readable(tier, [keys[number] for number in some], shared.length)

        others = [threading.Thread(target=store, daemon=True) for _ in range(1)]
        for other in others:
            other.start()
        store()


def tell(mouth: int, *words: Any) -> None:
    os.write(mouth, json.dumps(words).encode() + b"\n")


def heard(ear: int) -> list[list[Any]]:
    """What a killed writer told, but for a word that it did not finish."""
    with os.fdopen(ear, "rb") as lines:
        said = []
        for line in lines:
            with contextlib.suppress(ValueError):
                said.append(json.loads(line))
    return said


def at_the_end(shared: Disk | Store, sure: set[int]) -> dict[str, Any]:
    """What one more engine finds, and whether it can store everything."""
    with shared.open() as tier:
        left = shared.left(tier)
        keys = kit.keys_of(shared.numbers)
        found = set(kit.readable(tier, keys, shared.length))
        kit.put(tier, keys, shared.length)
        return {
            "lost_at_the_end": sum(keys[number] not in found for number in sure),
            "readable_at_the_end": len(kit.readable(tier, keys, shared.length)),
            **left,
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
