"""Restart finds the old chunks; nothing torn, cut or flipped is ever taken for one (R14, R15)."""

from __future__ import annotations

import os
import random
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvengine.runtime.tiers.base import Outcome
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    KIB,
    MIB,
    disk,
    get,
    identity,
    keys_of,
    put,
    readable,
    segments,
    wait_until,
)

KEYS = keys_of(range(200))  # a bit more than three segments


@pytest.fixture
def stored(tmp_path):
    """A root with chunks in it, not closed properly: the last segment has no index."""
    with disk(tmp_path / "root") as tier:
        for start in range(0, len(KEYS), 10):
            put(tier, KEYS[start : start + 10])
        journal = tier._mount.journal
        wait_until(lambda: journal.num_spares and not journal.num_unsealed)  # the keeper is done
        shutil.copytree(tmp_path / "root", tmp_path / "crashed")
    return tmp_path / "crashed"


def test_a_restart_finds_every_chunk(tmp_path):
    """Closed properly, nothing has to be scanned."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
    with disk(tmp_path) as tier:
        loaded = tier.stats().io_sizes
        assert readable(tier, KEYS) == KEYS

    assert max(loaded) < MIB


def test_a_crash_loses_nothing_that_was_stored(stored):
    """The unsealed segment is scanned, and written on afterwards."""
    with disk(stored) as tier:
        assert readable(tier, KEYS) == KEYS
        more = keys_of(range(1000, 1010))
        put(tier, more)
    with disk(stored) as tier:
        assert readable(tier, [*KEYS, *more]) == [*KEYS, *more]


def test_only_the_unsealed_tail_is_scanned(stored):
    """Of four segments one is read completely."""
    with disk(stored) as tier:
        sizes = tier.stats().io_sizes

    assert sum(size * count for size, count in sizes.items() if size >= MIB) == MIB


@pytest.mark.parametrize("what", ["empty", "short", "no header", "zeros", "no index", "garbage"])
def test_a_damaged_segment_costs_its_own_chunks_only(stored, what, caplog):
    """Cut, emptied or overwritten: misses and a log line; the others are all there."""
    victim = segments(stored)[0]
    data = victim.read_bytes()
    damaged = {
        "empty": b"",
        "short": data[: MIB // 2],
        "no header": bytes(BLOCK_BYTES) + data[BLOCK_BYTES:],
        "zeros": bytes(len(data)),
        "no index": data[:-BLOCK_BYTES] + bytes(BLOCK_BYTES),
        "garbage": random.Random(1).randbytes(len(data)),
    }[what]
    victim.write_bytes(damaged)
    caplog.set_level("INFO")
    with disk(stored) as tier:
        found = readable(tier, KEYS)
        assert len(found) == len(KEYS) if what == "no index" else len(found) >= 130
        assert set(put(tier, KEYS)) == {Outcome.DONE}
        assert readable(tier, KEYS) == KEYS
    if what != "no index":
        assert any(str(victim) in line for line in caplog.messages)


def test_a_vanished_segment_costs_its_own_chunks_only(stored):
    """While the tier is open, too."""
    with disk(stored) as tier:
        victim = segments(stored)[0]
        victim.unlink()
        found = readable(tier, KEYS)

        assert len(found) >= 130


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 4 * MIB * 8 - 1), min_size=1, max_size=40), st.booleans())
def test_flipped_bits_never_give_wrong_bytes(stored, bits, open_when_flipped):
    """Anywhere, before or after opening: at worst a chunk is gone."""
    root = stored.parent / "flipped"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(stored, root)
    files = segments(root)

    def flip():
        for bit in bits:
            place = bit // 8
            fd = os.open(files[place // MIB], os.O_RDWR)
            byte = os.pread(fd, 1, place % MIB)[0] ^ 1 << bit % 8
            os.pwrite(fd, bytes([byte]), place % MIB)
            os.close(fd)

    if not open_when_flipped:
        flip()
    with disk(root) as tier:
        if open_when_flipped:
            flip()
        readable(tier, KEYS)  # compares
        assert set(put(tier, KEYS)) == {Outcome.DONE}
        assert readable(tier, KEYS) == KEYS


def test_a_flipped_bit_in_a_chunk_is_said_and_forgotten(tmp_path, caplog):
    """With file and place; the next get is a plain miss, and it can be stored again."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:1])
        path = segments(tmp_path)[0]
        offset = 2 * BLOCK_BYTES
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"\0" * 8, offset)
        os.close(fd)

        assert get(tier, KEYS[:1])[0] == (Outcome.CORRUPT,)
        assert get(tier, KEYS[:1])[0] == (Outcome.MISS,)
        assert tier.stats().failures == {"corrupt": 1}
        put(tier, KEYS[:1])
        assert readable(tier, KEYS[:1]) == KEYS[:1]
    assert caplog.messages == [
        f"{path}: the {CHUNK_BYTES} bytes at {offset} are not what was written there; "
        "the chunk is a miss"
    ]


def test_a_torn_write_is_invisible(stored):
    """An extent of which only the head, or half the payload, reached the disk."""
    with disk(stored) as tier:
        readable(tier, KEYS)
        new = keys_of(range(5000, 5004))
        put(tier, new)
        newest = max(segments(stored), key=lambda path: path.stat().st_mtime_ns)
        torn = stored.parent / "torn"
        shutil.copytree(stored, torn)
    data = bytearray((torn / newest.relative_to(stored)).read_bytes())
    at = data.rfind(b"kvextent")
    data[at + BLOCK_BYTES + CHUNK_BYTES :] = bytes(len(data) - at - BLOCK_BYTES - CHUNK_BYTES)
    (torn / newest.relative_to(stored)).write_bytes(data)
    with disk(torn) as tier:
        found = readable(tier, [*KEYS, *new])

        assert set(KEYS) <= set(found)
        assert len(found) < len(KEYS) + len(new)
        assert tier.exists(new).count(True) == len(found) - len(KEYS)


def test_segments_of_another_identity_are_not_taken(tmp_path):
    """Even if somebody moves them into our namespace (R06)."""
    with disk(tmp_path, identity(model="other")) as tier:
        put(tier, KEYS)
    with disk(tmp_path) as tier:
        put(tier, KEYS[:1])
    for path in (tmp_path / identity(model="other").digest).glob("0/*.seg"):
        path.rename(tmp_path / identity().digest / "0" / path.name)
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS) == KEYS[:1]


def test_reopening_reads_indices_only(tmp_path):
    """As many small reads as there are segments, times three, and none of any payload (R15)."""
    options = {"max_bytes": 256 * MIB, "segment_bytes": 4 * MIB, "refresh_s": 3600}
    room = memoryview(bytearray(os.urandom(4 * KIB)))
    reads = []
    for count in (5_000, 20_000):
        root = tmp_path / str(count)
        keys = [number.to_bytes(36, "little") for number in range(count)]
        with disk(root, identity(4 * KIB), **options) as tier:
            for start in range(0, count, 1000):
                tier.put([(key, room) for key in keys[start : start + 1000]]).wait()
            assert tier.stats().resident_chunks == count
        with disk(root, identity(4 * KIB), **options) as tier:
            sizes = tier.stats().io_sizes
            reads.append(sum(sizes.values()))

            assert tier.stats().resident_chunks == count
            assert sum(sizes.values()) <= 3 * len(segments(root)) + 1
            assert max(sizes) <= 256 * KIB

    assert reads[1] < 5 * reads[0]
