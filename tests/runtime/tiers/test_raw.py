import os

import pytest

from kvengine.config.tiers.own import DiskOptions
from kvengine.runtime.tiers.base import TierStats
from kvengine.runtime.tiers.raw import RawFile


class Some:
    """As much of a tier as is asked for: how its I/O has been so far."""

    def __init__(self, way):
        self.way = way

    def stats(self):
        return TierStats(name="fs", io_bytes={self.way: 1})


@pytest.mark.parametrize(("fsync", "syncs"), [("never", 0), ("seal", 1), ("put", 5)])
def test_a_file_is_written_as_the_tier_would(tmp_path, monkeypatch, fsync, syncs):
    """As many values in whole blocks, with its fsync policy; nothing is left behind."""
    seen = []
    monkeypatch.setattr(os, "fdatasync", seen.append)
    raw = RawFile(tmp_path, DiskOptions(root_dir="x", fsync=fsync), Some("buffered"))

    raw.put(5, 5000)
    raw.get(5, 5000)

    assert (tmp_path / "raw").stat().st_size == 5 * 8192
    assert len(seen) == syncs
    raw.close()
    assert list(tmp_path.iterdir()) == []


def test_values_go_behind_those_before_them(tmp_path):
    """As in a tier that is not full; room for the next ones is made beforehand."""
    raw = RawFile(tmp_path, DiskOptions(root_dir="x"), Some("buffered"))
    sizes = []
    for _ in range(2):
        raw.put(3, 4096)
        raw.get(3, 4096)
        raw.clear()
        sizes.append((tmp_path / "raw").stat().st_size)

    assert sizes == [6 * 4096, 9 * 4096]
    assert (tmp_path / "raw").read_bytes()[: 3 * 4096] == (tmp_path / "raw").read_bytes()[
        12288:24576
    ]


def test_a_file_is_opened_as_the_tier_opened_its_own(tmp_path, monkeypatch):
    """Direct where the tier's I/O has been direct."""
    flags = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flag, mode: flags.append(flag) or real(path, flag, mode)
    )
    for way in ("buffered", "direct"):
        raw = RawFile(tmp_path, DiskOptions(root_dir="x"), Some(way))
        try:
            raw.put(1, 4096)
        except OSError:
            pytest.skip("no direct I/O here")

    assert [bool(flag & os.O_DIRECT) for flag in flags] == [False, True]
