"""The disk tier as its user sees it: every chunk comes back as it was, or not at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kvengine.runtime.tiers.base import Outcome, TierError
from kvengine.runtime.tiers.disk.blockio import aligned_buffer
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    DONE,
    KIB,
    MIB,
    MISS,
    FaultyFiles,
    disk,
    done,
    flip,
    get,
    identity,
    key_of,
    keys_of,
    payload_of,
    put,
    readable,
    segments,
    wait_until,
)

KEYS = keys_of(range(32))


@pytest.fixture
def tier(tmp_path):
    with disk(tmp_path) as tier:
        yield tier


@pytest.mark.parametrize("length", [1, 100, 4095, 4096, 4097, 16 * KIB, 160 * KIB + 7])
@pytest.mark.parametrize("shift", [0, 1])
def test_chunks_of_any_length_come_back(tmp_path, length, shift):
    """From any memory into any memory, aligned or not."""
    with disk(tmp_path, identity(length)) as tier:
        items = []
        for key in KEYS:
            room = memoryview(bytearray(length + shift))[shift:]
            room[:] = payload_of(key, length)
            items.append((key, room))

        assert set(done(tier.put(items))) == {DONE}
        assert readable(tier, KEYS, length) == KEYS


def test_groups_of_different_size_live_together(tmp_path):
    """Each chunk takes what its own group needs, in whole blocks (R03, R04)."""
    sizes = [4 * KIB, 24 * KIB, 100 * KIB]
    with disk(tmp_path, identity(*sizes)) as tier:
        keys = [keys_of(range(8), group) for group in range(3)]
        for some, size in zip(keys, sizes, strict=True):
            put(tier, some, size)
        for some, size in zip(keys, sizes, strict=True):
            assert readable(tier, some, size) == some

        assert tier.stats().resident_bytes == 8 * sum(sizes)


def test_a_chunk_that_is_not_there_is_a_miss(tier):
    """Alone or among others, which come."""
    put(tier, KEYS[:2])
    outcomes, _ = get(tier, [KEYS[0], key_of(99), KEYS[1]])

    assert outcomes == (DONE, MISS, DONE)
    assert tier.exists([KEYS[0], key_of(99)]) == [True, False]


def test_a_buffer_of_another_length_is_a_miss(tier):
    """Bytes are never cut or filled up."""
    put(tier, KEYS[:1])

    assert get(tier, KEYS[:1], CHUNK_BYTES - 1)[0] == (MISS,)
    assert get(tier, KEYS[:1], CHUNK_BYTES + 1)[0] == (MISS,)
    assert readable(tier, KEYS[:1]) == KEYS[:1]


def test_a_chunk_that_is_there_is_not_written_again(tier):
    """A second put is done at once."""
    put(tier, KEYS)
    written = tier.stats().stored_bytes

    assert set(put(tier, KEYS)) == {DONE}
    assert tier.stats().stored_bytes == written


def test_puts_of_one_chunk_at_the_same_time_write_it_once(tmp_path):
    """Others wait for the first and have its outcome."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        put(tier, [key_of(99)])
        files.delay["pwritev"] = 0.1
        items = [(KEYS[0], memoryview(bytearray(payload_of(KEYS[0]))))]
        batches = [tier.put(items) for _ in range(4)]

        assert [done(batch) for batch in batches] == [(DONE,)] * 4
        assert tier.stats().stores == 2


def test_the_same_key_twice_in_a_batch_is_fine(tier):
    """Put and get alike."""
    assert put(tier, [KEYS[0], KEYS[0]]) == (DONE, DONE)
    assert readable(tier, [KEYS[0], KEYS[0]]) == [KEYS[0], KEYS[0]]


