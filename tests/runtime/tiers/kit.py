"""Small tiers for tests: identities, chunks whose bytes follow from their keys, faults."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kvengine.runtime.tiers.base import Batch, Outcome, Tier
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.tier import DiskTier
from kvengine.runtime.tiers.identity import GroupGeometry, Identity
from kvengine.runtime.tiers.open import options_of

KIB = 1 << 10
MIB = 1 << 20
CHUNK_BYTES = 16 * KIB
DONE, MISS = Outcome.DONE, Outcome.MISS


def identity(*chunk_bytes: int, **changes: Any) -> Identity:
    """An identity with a group per chunk size."""
    facts: dict[str, Any] = {
        "model": "revision-1",
        "cache_dtype": "bfloat16",
        "layout": "packed",
        "layout_version": 1,
        "runner": "vllm-0.32/v1",
        "groups": [geometry(size) for size in chunk_bytes or (CHUNK_BYTES,)],
        "tensor_parallel": 2,
        "pipeline_parallel": 1,
        "decode_context_parallel": 1,
        "prefill_context_parallel": 1,
        "rank": 0,
        "hash_algorithm": "sha256",
    }
    return Identity(**{**facts, **changes})


def geometry(chunk_bytes: int, **changes: Any) -> GroupGeometry:
    facts: dict[str, Any] = {
        "kind": "full",
        "layers": ["model.layers.0"],
        "tokens_per_block": 16,
        "page_bytes": [chunk_bytes],
        "blocks_per_chunk": 1,
        "chunk_bytes": chunk_bytes,
    }
    return GroupGeometry(**{**facts, **changes})


def key_of(number: int, group: int = 0) -> bytes:
    return hashlib.sha256(b"%d" % number).digest() + group.to_bytes(4, "big")


def keys_of(numbers: Iterable[int], group: int = 0) -> list[bytes]:
    return [key_of(number, group) for number in numbers]


@lru_cache(4096)
def payload_of(key: bytes, length: int = CHUNK_BYTES) -> bytes:
    """The bytes that belong to a key, different for every key and at every place."""
    return hashlib.shake_128(key).digest(length)


def put(tier: Tier, keys: Sequence[bytes], length: int = CHUNK_BYTES) -> tuple[Outcome, ...]:
    payloads = [memoryview(bytearray(payload_of(key, length))) for key in keys]
    return done(tier.put(list(zip(keys, payloads, strict=True))))


def get(
    tier: Tier, keys: Sequence[bytes], length: int = CHUNK_BYTES
) -> tuple[tuple[Outcome, ...], list[bytearray]]:
    rooms = [bytearray(length) for _ in keys]
    views = [memoryview(room) for room in rooms]
    return done(tier.get(list(zip(keys, views, strict=True)))), rooms


def readable(tier: Tier, keys: Sequence[bytes], length: int = CHUNK_BYTES) -> list[bytes]:
    """The keys that a tier gives back; every byte of them is what was stored."""
    outcomes, rooms = get(tier, keys, length)
    good = []
    for key, outcome, room in zip(keys, outcomes, rooms, strict=True):
        if outcome is DONE:
            assert room == payload_of(key, length), "wrong bytes"
            good.append(key)
    return good


def done(batch: Batch) -> tuple[Outcome, ...]:
    assert batch.wait(30)
    assert batch.wait_released(30)
    return batch.outcomes


def killed(place: object, kills: int, seed: int, max_mib: int, writers: int) -> dict[str, Any]:
    """What ``killing.py`` tells, a program of its own; printed for those who run with ``-s``."""
    command = [sys.executable, "-m", "tests.runtime.tiers.killing"]
    run = subprocess.run(
        [*command, *map(str, (place, kills, seed, max_mib, writers))],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    facts: dict[str, Any] = json.loads(run.stdout)
    print(facts)
    assert facts["kills"] == kills
    return facts


def wait_until(true: Callable[[], Any], timeout_s: float = 10.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until_s, "it never came true"
        time.sleep(0.005)


def disk(
    root: Path, who: Identity | None = None, *, files: Files | None = None, **options: Any
) -> DiskTier:
    """A disk tier of 16 MiB in segments of 1 MiB, unless told otherwise."""
    facts: dict[str, Any] = {
        "type": "fs",
        "root_dir": str(root),
        "max_bytes": 16 * MIB,
        "segment_bytes": MIB,
        "n_read_threads": 2,
        "n_write_threads": 2,
        "refresh_s": 0.05,
    }
    return DiskTier(options_of({**facts, **options}), who or identity(), files=files)


def segments(root: Path) -> list[Path]:
    return sorted(root.glob("*/*/*.seg"))


def flip(path: Path, offset: int) -> None:
    """Turn a bit of a file over."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def bytes_below(root: Path) -> int:
    """What everything below a directory occupies or may come to occupy; it may change meanwhile."""
    total = 0
    for place, directories, files in os.walk(root):
        for name in [*directories, *files]:
            with contextlib.suppress(FileNotFoundError):
                about = Path(place, name).lstat()
                total += max(about.st_size, about.st_blocks * 512)
    return total


class FaultyFiles(Files):
    """Files that fail on demand: ``fail`` maps a method to an error number; ``delay`` waits."""

    def __init__(self) -> None:
        self.fail: dict[str, int] = {}
        self.delay: dict[str, float] = {}
        self.refuse_direct = False
        self.calls: list[str] = []

    def _meet(self, call: str) -> None:
        self.calls.append(call)
        if call in self.delay:
            time.sleep(self.delay[call])
        if call in self.fail:
            number = self.fail[call]
            raise OSError(number, os.strerror(number))

    def open(self, name: str, flags: int, dir_fd: int) -> int:
        if name.endswith((".seg", ".new")):
            self._meet("open" if flags & os.O_CREAT == 0 else "create")
        return super().open(name, flags, dir_fd)

    def allocate(self, fd: int, num_bytes: int) -> None:
        self._meet("allocate")
        super().allocate(fd, num_bytes)

    def preadv(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        self._meet("preadv")
        self._meet_direct(fd)
        return super().preadv(fd, buffers, offset)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        self._meet("pwritev")
        self._meet_direct(fd)
        return super().pwritev(fd, buffers, offset)

    def datasync(self, fd: int) -> None:
        self._meet("datasync")
        super().datasync(fd)

    def _meet_direct(self, fd: int) -> None:
        import fcntl

        if self.refuse_direct and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
