"""A rank's transfers: blocks and places as moves, in the right order, failures as marks."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvengine.integrations.vllm.jobs import Board, Mark
from kvengine.integrations.vllm.worker import Geometry, Transfers
from kvengine.runtime.copies import CpuMover, Mover
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.rows import rows_from_tensors

ROW = 64


def gpu(blocks, sizes, firsts):
    return SimpleNamespace(
        block_ids=np.array(blocks, dtype=np.int32), group_sizes=sizes, block_indices=firsts
    )


def geometry(*, per_chunk=2, rows=(ROW, ROW), starts=(0, 0)):
    return Geometry(per_chunk, rows, lambda: starts)


@given(
    per_chunk=st.integers(1, 4),
    groups=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
)
def test_every_block_goes_to_its_own_part_of_its_chunk(per_chunk, groups):
    """Block ``i`` of a request is row ``i % n`` of its chunk ``i // n``, of ``n`` blocks."""
    sizes, firsts = [count for _, count in groups], [first for first, _ in groups]
    wanted, places, block = {}, [], 0
    for group, (first, count) in enumerate(groups):
        if not count:
            continue
        for chunk in range(first // per_chunk, (first + count - 1) // per_chunk + 1):
            start = 10_000 * len(places)
            places.append(((start, per_chunk * ROW),))
            for index in range(
                max(first, chunk * per_chunk), min(first + count, (chunk + 1) * per_chunk)
            ):
                wanted[block] = (group, start + (index % per_chunk) * ROW)
                block += 1
    moves = geometry(per_chunk=per_chunk, rows=[ROW] * len(groups), starts=[0] * len(groups)).moves(
        list(range(block)), sizes, firsts, places
    )
    found = {
        b: (move.group, move.place[0][0] + (move.first_block + i) * ROW)
        for move in moves
        for i, b in enumerate(move.blocks)
    }

    assert found == wanted


def test_a_rank_uses_its_own_part_of_a_chunk():
    """The second rank's bytes stand behind the first one's, also across runs of a place."""
    (move,) = geometry(rows=(ROW,), starts=(100,)).moves([5], [1], [0], [((0, 110), (500, 200))])

    assert move.place == ((100, 10), (500, 118))


def test_places_that_do_not_match_the_blocks_are_refused():
    """Nothing is copied when scheduler and rank disagree about chunks (case R22)."""
    with pytest.raises(ValueError, match="a job of 2 chunks came with 1 places"):
        geometry(rows=(ROW,), starts=(0,)).moves([1, 2, 3], [3], [0], [((0, 128),)])


def test_a_group_without_layers_on_this_rank_moves_nothing():
    """With pipeline stages a rank may have no layer of a group."""
    assert geometry(rows=(0,), starts=(0,)).moves([1], [1], [0], [((0, 128),)]) == []


@pytest.fixture
def rank():
    tensors = [torch.randint(-128, 127, (8, ROW), dtype=torch.int8) for _ in range(2)]
    host = HostMemory(1 << 16)
    mover = CpuMover([rows_from_tensors([tensor]) for tensor in tensors], host)
    board = Board(memoryview(bytearray(64)), 2)
    transfers = Transfers(mover, geometry(), board, 1)
    yield SimpleNamespace(tensors=tensors, host=host, board=board, transfers=transfers)
    transfers.close()


def test_stored_blocks_come_back(rank):
    """Both groups, stored and loaded elsewhere; the rest of the cache stays as it was."""
    places = [((0, 128),), ((4096, 128),)]
    rank.transfers.submit(1, 3, places, gpu([0, 1, 2, 3], [2, 2], [0, 0]), stores=True)
    rank.transfers.wait([1])
    before = [tensor.clone() for tensor in rank.tensors]
    rank.transfers.submit(2, 4, places, gpu([6, 7, 5], [2, 1], [0, 1]), stores=False)
    rank.transfers.wait([2])

    assert torch.equal(rank.tensors[0][6:8], before[0][0:2])
    assert torch.equal(rank.tensors[1][5], before[1][3])
    assert torch.equal(rank.tensors[0][:6], before[0][:6])
    assert torch.equal(rank.tensors[1][[0, 1, 2, 3, 4, 6, 7]], before[1][[0, 1, 2, 3, 4, 6, 7]])
    assert [(r.job, r.num_bytes, r.fit) for r in rank.transfers.finished()] == [
        (1, 4 * ROW, True),
        (2, 3 * ROW, True),
    ]
    assert rank.transfers.finished() == []
    assert (rank.board._memory[32 + 3], rank.board._memory[32 + 4]) == (Mark.DONE, Mark.DONE)


def test_a_store_that_fails_is_marked_and_told_as_finished(rank, caplog):
    """vLLM would end the engine otherwise; the scheduler reads the mark."""
    rank.transfers.submit(1, 3, [((0, 128),)], gpu([99], [1, 0], [0, 0]), stores=True)
    rank.transfers.wait([1])

    assert [result.fit for result in rank.transfers.finished()] == [True]
    assert rank.board._memory[32 + 3] == Mark.FAILED
    assert "store job 1 failed: ValueError" in caplog.text


def test_a_load_that_fails_is_told(rank):
    """It was promised: there is no way to answer without its bytes."""
    rank.transfers.submit(1, 3, [((0, 128),)], gpu([99], [1, 0], [0, 0]), stores=False)
    rank.transfers.wait([1])

    assert [result.fit for result in rank.transfers.finished()] == [False]


class Recorder(Mover):
    """Stores wait for a sign; notes what is done."""

    def __init__(self):
        self.done = []
        self.go = threading.Event()

    def store(self, moves, fence=None):
        self.go.wait(10)
        self.done.append(("store", moves[0].place[0][0]))

    def load(self, moves, fence=None):
        self.done.append(("load", moves[0].place[0][0]))


@pytest.fixture
def slow():
    mover, board = Recorder(), Board(memoryview(bytearray(64)), 2)
    transfers = Transfers(mover, geometry(rows=(ROW,), starts=(0,)), board, 0)

    def submit(job, start, *, stores, first=False):
        place = [((start, 128),)]
        transfers.submit(job, job, place, gpu([1], [1], [0]), stores=stores, first=first)

    yield SimpleNamespace(mover=mover, transfers=transfers, submit=submit)
    mover.go.set()
    transfers.close()


def test_a_load_does_not_wait_for_stores(slow):
    """A request waits for a load; nobody waits for a store."""
    slow.submit(1, 0, stores=True)
    slow.submit(2, 512, stores=False)
    slow.transfers.wait([2])

    assert slow.mover.done == [("load", 512)]


def test_jobs_with_a_place_in_common_keep_their_order(slow):
    """After a reset a place may be written again while an old job still uses it."""
    slow.submit(1, 512, stores=True)
    slow.submit(2, 512, stores=False)
    slow.submit(3, 512, stores=True)
    slow.submit(4, 0, stores=False, first=True)
    slow.transfers.wait([4])
    slow.mover.go.set()
    slow.transfers.wait([1, 2, 3])

    assert slow.mover.done == [("load", 0), ("store", 512), ("load", 512), ("store", 512)]


def test_closing_finishes_what_is_queued(slow):
    """No thread is left, and no job is forgotten."""
    slow.mover.go.set()
    for job in range(5):
        slow.submit(job, 512 * job, stores=job % 2 == 0)
    slow.transfers.close()

    assert sorted(start for _, start in slow.mover.done) == [0, 512, 1024, 1536, 2048]
    assert sorted(result.job for result in slow.transfers.finished()) == [0, 1, 2, 3, 4]
    assert not any(thread.name.startswith("kvengine-") for thread in threading.enumerate())