def test_a_deleted_chunk_stays_deleted(tmp_path):
    """Also when the tier is opened again; others are unharmed."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
        tier.delete(KEYS[:5])
        assert tier.exists(KEYS[:6]) == [False] * 5 + [True]
        assert readable(tier, KEYS) == KEYS[5:]
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS) == KEYS[5:]
        assert set(put(tier, KEYS[:5])) == {DONE}
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS) == KEYS


def test_a_chunk_deleted_while_it_is_written_is_gone(tmp_path):
    """Now and at the next start."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        put(tier, KEYS[1:2])
        files.delay["pwritev"] = 0.1
        batch = tier.put([(KEYS[0], memoryview(bytearray(payload_of(KEYS[0]))))])
        tier.delete(KEYS[:1])
        done(batch)
        files.delay.clear()
        assert readable(tier, KEYS[:2]) == KEYS[1:2]
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS[:2]) == KEYS[1:2]


def test_neighbours_are_written_and_read_with_one_call(tmp_path):
    """A batch of small chunks is large I/O: the I/O unit is not the match unit (R27)."""
    options = {"n_read_threads": 1, "n_write_threads": 1, "max_bytes": 32 * MIB}
    with disk(tmp_path, segment_bytes=4 * MIB, **options) as tier:
        put(tier, KEYS[:16])
        readable(tier, KEYS[:16])
        sizes = tier.stats().io_sizes

    assert sizes[512 * KIB] == 1  # written with the head of the extent
    assert sizes[256 * KIB] == 1  # read without it
    assert CHUNK_BYTES not in sizes


def test_a_batch_is_shared_among_idle_threads_and_whole_when_there_is_none(tmp_path):
    """Two halves at once when both are free; else one call for all is quicker (R27)."""
    size, files = 256 * KIB, FaultyFiles()
    room = aligned_buffer(size)

    def store(tier, keys):
        return tier.put([(key, room) for key in keys])

    options = {"files": files, "segment_bytes": 16 * MIB, "max_bytes": 128 * MIB}
    with disk(tmp_path, identity(size), **options) as tier:
        wait_until(lambda: tier._workers.idle_storers == 2)
        done(store(tier, KEYS[:8]))
        halves = tier.stats().io_sizes
        files.delay["pwritev"] = 0.1
        busy = [store(tier, [key]) for key in KEYS[8:10]]
        wait_until(lambda: tier._workers.idle_storers == 0)
        for batch in [store(tier, KEYS[10:18]), *busy]:
            done(batch)
        whole = tier.stats().io_sizes

    assert (halves.get(2 * MIB), halves.get(4 * MIB)) == (2, None)
    assert (whole.get(2 * MIB), whole.get(4 * MIB)) == (2, 1)


def test_loads_do_not_wait_for_queued_stores(tmp_path):
    """Stores that take long are behind; a load comes through at once."""
    files = FaultyFiles()
    with disk(tmp_path, files=files, n_write_threads=1) as tier:
        put(tier, KEYS[:1])
        files.delay["pwritev"] = 0.3
        batches = [tier.put([(key, memoryview(bytearray(payload_of(key))))]) for key in KEYS[1:6]]
        started_s = time.monotonic()

        assert readable(tier, KEYS[:1]) == KEYS[:1]
        assert time.monotonic() - started_s < 0.3
        assert not batches[-1].done
        for batch in batches:
            done(batch)


def test_a_full_queue_refuses_and_recovers(tmp_path):
    """The caller is told; later puts are taken again (R16)."""
    files = FaultyFiles()
    with disk(tmp_path, files=files, queue_bytes=4 * CHUNK_BYTES, n_write_threads=1) as tier:
        put(tier, KEYS[:1])
        files.delay["pwritev"] = 0.05
        batches = [tier.put([(k, memoryview(bytearray(payload_of(k))))]) for k in KEYS[1:11]]
        outcomes = [done(batch)[0] for batch in batches]

        assert outcomes.count(Outcome.REFUSED) >= 4
        assert outcomes.count(DONE) >= 4
        files.delay.clear()
        assert set(put(tier, KEYS[:4])) == {DONE}


