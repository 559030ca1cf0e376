"""Block I/O moves exactly the bytes asked for, from and to any memory, in either mode."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvengine.runtime.tiers.base import Outcome, TierError
from kvengine.runtime.tiers.disk.blockio import BlockIO, DirectMode, aligned_buffer
from kvengine.runtime.tiers.disk.files import Files
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.disk.probe import probe_direct
from kvengine.units import align_up
from tests.runtime.tiers.kit import (
    FaultyFiles,
    disk,
    done,
    get,
    identity,
    key_of,
    keys_of,
    put,
    readable,
)


class Bits(Files):
    """Moves no more than a block or two per call, as a system may."""

    def preadv(self, fd, buffers, offset):
        return super().preadv(fd, [buffers[0][: 2 * BLOCK_BYTES]], offset)

    def pwritev(self, fd, buffers, offset):
        return super().pwritev(fd, [buffers[0][:BLOCK_BYTES]], offset)


@pytest.fixture(params=["direct", "direct, small calls", "buffered", "bits"])
def file(request, tmp_path):
    files = Bits() if request.param == "bits" else Files()
    dir_fd = files.open_dir(str(tmp_path))
    direct = request.param.startswith("direct")
    mode = probe_direct(files, dir_fd, str(tmp_path), direct and "auto")
    if direct and mode.memory_alignment is None:
        pytest.skip("the file system of the test's directory knows no direct I/O")
    fd = files.open("file", os.O_RDWR | os.O_CREAT | mode.flag, dir_fd)
    files.allocate(fd, 16 << 20)
    call_bytes = 3 * BLOCK_BYTES if "small" in request.param else 1 << 20
    yield BlockIO(files, mode, call_bytes), fd
    os.close(fd)
    os.close(dir_fd)


pieces = st.lists(
    st.tuples(
        st.integers(1, 3 * BLOCK_BYTES) | st.integers(1 << 20, 1 << 21),
        st.sampled_from([0, 1, 64, 512]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces, st.integers(0, 3), st.booleans())
def test_what_was_written_is_read(file, some, start, readonly):
    """Pieces of any length at any address; nothing beside them changes."""
    io, fd = file
    offset = start * BLOCK_BYTES
    out, back = [], []
    for length, shift in some:
        data = aligned_buffer(length + shift)[shift:]
        data[:] = os.urandom(length)
        out.append(memoryview(bytes(data)) if readonly else data)
        room = memoryview(bytearray(b"\xaa" * (length + shift + 8)))
        back.append(room[shift : shift + length])
    end = offset + sum(align_up(length, BLOCK_BYTES) for length, _ in some)
    guard = aligned_buffer(BLOCK_BYTES)
    guard[:] = b"g" * BLOCK_BYTES
    os.pwritev(fd, [guard], end)
    io.write(fd, offset, out, "file")
    io.read(fd, offset, back, "file")

    assert back == out
    assert all(view.obj[-8:] == b"\xaa" * 8 for view in back)
    os.preadv(fd, [guard], end)
    assert guard == b"g" * BLOCK_BYTES


def test_a_file_that_ends_early_is_an_error(file):
    """It says so instead of waiting or inventing bytes."""
    io, fd = file
    os.ftruncate(fd, 2 * BLOCK_BYTES)
    with pytest.raises(OSError) as caught:
        io.read(fd, 0, [aligned_buffer(4 * BLOCK_BYTES)], "file")

    assert caught.value.errno == errno.EIO


def test_the_mode_in_use_is_reported_by_bytes(tmp_path):
    """Direct, buffered, and copied through the bounce buffer: no claim, a count (R13)."""
    with disk(tmp_path / "auto", direct="auto") as tier:
        put(tier, keys_of(range(8)))
        auto = tier.stats().io_bytes
    with disk(tmp_path / "off", direct=False) as tier:
        put(tier, keys_of(range(8)))
        off = tier.stats().io_bytes

    assert set(off) <= {"buffered", "copied"}
    assert off["buffered"] > 8 * 16384
    assert sum(auto.get(way, 0) for way in ("direct", "buffered")) > 8 * 16384


def test_direct_io_that_is_refused_later_is_given_up_once(tmp_path, caplog):
    """One line with errno and path; the chunks are stored and loaded all the same (R12)."""
    files = FaultyFiles()
    with disk(tmp_path, files=files) as tier:
        if tier.stats().io_bytes.get("buffered"):
            pytest.skip("the file system of the test's directory knows no direct I/O")
        put(tier, keys_of(range(4)))
        files.refuse_direct = True
        keys = keys_of(range(40))

        assert {o.value for o in put(tier, keys)} == {"done"}
        assert readable(tier, keys) == keys
        assert tier.stats().io_bytes["buffered"] > 36 * 16384
    lines = [line for line in caplog.messages if "direct I/O is refused" in line]
    assert len(lines) == 1
    assert f"errno {errno.EINVAL}" in lines[0]
    assert str(tmp_path) in lines[0]


def test_direct_io_that_never_works_is_found_out_at_the_start(tmp_path):
    """The tier is buffered from the first byte, or refused if direct I/O was demanded (R11)."""
    files = FaultyFiles()
    files.refuse_direct = True
    with disk(tmp_path, files=files) as tier:
        put(tier, keys_of(range(4)))
        outcomes, _ = get(tier, keys_of(range(4)))

        assert {o.value for o in outcomes} == {"done"}
        assert "direct" not in tier.stats().io_bytes
    with pytest.raises(TierError) as caught:
        disk(tmp_path, files=files, direct=True)
    assert "direct I/O does not work in" in str(caught.value)
    assert f"errno {errno.EINVAL}" in str(caught.value)


def test_a_mode_switches_only_once(caplog):
    """Many threads may find out at the same time."""
    mode = DirectMode(512)
    for _ in range(3):
        mode.refused(OSError(errno.EINVAL, "Invalid argument"), "/there")

    assert mode.flag == 0
    assert caplog.messages == [
        "direct I/O is refused on /there (Invalid argument, errno 22): "
        "all I/O is buffered from now on"
    ]


@pytest.mark.parametrize("threads", range(1, 9))
def test_large_chunks_are_cut_at_blocks_for_any_number_of_threads(tmp_path, threads):
    """Direct I/O takes nothing else; what is refused once is buffered for good."""
    size = 5 << 20
    options = {"max_bytes": 96 << 20, "segment_bytes": 16 << 20}
    options |= {"n_read_threads": threads, "n_write_threads": threads}
    with disk(tmp_path, identity(size), **options) as tier:
        if tier._mount.device.io.mode.memory_alignment is None:
            pytest.skip("the file system of the test's directory knows no direct I/O")
        room = aligned_buffer(size)
        assert done(tier.put([(key_of(1), room)])) == (Outcome.DONE,)
        assert done(tier.get([(key_of(1), room)])) == (Outcome.DONE,)
        ways = tier.stats().io_bytes

    assert "buffered" not in ways
    assert ways["direct"] > 2 * size
