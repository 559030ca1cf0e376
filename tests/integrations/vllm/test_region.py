"""The shared region: ranks meet in it, agree about it, and leave nothing behind."""

import multiprocessing
import os

import pytest

from kvengine.integrations.vllm.jobs import Board, Mark
from kvengine.integrations.vllm.region import TICKETS, Region, RegionError, sweep

MIB = 1 << 20


def join(folder, *, ranks=2, groups=3, data_bytes=MIB):
    return Region.open(
        "engine", world_size=ranks, num_groups=groups, data_bytes=data_bytes, folder=folder
    )


def test_what_one_writes_the_other_reads(tmp_path):
    """Two mappings of one region show the same data, marks and note."""
    first, second = join(tmp_path), join(tmp_path)
    first.data[100:103] = b"abc"
    first.write_note("a note")
    Board(first.marks, 2).set(1, 7, Mark.FAILED)

    assert bytes(second.data[100:103]) == b"abc"
    assert second.read_note() == "a note"
    assert second.marks[TICKETS + 7] == Mark.FAILED
    assert (first.created, second.created) == (True, False)
    first.close()
    second.close()


def test_sizes_are_those_that_every_rank_registered(tmp_path):
    """The scheduler reads the bytes of each group, rank by rank."""
    ranks = [join(tmp_path), join(tmp_path)]
    ranks[1].register(1, [10, 20, 0])
    ranks[0].register(0, [1, 2, 3])

    assert join(tmp_path).registered(1.0) == [(1, 2, 3), (10, 20, 0)]


def test_a_rank_that_never_joins_is_named(tmp_path):
    """Ranks on another machine cannot share the memory: that is said, and nothing hangs."""
    region = join(tmp_path)
    region.register(0, [1, 2, 3])

    with pytest.raises(RegionError) as caught:
        region.registered(0.05)

    assert str(caught.value) == (
        "ranks [1] of 2 did not join the host region within 0.05 s: all ranks of one engine must"
        f" run on one node and share {tmp_path}"
    )


def test_ranks_that_disagree_are_refused(tmp_path):
    """A rank with another budget would cut the memory otherwise."""
    first = join(tmp_path)

    with pytest.raises(RegionError, match="ranks disagree about the host region"):
        join(tmp_path, data_bytes=2 * MIB)
    first.close()


def test_memory_that_is_not_there_is_refused_at_once(tmp_path, monkeypatch):
    """Before any is taken: nobody else finds the file system full for a moment."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *asked: pytest.fail(f"took {asked}"))
    free = os.statvfs(tmp_path)
    too_much = (free.f_bavail * free.f_frsize) + (1 << 40)

    with pytest.raises(RegionError) as caught:
        join(tmp_path, data_bytes=too_much)

    assert "cannot reserve" in str(caught.value)
    assert "docker --shm-size" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unlinked_region_lives_while_it_is_mapped(tmp_path):
    """The scheduler removes the name: who has the memory keeps it, and no file is left."""
    first, second = join(tmp_path), join(tmp_path)
    first.unlink()
    first.data[0] = 42

    assert second.data[0] == 42
    assert list(tmp_path.iterdir()) == []


def test_a_region_is_reserved_to_the_byte(tmp_path):
    """The file takes the data, and less than 1 % beside it for books."""
    region = join(tmp_path, data_bytes=64 * MIB)
    taken = region.path.stat().st_blocks * 512

    assert 64 * MIB <= taken <= 64.64 * MIB
    region.close()


def _leave_behind(folder):
    join(folder)
    os._exit(9)


def test_what_a_crash_left_is_swept_and_what_is_used_is_not(tmp_path):
    """A region without users is removed by the next engine; one in use is not."""
    ended = multiprocessing.get_context("fork").Process(target=_leave_behind, args=(tmp_path,))
    ended.start()
    ended.join()
    assert len(list(tmp_path.iterdir())) == 1
    other = Region.open("other", world_size=1, num_groups=1, data_bytes=MIB, folder=tmp_path)

    assert list(tmp_path.iterdir()) == [other.path]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [other.path]
    other.close()
