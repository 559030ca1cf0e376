"""The limit is hard and counts everything; full means that the oldest leaves (R16, R17)."""

from __future__ import annotations

import contextlib
import errno
import itertools
import threading
import time

import pytest

from kvengine.runtime.tiers.base import Outcome, TierError
from kvengine.runtime.tiers.disk.root import Root
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    DONE,
    MIB,
    FaultyFiles,
    bytes_below,
    disk,
    identity,
    keys_of,
    put,
    readable,
    segments,
    wait_until,
)

LIMIT = 8 * MIB
MANY = keys_of(range(1500))  # 24 MiB


def fill(tier, keys=MANY, root=None, most=LIMIT):
    for start in range(0, len(keys), 20):
        assert set(put(tier, keys[start : start + 20])) == {DONE}
        if root is not None:
            assert bytes_below(root) <= most


def test_the_limit_holds_at_every_moment_and_the_newest_stay(tmp_path):
    """Three times the limit goes through; the tail of it is there."""
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        fill(tier, root=tmp_path)
        stats = tier.stats()
        found = readable(tier, MANY)

    assert found == MANY[-len(found) :]
    assert len(found) == stats.resident_chunks
    assert len(found) * CHUNK_BYTES > 0.6 * LIMIT
    assert stats.evictions == len(MANY) - len(found)
    assert (stats.capacity_bytes, stats.resident_bytes) == (LIMIT, len(found) * CHUNK_BYTES)
    assert bytes_below(tmp_path) <= LIMIT


def test_the_files_of_the_oldest_are_used_again(tmp_path):
    """Nothing grows and no new file is made once the limit is reached."""
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        fill(tier, MANY[:600])
        before = _files(tmp_path)
        fill(tier, MANY[600:])

        assert _files(tmp_path) == before


def _files(root):
    """What segments lie in, and will lie in."""
    return {path.stem for path in root.glob("*/*/*") if path.suffix in (".seg", ".new")}


def test_chunks_that_were_asked_for_outlive_those_that_were_not(tmp_path):
    """The clock moves what was wanted on; the rest goes, oldest first."""
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        wanted = MANY[:20]
        fill(tier, wanted)
        for start in range(20, 1400, 20):
            readable(tier, wanted)
            put(tier, MANY[start : start + 20])
            wait_until(lambda: tier._mount.journal.num_spares or not tier._mount.space.full)

        assert readable(tier, wanted) == wanted
        assert not any(tier.exists(MANY[20:60]))


def test_a_moved_chunk_is_found_again_after_a_restart(tmp_path):
    """Its newest place counts."""
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        fill(tier, MANY[:40])
        for start in range(40, 1000, 20):
            readable(tier, MANY[:40])
            put(tier, MANY[start : start + 20])
        wait_until(lambda: tier._mount.journal.num_spares)
        found = readable(tier, MANY)  # nothing leaves meanwhile
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        again = readable(tier, MANY)

    assert set(found) <= set(again)


def test_a_smaller_limit_is_kept_from_the_start(tmp_path):
    """Opened with less, the tier gives up its oldest segments."""
    with disk(tmp_path, max_bytes=16 * MIB) as tier:
        fill(tier, MANY[:900])
    assert bytes_below(tmp_path) > LIMIT
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        assert bytes_below(tmp_path) <= LIMIT
        found = readable(tier, MANY[:900])

        assert found == MANY[900 - len(found) : 900]
        fill(tier, MANY[900:], tmp_path)


def test_another_segment_size_takes_over_step_by_step(tmp_path):
    """Old segments stay readable until they are the oldest; the limit holds all the time."""
    with disk(tmp_path, max_bytes=16 * MIB) as tier:
        fill(tier, MANY[:900])
    with disk(tmp_path, max_bytes=16 * MIB, segment_bytes=2 * MIB) as tier:
        assert len(readable(tier, MANY[:900])) > 700
        fill(tier, MANY[900:], tmp_path, 16 * MIB)
    sizes = {path.stat().st_size for path in segments(tmp_path)}

    assert 2 * MIB in sizes


def test_what_a_killed_process_left_half_made_is_counted_and_removed(tmp_path):
    """Files without content, scratch files, drafts."""
    with disk(tmp_path) as tier:
        fill(tier, MANY[:10])
    lane = segments(tmp_path)[0].parent
    (lane / "0123456789abcdef.seg").write_bytes(bytes(3 * MIB))
    (lane / "probe.tmp").write_bytes(bytes(MIB))
    (lane.parent / "identity.123.tmp").write_bytes(bytes(MIB))
    with disk(tmp_path) as tier:
        names = {path.name for path in tmp_path.rglob("*")}

        assert "0123456789abcdef.seg" not in names
        assert "probe.tmp" not in names
        assert readable(tier, MANY[:10]) == MANY[:10]


def test_orphaned_namespaces_give_way(tmp_path):
    """Space held by identities that nobody uses is reclaimed when it is needed, oldest first."""
    for number in range(3):
        with disk(tmp_path, identity(model=f"old-{number}"), max_bytes=LIMIT) as old:
            fill(old, MANY[:80])
    assert len({path.parent for path in segments(tmp_path)}) == 3
    with disk(tmp_path, max_bytes=LIMIT) as tier:
        fill(tier, MANY[:600], tmp_path)
        left = {path.parent.parent.name for path in segments(tmp_path)}

        assert left == {identity().digest}
        assert len(readable(tier, MANY[:600])) > 300
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [identity().digest]


