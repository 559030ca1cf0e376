import json

import pytest
from attrs import evolve

from kvengine.runtime.bench import BenchError, run_bench
from kvengine.runtime.engine import OffloadEngine
from tests.runtime.memory_tier import MemoryTier
from tests.runtime.plans import Shape, make

SHAPES = (Shape(pages=(4096,) * 3, blocks_per_chunk=2), Shape(pages=(4096,) * 2))


def bench(*plans, **options):
    first, *also = plans
    return run_bench(first, also, memory_bytes=3 << 20, seconds=0.05, book_chunks=200, **options)


def test_the_report_has_every_group_direction_and_policy():
    """The JSON has issue 5's shape; each byte moved was verified."""
    seen = []
    report = bench(
        make("packed", SHAPES, 500),
        make("pools", SHAPES, 500),
        progress=lambda what, share: seen.append((what, share)),
    )
    data = json.loads(json.dumps(report.to_dict()))

    assert list(data) == ["version", "usable_share", "transfers", "bookkeeping"]
    assert data["version"] == 1
    assert data["usable_share"] >= 0.95
    assert [(t["group"], t["layout"], t["direction"]) for t in data["transfers"]] == [
        (group, layout, direction)
        for layout in ("packed", "pools")
        for group in (0, 1)
        for direction in ("store", "load")
    ]
    for transfer in data["transfers"]:
        assert list(transfer) == [
            "tier",
            "group",
            "layout",
            "direction",
            "bytes",
            "seconds",
            "limit_bytes_per_s",
            "ratio",
        ]
        speed = transfer["bytes"] / transfer["seconds"]
        assert transfer["ratio"] == pytest.approx(speed / transfer["limit_bytes_per_s"], abs=1e-3)
    assert {(b["operation"], b["policy"]) for b in data["bookkeeping"]} == {
        (operation, policy)
        for operation in ("lookup", "load", "store")
        for policy in ("lru", "arc", "s3fifo")
    }
    assert report.verified_bytes > 0
    assert seen[0] == ("packed: group 0", 0.0)
    assert seen[-1] == ("done", 1.0)


def test_a_plan_without_chunks_is_measured_block_by_block():
    """No connector is needed to try a layout."""
    report = bench(evolve(make("packed", SHAPES, 100), offload=None))

    assert len(report.transfers) == 4


def test_a_tier_behind_is_measured_too():
    """Its transfers bear its name, and it is closed afterwards."""
    tier = MemoryTier("shelf")
    report = bench(make("packed", SHAPES, 100), tier=tier)

    names = [(t.tier, t.direction) for t in report.transfers if t.group == 0]
    assert names == [("host", "store"), ("host", "load"), ("shelf", "store"), ("shelf", "load")]
    assert tier.closed


def test_a_wrong_byte_ends_the_bench(monkeypatch):
    """An engine that loads something else is found out."""
    load = OffloadEngine.load

    def twisted(self, keys, blocks, first_blocks=None):
        return load(self, keys, list(reversed(blocks)), first_blocks)

    monkeypatch.setattr(OffloadEngine, "load", twisted)
    with pytest.raises(BenchError) as error:
        bench(make("packed", (Shape(pages=(4096,)),), 100))
    assert str(error.value) == "group 0 came back with wrong bytes in layer 0"
