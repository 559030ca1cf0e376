import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from kvengine.runtime.available import NotEnoughMemoryError
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.shared import SharedMemory, SharedMemoryError, sweep

MIB = 1 << 20


@pytest.mark.parametrize("num_bytes", [33 * MIB, 64 * MIB + 1, 100_000])
def test_reserved_memory_is_the_budget_within_a_hundredth(num_bytes):
    """What the kernel says is resident is what was asked for, not a power of two: case R25."""
    memory = HostMemory(num_bytes)

    assert memory.bytes.nbytes == num_bytes
    assert num_bytes <= memory.resident_bytes() <= max(num_bytes * 1.01, num_bytes + 4095)


def test_memory_that_is_not_populated_takes_nothing_yet():
    """Pages come when they are written."""
    memory = HostMemory(64 * MIB, populate=False)
    before = memory.resident_bytes()
    memory.bytes[: 8 * MIB] = 1

    assert before == 0
    assert 8 * MIB <= memory.resident_bytes() <= 16 * MIB


def test_process_memory_grows_by_the_budget_only():
    """Measured at the whole process, after allocation: within 1 % and the noise of Python."""
    code = (
        "import re\n"
        "from kvengine.runtime.memory import HostMemory\n"
        "def rss():\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(re.search(r'VmRSS:\\s+(\\d+)', text)[1])\n"
        "HostMemory(4096)\n"
        "before = rss()\n"
        "memory = HostMemory(200 << 20)\n"
        "print((rss() - before) * 1024 / (200 << 20))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.99 <= float(out.stdout) <= 1.01


def test_no_memory_at_all_is_an_error():
    """Zero bytes make no pool."""
    with pytest.raises(ValueError) as error:
        HostMemory(0)
    assert str(error.value) == "host memory takes at least 1 byte, not 0"


def shared(folder, rank, ranks=2, num_bytes=10_000, name="test"):
    return SharedMemory(name, num_bytes, rank=rank, ranks=ranks, folder=folder)


def test_ranks_have_their_parts_of_one_file(tmp_path):
    """What one rank writes is in no other's part, and the name is gone when all have joined."""
    first = shared(tmp_path, 0)
    assert first.path.exists()
    second = shared(tmp_path, 1)
    first.bytes[:] = 1
    second.bytes[:] = 2

    assert (first.bytes == 1).all()
    assert (second.bytes == 2).all()
    assert not first.path.exists(), "no way of dying can leave it behind now"
    first.close()
    second.close()


def test_a_process_that_is_killed_leaves_nothing(tmp_path):
    """A file whose makers died before all ranks had come is removed by the next engine."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kvengine.runtime.shared import SharedMemory\n"
        "memory = SharedMemory('test', 10_000, rank=0, ranks=2, folder=Path(sys.argv[1]))\n"
        "memory.bytes[:] = 9\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert sweep(tmp_path) == [], "it is in use"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    again = shared(tmp_path, 0)
    assert not again.bytes.any(), "the dead engine's bytes are not seen"
    shared(tmp_path, 1).close()
    again.close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_engine_or_another_geometry_is_refused(tmp_path):
    """A rank joins once, and all give the same sizes: cases R09, R24."""
    first = shared(tmp_path, 0)
    with pytest.raises(SharedMemoryError) as error:
        shared(tmp_path, 0)
    assert str(error.value) == f"rank 0 has joined {first.path} already"
    with pytest.raises(SharedMemoryError) as error:
        shared(tmp_path, 1, num_bytes=50_000)
    assert str(error.value) == f"{first.path} was made for other ranks or other sizes"
    with pytest.raises(ValueError) as wrong:
        shared(tmp_path, 2)
    assert str(wrong.value) == "ranks run from 0 to 1, not 2"
    first.close()


def test_shared_memory_that_is_not_there_is_refused_at_once(tmp_path, monkeypatch):
    """A container's /dev/shm is often smaller than its memory; nothing of it is taken: R25."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *asked: pytest.fail(f"took {asked}"))
    full = os.statvfs_result((4096, 4096, 10, 5, 5, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda file: full)

    with pytest.raises(NotEnoughMemoryError) as error:
        shared(tmp_path, 0, num_bytes=50_000)

    assert str(error.value) == (
        f"host memory that ranks share in {tmp_path} asks for 110592 bytes (108 KiB), "
        "20480 (20 KiB) are available"
    )
    assert sweep(tmp_path) == [tmp_path / "kvengine-test.shared"]


def test_a_file_system_without_limit_takes_what_is_asked(tmp_path, monkeypatch):
    """A tmpfs mounted with size=0 counts no blocks."""
    limitless = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda file: limitless)

    memory = shared(tmp_path, 0)

    assert memory.bytes.nbytes == 10_000
    memory.close()


def test_a_file_that_nobody_holds_is_swept(tmp_path):
    """Also one whose maker died before it wrote anything; other files stay."""
    path = tmp_path / "kvengine-x.shared"
    path.touch()
    other = tmp_path / "x.shared"
    other.touch()

    assert sweep(tmp_path) == [path]
    assert list(tmp_path.iterdir()) == [other]


def test_views_are_the_memory_itself():
    """A memoryview writes through."""
    memory = HostMemory(1000)
    memory.view(10, 4)[:] = b"abcd"

    assert bytes(memory.bytes[10:14]) == b"abcd"
    assert np.count_nonzero(memory.bytes) == 4