def test_a_hanging_device_ends_in_timeouts_and_keeps_the_buffers(tmp_path):
    """The batch is done at its deadline, released when the device lets go (R01, R11)."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        put(tier, KEYS[:1])
        files.delay["preadv"] = 0.3
        room = bytearray(CHUNK_BYTES)
        batch = tier.get([(KEYS[0], memoryview(room))], timeout_s=0.05)

        assert batch.wait()
        assert batch.outcomes == (Outcome.TIMEOUT,)
        assert not batch.released
        assert batch.wait_released(5)


def test_buffers_are_not_touched_after_release(tmp_path):
    """A scribbler that takes every released buffer for itself changes no chunk (R01)."""
    with disk(tmp_path, max_bytes=64 * MIB) as tier:
        scribble = memoryview(bytearray(b"\xff" * CHUNK_BYTES))
        rooms = [memoryview(bytearray(CHUNK_BYTES)) for _ in range(8)]
        keys = keys_of(range(400))
        for start in range(0, len(keys), 8):
            some = keys[start : start + 8]
            for key, room in zip(some, rooms, strict=True):
                room[:] = payload_of(key)
            batch = tier.put(list(zip(some, rooms, strict=True)))
            assert set(done(batch)) == {DONE}
            for room in rooms:
                room[:] = scribble

        assert readable(tier, keys) == keys


def test_many_threads_at_once(tmp_path):
    """Puts, gets and deletes from all sides: no wrong byte, no hanging batch."""
    with disk(tmp_path) as tier:
        problems: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                for turn in range(12):
                    keys = keys_of(range((seed + turn) % 5 * 40, (seed + turn) % 5 * 40 + 60))
                    put(tier, keys)
                    readable(tier, keys)
                    tier.delete(keys[:3])
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert problems == []


def test_keys_and_chunks_that_do_not_fit_are_refused_and_said(tier, caplog):
    """Too long a key, an empty chunk, a chunk larger than a segment."""
    room = memoryview(bytearray(2 * MIB))
    items = [(b"k" * 68, room[:16384]), (KEYS[0], room[:0]), (KEYS[1], room), (b"", room[:16384])]

    assert done(tier.put(items)) == (Outcome.REFUSED,) * 4
    assert len(caplog.messages) == 1
    assert "takes keys of 1-67 bytes and chunks of 1-" in caplog.messages[0]


def test_files_are_private_and_named_by_chance(tmp_path):
    """0700 and 0600, and no name follows from content."""
    with disk(tmp_path / "root") as tier:
        put(tier, KEYS)
        paths = [tmp_path / "root", *(tmp_path / "root").rglob("*")]

        for path in paths:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
        assert not any(key.hex()[:8] in str(path) for key in KEYS for path in paths)
        assert len(segments(tmp_path / "root")) == 1


def test_a_planted_link_is_not_followed(tmp_path):
    """Neither as a namespace nor as a lane or segment."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    with disk(root) as tier:
        put(tier, KEYS)
    segment = segments(root)[0]
    lane, namespace = segment.parent, segment.parent.parent
    (lane / "planted.seg").symlink_to(segment.name)
    with disk(root) as tier:
        assert readable(tier, KEYS) == KEYS
    (lane / "planted.seg").unlink(missing_ok=True)
    namespace.rename(elsewhere)
    namespace.symlink_to(elsewhere)
    with pytest.raises(TierError) as caught:
        disk(root)

    assert str(caught.value).startswith(f"{root} cannot be used")


def test_a_namespace_of_somebody_else_is_refused(tmp_path):
    """A directory open to others is not trusted."""
    namespace = tmp_path / identity().digest
    namespace.mkdir()
    namespace.chmod(0o777)
    with pytest.raises(TierError) as caught:
        disk(tmp_path)

    assert str(caught.value) == (
        f"{namespace} must belong to this user and be closed to others (mode 0700)"
    )


def test_close_leaves_no_thread_and_refuses_what_comes_later(tmp_path):
    """It may be called twice."""
    before = threading.active_count()
    tier = disk(tmp_path)
    put(tier, KEYS)
    tier.close()
    tier.close()

    assert threading.active_count() == before
    assert put(tier, KEYS) == (Outcome.REFUSED,) * len(KEYS)
    assert get(tier, KEYS[:1])[0] == (MISS,)
    assert tier.exists(KEYS[:1]) == [False]
    assert tier.stats().in_service is False


