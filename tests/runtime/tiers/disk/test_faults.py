"""Whatever the file system does ends in misses and a log line (R10, R12, R19, R21)."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import shutil
import subprocess
import time

import pytest

from kvengine.runtime.tiers.base import Outcome, TierError
from kvengine.runtime.tiers.disk import journal
from kvengine.runtime.tiers.health import Guarded
from tests.runtime.tiers.kit import (
    DONE,
    MIB,
    FaultyFiles,
    bytes_below,
    disk,
    get,
    keys_of,
    put,
    readable,
    segments,
    wait_until,
)

KEYS = keys_of(range(20))
NUMBERS = [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT]


@pytest.fixture
def files():
    return FaultyFiles()


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
def test_a_write_that_fails_is_a_failure_and_costs_nothing_else(tmp_path, files, number, caplog):
    """Chunks stored before are there; later stores work; the error is named with its path."""
    with disk(tmp_path, files=files) as tier:
        put(tier, KEYS[:5])
        files.fail["pwritev"] = number
        assert put(tier, KEYS[5:10]) == (Outcome.FAILED,) * 5
        assert tier.exists(KEYS[5:10]) == [False] * 5
        assert readable(tier, KEYS[:5]) == KEYS[:5]
        files.fail.clear()

        assert set(put(tier, KEYS)) == {DONE}
        assert readable(tier, KEYS) == KEYS
        assert tier.stats().failures == {errno.errorcode[number]: 5}
    lines = [line for line in caplog.messages if "cannot be written" in line]
    assert lines
    assert os.strerror(number) in lines[0]
    assert str(tmp_path) in lines[0]


def test_an_index_that_cannot_be_written_is_said_once_and_missed_by_nobody(
    tmp_path, files, monkeypatch, caplog
):
    """The next start scans the segment instead."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    keys = keys_of(range(200))
    with monkeypatch.context() as faulty:
        faulty.setattr(journal, "seal", refuse)
        with disk(tmp_path, files=files) as tier:
            put(tier, keys)
            wait_until(lambda: "stays without an index" in caplog.text)
            time.sleep(0.3)
    lines = [line for line in caplog.messages if "stays without an index" in line]

    assert len(lines) == len(set(lines)) == len(segments(tmp_path))
    with disk(tmp_path) as tier:
        assert readable(tier, keys) == keys


@pytest.mark.parametrize("number", NUMBERS[:1] + NUMBERS[3:4], ids=errno.errorcode.get)
def test_a_read_that_fails_is_a_failure_once_and_a_miss_from_then_on(
    tmp_path, files, number, caplog
):
    """So that whoever asks again makes progress (R19)."""
    with disk(tmp_path, files=files) as tier:
        put(tier, KEYS)
        files.fail["preadv"] = number
        assert get(tier, KEYS[:3])[0] == (Outcome.FAILED,) * 3
        files.fail.clear()
        assert tier.exists(KEYS[:4]) == [False] * 3 + [True]
        assert get(tier, KEYS[:3])[0] == (Outcome.MISS,) * 3

        assert readable(tier, KEYS) == KEYS[3:]
        assert set(put(tier, KEYS)) == {DONE}
    lines = [line for line in caplog.messages if "cannot be read" in line]
    assert len(lines) == 1
    assert os.strerror(number) in lines[0]


def test_one_bad_block_costs_one_chunk(tmp_path, files):
    """Neighbours of a chunk that cannot be read are read one by one."""

    class BadBlock(FaultyFiles):
        bad: range | None = None

        def preadv(self, fd, buffers, offset):
            end = offset + sum(map(len, buffers))
            if self.bad and offset < self.bad.stop and self.bad.start < end:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().preadv(fd, buffers, offset)

    files = BadBlock()
    with disk(tmp_path, files=files, n_write_threads=1) as tier:
        put(tier, KEYS[:4])
        files.bad = range(8192 + 16384, 8192 + 16384 + 4096)

        assert len(readable(tier, KEYS[:4])) == 3