def test_orphans_go_before_our_own_when_the_limit_shrinks(tmp_path):
    """The warm start is kept; what no engine owns makes the room, at once."""
    old, new = identity(model="old"), identity(model="new")
    for who in (old, new):
        with disk(tmp_path, who) as tier:
            fill(tier, MANY[:200])
    with disk(tmp_path, new, max_bytes=6 * MIB) as tier:
        assert bytes_below(tmp_path) <= 6 * MIB
        assert readable(tier, MANY[:200]) == MANY[:200]


def test_a_file_that_is_renamed_while_it_is_counted_is_counted(tmp_path):
    """Another owner renames its files at any moment, and holds no lock for that."""
    with disk(tmp_path) as tier:
        fill(tier, MANY[:200])
    files = FaultyFiles()
    root = Root(files, str(tmp_path), make_dir=False)
    truth = root.used_bytes()
    listed = files.list_dir
    renames = [1, 2, 3]

    def list_and_rename(dir_fd):
        names = listed(dir_fd)
        paths = [path for path in tmp_path.glob("*/*/*") if path.name in names and path.suffix]
        if paths and renames:
            renames.pop()
            paths[0].rename(paths[0].with_suffix(".new" if paths[0].suffix == ".seg" else ".seg"))
        return names

    files.list_dir = list_and_rename
    assert root.used_bytes() == truth
    assert renames == []
    root.close()


def test_two_that_share_a_directory_never_pass_the_limit(tmp_path):
    """Whatever either renames while the other counts."""
    most = []
    with disk(tmp_path, max_bytes=LIMIT) as one, disk(tmp_path, max_bytes=LIMIT) as other:

        def store(tier, first):
            for start in range(first, first + 3000, 20):
                put(tier, keys_of(range(start, start + 20)))

        threads = [
            threading.Thread(target=store, args=(tier, first))
            for tier, first in ((one, 0), (other, 10_000))
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most.append(bytes_in_files(tmp_path))
            time.sleep(0.001)

    assert max(most) <= LIMIT


def bytes_in_files(root):
    """What segments occupy; each stem counts once, also if its file is renamed meanwhile."""
    sizes = {}
    for path in root.glob("*/*/*"):
        with contextlib.suppress(FileNotFoundError):
            sizes[path.stem] = path.lstat().st_size
    return sum(sizes.values())


def test_a_namespace_in_use_is_not_reclaimed(tmp_path):
    """Its owner keeps its fair share; both stay within the limit together."""
    with (
        disk(tmp_path, max_bytes=12 * MIB) as first,
        disk(tmp_path, identity(rank=1), max_bytes=12 * MIB) as second,
    ):
        fill(first, MANY[:1000], tmp_path, 12 * MIB)

        def second_stores():
            assert bytes_below(tmp_path) <= 12 * MIB
            return set(put(second, MANY[:20])) == {DONE}

        wait_until(second_stores)
        assert len(readable(first, MANY)) > 100
        starts = itertools.count(0, 20)

        def both_have_much():
            for tier in (first, second):
                put(tier, keys_of(range(start := next(starts), start + 20)))
                assert bytes_below(tmp_path) <= 12 * MIB
            return all(tier.stats().resident_chunks > 100 for tier in (first, second))

        wait_until(both_have_much)


def test_no_room_at_all_is_a_refusal_not_a_failure(tmp_path, caplog):
    """Another process holds everything and does not give: this one does without, and says so."""
    with (
        disk(tmp_path, max_bytes=LIMIT, refresh_s=3600) as first,
        disk(tmp_path, identity(rank=1), max_bytes=LIMIT) as second,
    ):
        fill(first, MANY[:700])

        assert put(second, MANY[:2]) == (Outcome.REFUSED,) * 2
        assert second.stats().failures == {"NOROOM": 1} or second.stats().failures["NOROOM"] >= 1
    assert any("finds no room" in line for line in caplog.messages)


def test_a_full_file_system_makes_the_oldest_leave(tmp_path, caplog):
    """ENOSPC when growing: what the tier has is used again, and stores go on (R16)."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        fill(tier, MANY[:300])
        files.fail["allocate"] = errno.ENOSPC
        fill(tier, MANY[300:900])
        found = readable(tier, MANY[:900])

        assert found == MANY[900 - len(found) : 900]
    assert any("cannot grow" in line and "No space left" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_bytes": 8 * MIB, "segment_bytes": 2 * MIB},
            "max_bytes of 8 MiB is too small: 4 segments of 2 MiB and 1 MiB must fit",
        ),
        (
            {"who": identity(2 * MIB)},
            "segment_bytes of 1 MiB is too small for a chunk of 2 MiB; it takes 2.02 MiB",
        ),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path, options, message):
    """Before anything is written."""
    with pytest.raises(TierError) as caught:
        disk(tmp_path, **options)

    assert str(caught.value) == message


def test_without_a_limit_the_free_space_decides(tmp_path):
    """Nine tenths of it, and what the tier has."""
    with disk(tmp_path, max_bytes=None) as tier:
        assert tier.stats().capacity_bytes > 16 * MIB
