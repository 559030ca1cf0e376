"""Looking into a disk tier from outside, while it is used and when it is not."""

from __future__ import annotations

import os
import time

import pytest
from attrs import evolve

from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.disk.format import BLOCK_BYTES
from kvengine.runtime.tiers.disk.inspect import collect, look, verify
from kvengine.runtime.tiers.disk.root import Root
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    MIB,
    bytes_below,
    disk,
    flip,
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
        (found,) = look(str(tmp_path)).namespaces
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
    (found,) = look(str(tmp_path)).namespaces

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
    flip(path, 2 * BLOCK_BYTES + CHUNK_BYTES + 5)
    cut = path.with_name("00000000000000aa.seg")
    cut.write_bytes(path.read_bytes()[:-BLOCK_BYTES])
    found = verify(str(tmp_path))
    (bad,) = found.bad

    assert bad.path == str(path)
    assert bad.num_bytes == CHUNK_BYTES
    assert bytes.fromhex(bad.key) in KEYS[:10]
    assert found.unreadable_segments == (str(cut),)


def test_a_chunk_that_was_written_again_is_not_held_against_the_tier(tmp_path):
    """Only the last word on a key counts, as it does for an engine."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:10])
    path = segments(tmp_path)[0]
    flip(path, 2 * BLOCK_BYTES + CHUNK_BYTES + 5)
    with disk(tmp_path) as tier:
        good = readable(tier, KEYS[:10])
        assert len(good) == 9
        put(tier, KEYS[:10])
        found = verify(str(tmp_path))

    assert (found.chunks, found.bad) == (10, ())


def test_an_empty_file_is_cleared_at_the_next_start(tmp_path):
    """As any other file that holds no segment."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:10])
    empty = segments(tmp_path)[0].with_name("00000000000000aa.seg")
    empty.touch()
    assert verify(str(tmp_path)).unreadable_segments == (str(empty),)
    with disk(tmp_path) as tier:
        assert readable(tier, KEYS[:10]) == KEYS[:10]
    assert not empty.exists()
    assert verify(str(tmp_path)).unreadable_segments == ()


def test_a_lane_that_leaves_while_somebody_looks_is_passed_over(tmp_path, monkeypatch):
    """An engine that starts takes lanes over, and verifying takes minutes."""
    with disk(tmp_path) as tier:
        put(tier, KEYS[:10])
    lanes_of = Root.lanes_of

    def with_a_ghost(root, namespace):
        found = lanes_of(root, namespace)
        return [*found, *(evolve(lane, lane="9") for lane in found)]

    monkeypatch.setattr(Root, "lanes_of", with_a_ghost)
    (namespace,) = look(str(tmp_path)).namespaces

    assert [lane.lane for lane in namespace.lanes] == ["0"]
    assert verify(str(tmp_path)).chunks == 10


def test_links_are_not_followed_but_said(tmp_path):
    """A namespace or a lane that is a link: by those who look, and by an engine of another."""
    root, elsewhere = tmp_path / "tier", tmp_path / "elsewhere"
    with disk(root) as tier:
        put(tier, KEYS[:10])
    with disk(root, identity(model="moved")) as tier:
        put(tier, KEYS[:10])
    moved = root / identity(model="moved").digest
    moved.rename(elsewhere)
    moved.symlink_to(elsewhere)
    lane = root / identity().digest / "7"
    lane.symlink_to(elsewhere)
    before = bytes_below(elsewhere)
    links = tuple(sorted([moved.name, f"{identity().digest}/7"]))

    seen, found = look(str(root)), verify(str(root))
    assert [namespace.digest for namespace in seen.namespaces] == [identity().digest]
    assert tuple(sorted(seen.closed)) == tuple(sorted(found.closed)) == links
    assert (found.chunks, found.bad) == (10, ())
    assert len(collect(str(root), unused_s=0, delete=True)) == 1
    with disk(root, identity(model="third")) as tier:
        put(tier, KEYS)
        assert readable(tier, KEYS) == KEYS
    assert bytes_below(elsewhere) == before


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
        with pytest.raises(TierError, match="has no namespace"):
            collect(str(tmp_path), unused_s=0, delete=True, namespace=old)
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

    assert str(caught.value) == f"{tmp_path} is no disk tier: it has no LOCK"
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 32]
