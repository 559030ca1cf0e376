"""What holds of every plan, whatever the model, release, layout and memory."""

from __future__ import annotations

from itertools import pairwise

from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvengine.errors import PlanError
from kvengine.plan.chunks import chunk_copies, chunk_ranges
from tests.plan.engines import engine, outcome, transfer

MODELS = (
    "llama-3.1-8b",
    "gpt-oss-20b",
    "gemma-3-27b-it",
    "gemma-4-e2b-it",
    "llama-4-scout-17b-16e",
    "deepseek-v3.2",
    "deepseek-v4-flash",
    "qwen3-next-80b-a3b",
    "granite-4.0-h-tiny",
    "kimi-linear-48b",
)

engines = st.builds(
    engine,
    st.sampled_from(MODELS),
    st.sampled_from(("0.24", "0.26", "0.28", "0.29", "0.31", "0.32", "0.33")),
    dtype=st.sampled_from(("auto", "fp8")),
    memory=st.integers(4 << 30, 24 << 30),
    kv_transfer=st.sampled_from(
        (None, transfer(), transfer(blocks_per_chunk=3, enable_cross_layers_blocks=True))
    ),
)
packings = st.sampled_from(("engine", "always", "never"))


def planned(config, packing):
    plan = outcome(config, packing=packing)
    assume(not isinstance(plan, PlanError))
    return plan


def pages(plan, group, block):
    """The pages of one block of a group: allocation and bytes, in order of address."""
    found = [s for s in plan.slots if s.group == group]
    return sorted((s.allocation, s.page(block).start, s.page(block).stop) for s in found)


@settings(max_examples=60)
@given(config=engines, packing=packings, data=st.data())
def test_pages_of_a_group_never_overlap(config, packing, data):
    """Two blocks of a group, and two layers of it, share no byte; all lie inside."""
    plan = planned(config, packing)
    blocks = {0, plan.num_blocks - 1, data.draw(st.integers(0, plan.num_blocks - 1))}

    for group in range(len(plan.groups)):
        found = sorted(page for block in blocks for page in pages(plan, group, block))

        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(found))
        assert all(0 <= start < stop <= plan.allocations[a] for a, start, stop in found)


@settings(max_examples=60)
@given(config=engines, packing=packings)
def test_every_layer_has_one_slot_of_its_group(config, packing):
    """Slots stand in the order of the groups' layers; their pages add up to the row."""
    plan = planned(config, packing)

    for index, group in enumerate(plan.groups):
        slots = [slot for slot in plan.slots if slot.group == index]
        assert [slot.layer for slot in slots] == list(group.layers)
        assert sum(slot.page_bytes for slot in slots) == group.row_bytes
        assert group.row_bytes <= plan.bytes_per_block


@settings(max_examples=60)
@given(config=engines, packing=packings)
def test_blocks_fill_the_memory_and_one_more_would_not_fit(config, packing):
    """The allocations are all blocks, and less than a block is left over."""
    plan = planned(config, packing)

    assert sum(plan.allocations) == plan.num_blocks * plan.bytes_per_block
    assert 0 <= config.cache.memory - sum(plan.allocations) < plan.bytes_per_block


@settings(max_examples=40)
@given(config=engines)
def test_packed_rows_are_one_range_and_hold_what_unpacked_ones_do(config):
    """Packing moves pages and changes none."""
    packed, unpacked = planned(config, "always"), planned(config, "never")

    assert packed.packed
    assert not unpacked.packed
    assert [g.layers for g in packed.groups] == [g.layers for g in unpacked.groups]
    assert [g.row_bytes for g in packed.groups] == [g.row_bytes for g in unpacked.groups]
    for group in range(len(packed.groups)):
        (whole,) = chunk_ranges(packed, group, [7])
        parts = chunk_ranges(unpacked, group, [7])
        assert whole.num_bytes == sum(part.num_bytes for part in parts)


@settings(max_examples=40)
@given(config=engines, packing=packings, data=st.data())
def test_copies_fill_the_host_slot_and_touch_only_their_blocks(config, packing, data):
    """The slot is filled from its start without gaps, and the ranges are those of the chunk."""
    plan = planned(config, packing)
    ids = st.lists(st.integers(0, plan.num_blocks - 1), min_size=1, max_size=4, unique=True)
    blocks = data.draw(ids)
    first = data.draw(st.integers(0, 3))

    for group, entry in enumerate(plan.groups):
        copies = chunk_copies(plan, group, blocks, first_block=first)
        ends = [copy.slot_offset_bytes + copy.num_bytes for copy in copies]
        assert [copy.slot_offset_bytes for copy in copies] == [
            first * entry.row_bytes,
            *ends[:-1],
        ]
        assert ends[-1] == (first + len(blocks)) * entry.row_bytes
        moved = {(c.allocation, c.offset_bytes + at) for c in copies for at in (0, c.num_bytes - 1)}
        for found in chunk_ranges(plan, group, blocks):
            assert (found.allocation, found.offset_bytes) in moved
            assert (found.allocation, found.offset_bytes + found.num_bytes - 1) in moved


@settings(max_examples=30)
@given(config=engines, packing=packings)
def test_a_fitted_length_fits_and_one_token_more_does_not(config, packing):
    """max_model_len = -1 takes the longest request that fits."""
    config = evolve(config, model=evolve(config.model, max_model_len=-1))
    config = evolve(config, cache=evolve(config.cache, memory=2 << 30))
    plan = planned(config, packing)
    endless = evolve(config, model=evolve(config.model, max_model_len=1 << 40))
    limit = int(outcome(endless, packing=packing).message.split()[-1])
    longer = evolve(config, model=evolve(config.model, max_model_len=plan.max_model_len + 1))
    tried = outcome(longer, packing=packing)

    assert plan.request_max_bytes <= 2 << 30
    assert isinstance(tried, PlanError)
    assert tried.code == ("range" if plan.max_model_len == limit else "capacity")