def test_a_segment_that_cannot_be_opened_is_dropped_whole(tmp_path, files):
    """Its chunks are misses, known as such at once."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
    with disk(tmp_path, files=files) as tier:
        for path in segments(tmp_path):
            path.unlink()
        tier._mount.device.descriptors.close()
        get(tier, KEYS[:1])

        assert not any(tier.exists(KEYS))
        wait_until(lambda: set(put(tier, KEYS)) == {DONE})
        assert readable(tier, KEYS) == KEYS


def test_a_tier_that_fails_is_left_alone_and_comes_back(tmp_path, files):
    """Under guard it is out of service after a few failures, and in again when a probe works."""
    with Guarded(disk(tmp_path, files=files), most_failures=5, pause_s=0.05) as tier:
        put(tier, KEYS[:5])
        files.fail["pwritev"] = errno.EROFS
        put(tier, KEYS[5:10])
        assert not tier.in_service
        calls = len(files.calls)
        assert put(tier, KEYS[5:10]) == (Outcome.REFUSED,) * 5
        assert get(tier, KEYS[:5])[0] == (Outcome.MISS,) * 5
        assert tier.stats().in_service is False
        assert len(files.calls) <= calls + 3
        files.fail.clear()
        wait_until(lambda: tier.in_service)

        assert readable(tier, KEYS[:5]) == KEYS[:5]
        assert set(put(tier, KEYS)) == {DONE}


def test_a_full_disk_is_said_once_and_stops_nothing_else(tmp_path, files, caplog):
    """The oldest chunks leave, and what others write is still found."""
    mine = keys_of(range(1000, 1200))
    theirs = keys_of(range(2000, 2010))
    with disk(tmp_path, files=files) as tier, disk(tmp_path) as other:
        for start in range(0, 200, 20):
            put(tier, mine[start : start + 20])
        files.fail["allocate"] = errno.ENOSPC
        for start in range(3000, 3400, 20):
            assert set(put(tier, keys_of(range(start, start + 20)))) == {DONE}
        put(other, theirs)

        wait_until(lambda: tier.exists(theirs) == [True] * 10)
        assert sum("cannot grow" in message for message in caplog.messages) == 1
        assert tier.stats().evictions > 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_is_on_a_full_disk_is_still_found(tmp_path, files, number, caplog):
    """Opened when not a byte can be written; once there is room, it is written again."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
    files.fail = {"pwritev": number, "allocate": number}
    with disk(tmp_path, files=files) as tier:
        assert readable(tier, KEYS) == KEYS
        assert put(tier, keys_of([1])) == (DONE,)  # it is there
        assert put(tier, keys_of([99])) == (Outcome.FAILED,)
        files.fail = {}

        assert put(tier, keys_of([99])) == (DONE,)
    assert any("is full" in message for message in caplog.messages)


