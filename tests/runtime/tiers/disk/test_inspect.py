"""Looking into a disk tier from outside, while it is used and when it is not."""

from __future__ import annotations

import os
import time

import pytest

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.disk.inspect import collect, look, verify
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    MIB,
    bytes_below,
    disk,
    identity,
    keys_of,
    put,
    readable,
    segments,
)

KEYS = keys_of(range(150))


def test_a_tier_in_use_is_listed_with_its_owner(tmp_path):
    """And is not disturbed."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
        tier.delete(KEYS[:10])
        tier.delete(KEYS[140:])
        put(tier, keys_of([1000]))
        (found,) = look(str(tmp_path))
        (lane,) = found.lanes

        assert found.digest == identity().digest
        assert found.identity == identity().ingredients()
        assert lane.owner["pid"] == os.getpid()
        assert (lane.chunks, lane.payload_bytes) == (131, 131 * CHUNK_BYTES)
        assert (lane.segments, lane.unreadable_segments) == (3, 0)
        assert lane.used_bytes >= 3 * MIB
        assert readable(tier, KEYS[10:140]) == KEYS[10:140]


def test_a_tier_that_nobody_owns_is_listed(tmp_path):
    """After its end."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
    (found,) = look(str(tmp_path))

    assert found.lanes[0].owner is None
    assert found.lanes[0].chunks == len(KEYS)


def test_an_intact_tier_verifies(tmp_path):
    """Every chunk is read."""
    with disk(tmp_path) as tier:
        put(tier, KEYS)
        steps = []
        found = verify(str(tmp_path), lambda done, total: steps.append(done / total))

    assert (found.chunks, found.payload_bytes) == (150, 150 * CHUNK_BYTES)
    assert (found.bad, found.unreadable_segments) == ((), ())
    assert steps == sorted(steps)


def test_damage_is_found_with_file_and_key(tmp_path):
    """A flipped byte in a sealed segment, and a file that is cut."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:10])
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[2 * BLOCK_BYTES + CHUNK_BYTES + 5] ^= 1
    path.write_bytes(data)
    cut = path.with_name("00000000000000aa.seg")
    cut.write_bytes(data[:-BLOCK_BYTES])
    found = verify(str(tmp_path))
    (bad,) = found.bad

    assert bad.path == str(path)
    assert bad.num_bytes == CHUNK_BYTES
    assert bytes.fromhex(bad.key) in KEYS[:10]
    assert found.unreadable_segments == (str(cut),)


def test_only_what_nobody_owns_and_nobody_used_lately_goes(tmp_path):
    """And only when told to delete."""
    for model in ("old", "new"):
        with disk(tmp_path, identity(model=model)) as tier:
            put(tier, KEYS[:5])
    old, new = (identity(model=model).digest for model in ("old", "new"))
    for path in (tmp_path / old / "0").iterdir():
        os.utime(path, (0, time.time() - 1000))
    with disk(tmp_path, identity(model="in use")):
        before = bytes_below(tmp_path)
        found = collect(str(tmp_path), unused_s=500)
        assert [lane.namespace for lane in found] == [old]
        assert bytes_below(tmp_path) == before
        collect(str(tmp_path), unused_s=500, delete=True)
        assert not (tmp_path / old).exists()
        assert bytes_below(tmp_path) <= before - MIB
        assert collect(str(tmp_path), unused_s=0, delete=True, namespace=old) == ()
        found = collect(str(tmp_path), unused_s=0, delete=True)

        assert [lane.namespace for lane in found] == [new]
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
            identity(model="in use").digest
        ]


@pytest.mark.parametrize("tool", [look, verify, lambda path: collect(path, unused_s=0)])
def test_another_directory_is_refused_and_left_alone(tmp_path, tool):
    """Nothing is made or removed where no tier is."""
    (tmp_path / ("a" * 32)).mkdir()
    with pytest.raises(TierError) as caught:
        tool(str(tmp_path))

    assert str(caught.value) == (
        f"{tmp_path} cannot be used as a disk tier: No such file or directory"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 32]
