"""Jobs and their marks: nothing is given back before every rank is through."""

import pytest

from kvengine.integrations.vllm.jobs import Board, Jobs, Mark


@pytest.fixture
def board():
    return Board(memoryview(bytearray(3 * 8)), 3)


def test_a_job_is_open_until_every_rank_is_through(board):
    """The worst mark counts, and only the ranks that take part are asked."""
    board.set(0, 5, Mark.DONE)
    assert board.read(3, 5) is Mark.OPEN
    assert board.read(1, 5) is Mark.DONE
    board.set(1, 5, Mark.FAILED)
    board.set(2, 5, Mark.DONE)

    assert board.read(3, 5) is Mark.FAILED
    board.clear(5)
    assert board.read(3, 5) is Mark.OPEN


def test_a_failed_store_is_told_by_its_chunks(board):
    """vLLM reports keys; the job that they belong to, and its marks, are found by them."""
    jobs = Jobs(board)
    good, bad = jobs.store([b"a", b"b"], ranks=3), jobs.store([b"c"], ranks=3)
    for rank in range(3):
        board.set(rank, good.ticket, Mark.DONE)
        board.set(rank, bad.ticket, Mark.FAILED if rank == 1 else Mark.DONE)

    assert list(jobs.stored({b"a", b"b"})) == [(good, True)]
    assert list(jobs.stored([b"c"])) == [(bad, False)]
    assert list(jobs.stored([b"c"])) == []
    assert len(jobs) == 0


def test_a_load_is_found_by_request_and_chunks(board):
    """vLLM reports the chunks as a set; the job keeps their order."""
    jobs = Jobs(board)
    job = jobs.load([b"b", b"a"], "request", ranks=3)

    assert jobs.loaded({b"a"}, "request") is None
    assert jobs.loaded({b"a", b"b"}, "another") is None
    assert jobs.loaded({b"a", b"b"}, "request") is job
    assert job.keys == (b"b", b"a")


def test_abandoned_jobs_are_closed_by_their_marks(board):
    """After a reset nobody reports them: a ticket is free again when all ranks marked it."""
    jobs = Jobs(board)
    job = jobs.store([b"a"], ranks=2)
    jobs.abandon()
    board.set(0, job.ticket, Mark.DONE)
    assert list(jobs.finished()) == []
    board.set(1, job.ticket, Mark.FAILED)

    assert list(jobs.finished()) == [job]
    assert list(jobs.stored([b"a"])) == []
    assert board.read(1, job.ticket) is Mark.OPEN


def test_there_are_as_many_jobs_as_tickets(board):
    """When all are taken nothing can be started, until one is closed."""
    jobs = Jobs(board)
    opened = [jobs.store([bytes([i])], ranks=1) for i in range(8)]

    assert jobs.full
    board.set(0, opened[3].ticket, Mark.DONE)
    assert list(jobs.stored([bytes([3])])) == [(opened[3], True)]
    assert not jobs.full