def test_direct_io_that_is_demanded_is_not_given_up_on_a_full_disk(tmp_path, files):
    """Then the tier does not open."""
    files.fail = {"pwritev": errno.ENOSPC}
    with pytest.raises(TierError, match="No space left"):
        disk(tmp_path, files=files, direct=True)


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request, tmp_path):
    """A file system of 24 MiB with nothing else on it."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]
    if request.param == "ext4":
        image = tmp_path / "image"
        image.write_bytes(bytes(24 * MIB))
        make = ["mkfs.ext4", "-q", "-m", "0", image]
        if not shutil.which("mkfs.ext4") or subprocess.run(make, check=False).returncode:
            pytest.skip("mkfs.ext4 is not there")
        mount = ["mount", "-o", "loop", image, place]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full_costs_the_oldest_chunks(small_disk):
    """The limit promises more than there is; others fill the rest; nothing wrong is read."""
    keys = keys_of(range(1500))
    with disk(small_disk / "tier", max_bytes=64 * MIB) as tier:
        outcomes = [put(tier, keys[start : start + 20]) for start in range(0, 1500, 20)]
        with (small_disk / "rest").open("wb") as rest, contextlib.suppress(OSError):
            while rest.write(bytes(64 << 10)):
                rest.flush()
        before = readable(tier, keys)
        assert {outcome for some in outcomes for outcome in some} == {DONE}
        assert put(tier, keys_of([9999])) == (DONE,)
    with disk(small_disk / "tier", max_bytes=64 * MIB) as tier:
        assert len(before) > 600
        assert set(readable(tier, keys)) <= set(before)
        assert readable(tier, keys_of([9999])) == keys_of([9999])


def test_a_directory_that_vanishes_is_noticed_and_found_again(tmp_path, caplog):
    """Chunks are misses and puts fail, nothing hangs; when it is back the tier goes on."""
    root = tmp_path / "root"
    with disk(root) as tier:
        put(tier, KEYS)
        wait_until(lambda: _removed(root))
        wait_until(lambda: tier.stats().in_service is False)
        assert not any(tier.exists(KEYS))
        assert get(tier, KEYS[:2])[0] == (Outcome.MISS,) * 2
        assert put(tier, KEYS[:2]) == (Outcome.FAILED,) * 2
        assert not tier.probe(1)
        root.mkdir()
        wait_until(lambda: put(tier, KEYS) == (DONE,) * len(KEYS))

        assert readable(tier, KEYS) == KEYS
    assert any(line.endswith("is gone: its chunks are misses") for line in caplog.messages)
    assert any(line.endswith("is back") for line in caplog.messages)


def test_a_directory_emptied_by_somebody_is_noticed(tmp_path):
    """Its space is free at once: no deleted file stays open for long."""
    with disk(tmp_path) as tier:
        put(tier, keys_of(range(200)))
        wait_until(lambda: _emptied(tmp_path))  # the tier makes files meanwhile
        wait_until(lambda: not any(tier.exists(KEYS)))
        # Until it is noticed, what is stored goes where the rest went.
        wait_until(lambda: set(put(tier, KEYS)) == {DONE} and readable(tier, KEYS) == KEYS)

        assert bytes_below(tmp_path) < 3 * MIB


def test_files_that_somebody_removed_stop_nothing_for_long(tmp_path):
    """Not even while the next segment was to be one of them."""
    numbers = itertools.count()
    with disk(tmp_path, max_bytes=8 * MIB) as tier:

        def fill(times):
            outcomes = [put(tier, keys_of(itertools.islice(numbers, 20))) for _ in range(times)]
            return all(set(some) == {DONE} for some in outcomes)

        fill(50)
        for path in segments(tmp_path):
            path.unlink(missing_ok=True)
        wait_until(lambda: fill(50))
        assert fill(100)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=errno.errorcode.get)
def test_a_chunk_that_cannot_be_moved_on_keeps_no_segment_from_its_sync(tmp_path, files, number):
    """Each step of looking after the directory is tried, whatever became of those before it."""
    numbers = itertools.count()
    with disk(tmp_path, files=files, fsync="seal", max_bytes=8 * MIB) as tier:
        journal = tier._mount.journal

        def fill():
            keys = keys_of(itertools.islice(numbers, 8))
            put(tier, keys)
            tier._mount.catalog.find(keys)  # wanted, so that the cleaner moves them on

        while tier.stats().evictions < 60:
            fill()
        wait_until(lambda: not journal.num_unsealed and journal.num_spares)
        files.fail["preadv"] = number
        synced, active = files.calls.count("datasync"), journal._active
        while journal._active is active:
            fill()
        wait_until(lambda: not journal.num_unsealed)

    assert files.calls.count("datasync") > synced


def _removed(root):
    """Whether all of it is gone now; the tier may make a file while the rest is removed."""
    shutil.rmtree(root, ignore_errors=True)
    return not root.exists()


def _emptied(place):
    for path in place.iterdir():
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return not any(place.iterdir())


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_bytes(b""), "{} cannot be used as a disk tier: Not a directory"),
        (lambda path: None, "{}/below/it cannot be used as a disk tier: No such file or directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_at_the_start(tmp_path, prepare, message):
    """With the reason."""
    path = tmp_path / "place"
    prepare(path)
    root = path if path.exists() else path / "below" / "it"
    if root != path:
        path.symlink_to("/proc/self/fd/nowhere")
    with pytest.raises(TierError) as caught:
        disk(root)

    assert str(caught.value).startswith(message.format(path)[:60])


def test_a_read_only_place_is_refused_at_the_start(tmp_path, files):
    """Nothing can be stored there."""
    files.fail["pwritev"] = errno.EROFS
    with pytest.raises(TierError) as caught:
        disk(tmp_path, files=files)

    assert os.strerror(errno.EROFS) in str(caught.value)


def test_random_faults_never_give_wrong_bytes(tmp_path, files):
    """Thousands of calls, a tenth of them failing: what is DONE is right, the limit holds."""
    chance = random.Random(7)

    class Fickle(FaultyFiles):
        armed = False

        def _meet(self, call):
            if self.armed and chance.random() < 0.1:
                number = chance.choice(NUMBERS)
                raise OSError(number, os.strerror(number))

        def pwritev(self, fd, buffers, offset):
            if self.armed and chance.random() < 0.1:
                super().pwritev(fd, buffers[:1], offset)  # torn
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().pwritev(fd, buffers, offset)

    files = Fickle()
    keys = keys_of(range(300))
    tried = 0
    with disk(tmp_path, files=files, max_bytes=6 * MIB) as tier:
        files.armed = True
        for _ in range(150):
            some = chance.sample(keys, 10)
            outcomes = put(tier, some)
            assert set(outcomes) <= {DONE, Outcome.FAILED, Outcome.REFUSED}
            tried += len(readable(tier, chance.sample(keys, 10)))
            assert bytes_below(tmp_path) <= 6 * MIB
        files.armed = False
        readable(tier, keys)
        assert set(put(tier, keys)) == {DONE}
    with disk(tmp_path, max_bytes=6 * MIB) as tier:
        assert len(readable(tier, keys)) > 100

    assert tried > 100
