"""Starts writers on a disk tier, kills them with SIGKILL at random, and tells what was left.

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
from pathlib import Path
from typing import Any

from kvengine.runtime.tiers.base import Outcome
from tests.runtime.tiers import kit

LENGTH = 12 * kit.KIB
NUMBERS = range(240)
WHO = kit.identity(LENGTH)


def main(root: str, kills: str, seed: str, max_mib: str, writers: str) -> None:
    """Kill ``kills`` times, with so many writers at a time; print a JSON object."""
    chance = random.Random(int(seed))
    limit = int(max_mib) * kit.MIB
    facts: dict[str, Any] = {"kills": 0, "checked": 0, "found": 0, "wrong": 0, "lost": 0}
    facts |= {"stored": 0, "over_limit": 0}
    sure: set[int] = set()  # stored for certain, by writers of former rounds
    for key in kit.keys_of(NUMBERS):
        kit.payload_of(key, LENGTH)  # known before anybody forks
    while facts["kills"] < int(kills):
        children = [fork(root, limit, chance.random(), sure) for _ in range(int(writers))]
        for pid, ear in children:
            if chance.random() < 0.6:
                select.select([ear], [], [], 10)  # it has begun to write
            time.sleep(chance.random() * 0.03)
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
        facts["over_limit"] += kit.bytes_below(Path(root)) > limit
    print(json.dumps(facts | space(root, limit, sure)))


def fork(root: str, limit: int, seed: float, sure: set[int]) -> tuple[int, int]:
    """Start a writer: its process id, and where it tells what it did."""
    mouth, ear = os.pipe()[::-1]
    pid = os.fork()
    if not pid:
        os.close(ear)
        try:
            write(root, limit, random.Random(seed), sure, mouth)
        except BaseException as error:
            tell(mouth, "wrong", repr(error))
        os._exit(1)
    os.close(mouth)
    return pid, ear


def write(root: str, limit: int, chance: random.Random, sure: set[int], mouth: int) -> None:
    with kit.disk(Path(root), WHO, max_bytes=limit, refresh_s=0.005) as tier:
        keys = kit.keys_of(NUMBERS)
        found = set(kit.readable(tier, keys, LENGTH))
        lost = [number for number in sure if keys[number] not in found]
        tell(mouth, "found", len(found), len(lost))

        def store() -> None:
            mine = random.Random(chance.random())
            while True:
                some = mine.sample(NUMBERS, mine.randint(1, 8))
                outcomes = kit.put(tier, [keys[number] for number in some], LENGTH)
                done = [n for n, o in zip(some, outcomes, strict=True) if o is Outcome.DONE]
                tell(mouth, "stored", *done)
                kit.readable(tier, [keys[number] for number in mine.sample(NUMBERS, 4)], LENGTH)

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


def space(root: str, limit: int, sure: set[int]) -> dict[str, Any]:
    """What is on disk when somebody has opened the tier once more: nothing that nobody knows."""
    with kit.disk(Path(root), WHO, max_bytes=limit) as tier:
        files = kit.segments(Path(root))
        known = tier.stats().used_bytes
        keys = kit.keys_of(NUMBERS)
        found = set(kit.readable(tier, keys, LENGTH))
        kit.put(tier, keys, LENGTH)
        return {
            "lost_at_the_end": sum(keys[number] not in found for number in sure),
            "lanes": len({path.parent for path in files}),
            "leaked_bytes": sum(path.stat().st_size for path in files) - (known or 0),
            "readable_at_the_end": len(kit.readable(tier, keys, LENGTH)),
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
