"""Which bytes a chunk moves."""

from __future__ import annotations

from kvengine.plan.chunks import Copy, Lane, Range, chunk_copies, chunk_ranges, copies, lanes
from kvengine.plan.make import make_plan
from tests.plan.engines import engine, transfer

PAGE = 65536
PACKED = transfer(enable_cross_layers_blocks=True)


def test_an_unpacked_chunk_is_one_range_per_layer_and_block():
    """Blocks 3 and 5 of 32 layers are 64 ranges, each a page."""
    plan = make_plan(engine())

    found = chunk_ranges(plan, 0, [5, 3])

    assert len(found) == 64
    assert found[:2] == (Range(0, 3 * PAGE, PAGE), Range(0, 5 * PAGE, PAGE))


def test_adjacent_blocks_of_a_pool_are_one_range():
    """Blocks 3 and 4 lie next to each other in every layer's pool."""
    plan = make_plan(engine())

    assert chunk_ranges(plan, 0, [3, 4])[0] == Range(0, 3 * PAGE, 2 * PAGE)


def test_a_packed_chunk_is_one_range_per_block():
    """Packed, block 3 of all layers of a group is one run of bytes."""
    plan = make_plan(engine("gpt-oss-20b", kv_transfer=PACKED))
    row = plan.groups[0].row_bytes

    assert plan.packed
    assert chunk_ranges(plan, 0, [3, 7]) == (
        Range(0, 3 * plan.bytes_per_block, row),
        Range(0, 7 * plan.bytes_per_block, row),
    )


def test_packed_blocks_in_a_row_are_one_copy():
    """Rows as wide as the block make neighbours one copy, on both sides."""
    plan = make_plan(engine("gpt-oss-20b", kv_transfer=PACKED))
    row = plan.groups[0].row_bytes

    assert row == plan.bytes_per_block
    assert chunk_copies(plan, 0, [4, 5]) == (Copy(0, 4 * row, 0, 2 * row),)
    assert chunk_copies(plan, 0, [5, 4]) == (Copy(0, 5 * row, 0, row), Copy(0, 4 * row, row, row))


def test_a_chunk_entered_in_its_middle_leaves_the_first_blocks_alone():
    """``first_block`` moves the place in the host slot, not the device's."""
    pair = (Lane(0, 0, 10, 6, 0), Lane(1, 100, 20, 4, 6))

    assert copies(pair, [2], first_block=1) == (Copy(0, 20, 10, 6), Copy(1, 140, 16, 4))


def test_no_blocks_are_no_copies():
    """A load of nothing moves nothing."""
    assert copies((Lane(0, 0, 10, 6, 0),), []) == ()


def test_lanes_of_a_packed_group_are_one_lane():
    """Layers next to each other in every block move together."""
    plan = make_plan(engine("gpt-oss-20b", kv_transfer=PACKED))

    assert lanes(plan, 1) == (Lane(0, 0, plan.bytes_per_block, plan.groups[1].row_bytes, 0),)
