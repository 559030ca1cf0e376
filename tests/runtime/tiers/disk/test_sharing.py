"""Several processes on one directory: a lane each, chunks for all of equal identity (R08, R09)."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from kvengine.runtime.tiers.disk import journal
from tests.runtime.tiers.kit import (
    DONE,
    MIB,
    bytes_below,
    disk,
    identity,
    keys_of,
    payload_of,
    put,
    readable,
    segments,
    wait_until,
)

MINE, YOURS = keys_of(range(20)), keys_of(range(100, 120))


def lanes(root):
    return sorted(path.parent.name for path in root.glob("*/*/LOCK"))


def test_a_lane_has_one_owner(tmp_path):
    """Its lock cannot be taken by anybody else, and ends with the owner."""
    with disk(tmp_path) as tier:
        put(tier, MINE)
        with (tmp_path / identity().digest / "0" / "LOCK").open() as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tier.close()
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_second_owner_gets_a_lane_of_its_own(tmp_path):
    """Neither writes to the other's files."""
    with disk(tmp_path) as first, disk(tmp_path) as second:
        put(first, MINE)
        put(second, YOURS)

        assert lanes(tmp_path) == ["0", "1"]
        assert len({path.parent for path in segments(tmp_path)}) == 2


def test_equal_identities_read_each_others_chunks(tmp_path):
    """Soon after they are stored, without copying; a put of them writes nothing."""
    with disk(tmp_path) as first, disk(tmp_path) as second:
        put(first, MINE)
        wait_until(lambda: all(second.exists(MINE)))
        assert readable(second, MINE) == MINE
        written = second.stats().stored_bytes
        assert set(put(second, MINE)) == {DONE}
        assert second.stats().stored_bytes == written
        put(first, YOURS)
        wait_until(lambda: all(second.exists(YOURS)))

        assert readable(second, YOURS) == YOURS


def test_ranks_do_not_read_each_others_chunks(tmp_path):
    """Same keys, other bytes (R08)."""
    with disk(tmp_path) as first, disk(tmp_path, identity(rank=1)) as second:
        put(first, MINE)
        other = [(key, memoryview(bytearray(payload_of(key)[::-1]))) for key in MINE]
        assert second.put(other).wait()

        assert readable(first, MINE) == MINE


def test_what_a_peer_evicts_is_a_miss_never_wrong(tmp_path):
    """It uses the file anew while we look; the limit holds for both together."""
    with disk(tmp_path, max_bytes=8 * MIB) as first, disk(tmp_path, max_bytes=8 * MIB) as second:
        keys = keys_of(range(1200))
        found = 0
        for start in range(0, len(keys), 20):
            put(first, keys[start : start + 20])
            found += len(readable(second, keys[max(0, start - 400) : start]))
            assert bytes_below(tmp_path) <= 8 * MIB

        assert found > 500


def test_the_lane_of_an_ended_process_is_taken_over(tmp_path):
    """By a peer that runs, or by the next one that starts."""
    first, second = disk(tmp_path), disk(tmp_path)
    put(first, MINE)
    put(second, YOURS)
    first.close()
    wait_until(lambda: lanes(tmp_path) == ["1"] and all(second.exists(MINE)))
    assert readable(second, [*MINE, *YOURS]) == [*MINE, *YOURS]
    second.close()
    with disk(tmp_path) as third:
        assert lanes(tmp_path) == ["0"]
        assert readable(third, [*MINE, *YOURS]) == [*MINE, *YOURS]


def test_what_an_ended_process_did_not_seal_is_sealed_by_its_heir(tmp_path, monkeypatch):
    """No later start scans it again, and its fsync policy is kept."""

    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    keys = keys_of(range(200))
    with disk(tmp_path, fsync="seal") as heir:
        with monkeypatch.context() as killed:
            killed.setattr(journal, "seal", refuse)
            with disk(tmp_path) as other:
                put(other, keys)
        wait_until(lambda: len(heir._mount.journal._closed) >= 3)
        wait_until(lambda: not heir._mount.journal.num_unsealed)

        assert all(segment.sealed for segment in heir._mount.journal._closed)
        assert readable(heir, keys) == keys


def test_many_lanes_left_behind_become_one(tmp_path):
    """Nothing is lost and nothing is left over."""
    tiers = [disk(tmp_path) for _ in range(4)]
    for number, tier in enumerate(tiers):
        put(tier, keys_of(range(number * 10, number * 10 + 10)))
    for tier in reversed(tiers):
        tier.close()
    with disk(tmp_path) as tier:
        assert lanes(tmp_path) == ["0"]
        assert readable(tier, keys_of(range(40))) == keys_of(range(40))