def test_close_finishes_what_is_queued(tmp_path):
    """Chunks taken before are there at the next start."""
    tier = disk(tmp_path)
    batch = tier.put([(key, memoryview(bytearray(payload_of(key)))) for key in KEYS])
    tier.close()

    assert set(batch.outcomes) == {DONE}
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS) == KEYS


def test_a_chunk_found_corrupt_stays_forgotten_and_can_be_stored_again(tmp_path):
    """Also after a restart: it is not taken for one that is there already."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:10])
    flip(segments(tmp_path)[0], 2 * BLOCK_BYTES + CHUNK_BYTES + 5)
    with disk(tmp_path) as tier:
        outcomes, _ = get(tier, KEYS[:10])
        bad = KEYS[outcomes.index(Outcome.CORRUPT)]
        assert outcomes.count(DONE) == 9
    with disk(tmp_path) as tier:
        assert tier.exists([bad]) == [False]
        assert put(tier, [bad]) == (DONE,)
        assert readable(tier, KEYS[:10]) == KEYS[:10]
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS[:10]) == KEYS[:10]


def test_who_finds_a_corrupt_chunk_second_does_not_take_back_its_successor(tmp_path):
    """Two read it at once; in between it was stored again, and stays, after a restart as well."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:1])
        mount = tier._mount
        (place,) = mount.catalog.find(KEYS[:1])
        assert mount.catalog.drop(place)
        put(tier, KEYS[:1])
        room = memoryview(bytearray(CHUNK_BYTES))

        assert mount.reader._verify(place, room) is Outcome.MISS
        assert readable(tier, KEYS[:1]) == KEYS[:1]


def test_a_segment_is_opened_once_though_its_file_is_renamed(tmp_path):
    """Files change their names when they are used anew; no write waits for an open."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        for start in range(0, 3000, 100):
            put(tier, keys_of(range(start, start + 100)))
        assert tier.stats().evictions > 0
        opened = files.calls.count("open")
        files_there = [*tmp_path.glob("*/*/*.seg"), *tmp_path.glob("*/*/*.new")]

    assert opened <= len(files_there)


def test_no_descriptor_is_left_open(tmp_path):
    """Opening, using and closing does not leak."""

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with disk(tmp_path) as tier:
        put(tier, KEYS)
    before = descriptors()
    for _ in range(3):
        with disk(tmp_path) as tier:
            readable(tier, KEYS)

    assert descriptors() == before


def test_what_waits_for_its_sync_stays_little(tmp_path):
    """A device that syncs slowly slows down stores: a power failure costs a few segments."""
    files = FaultyFiles()
    files.delay["datasync"] = 0.05
    with disk(tmp_path, files=files, fsync="seal") as tier:
        journal = tier._mount.journal
        unsealed = []
        for start in range(0, 1000, 20):
            put(tier, keys_of(range(start, start + 20)))
            unsealed.append(journal.num_unsealed)
        assert max(unsealed) <= 5
        wait_until(lambda: journal.num_unsealed == 0)
    assert files.calls.count("datasync") >= len(segments(tmp_path))


def test_a_probe_tells_whether_the_directory_works(tmp_path):
    """By writing and reading a scratch file, of which nothing is left."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        assert tier.probe(5)
        files.fail["pwritev"] = 30
        assert not tier.probe(5)
        files.fail.clear()
        files.delay["pwritev"] = 0.5
        assert not tier.probe(0.05)
        files.delay.clear()
        wait_until(lambda: tier.probe(5))

        assert list(tmp_path.rglob("probe*")) == []


@pytest.mark.parametrize("fsync", ["never", "seal", "put"])
def test_the_fsync_policy_is_kept(tmp_path, fsync):
    """Never, once per full segment, or before each put is done."""
    files = FaultyFiles()
    with disk(tmp_path, files=files, fsync=fsync, n_write_threads=1) as tier:
        for key in KEYS[:4]:
            put(tier, [key])
        synced = files.calls.count("datasync")
        put(tier, keys_of(range(100, 200)))
        if fsync == "seal":
            wait_until(lambda: files.calls.count("datasync") > 0)

    assert synced == (4 if fsync == "put" else 0)
    assert (files.calls.count("datasync") > synced) == (fsync != "never")
