import weakref
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import kvengine.runtime.cache
from kvengine.plan.chunks import chunk_ranges
from kvengine.runtime import allocate
from kvengine.runtime.available import NotEnoughMemoryError, host_available_bytes
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.shrink import shrink
from tests.runtime.plans import LAYOUTS, Shape, make, plans

GPT = (Shape(pages=(32,) * 4, sliding_window=128, kind="window"), Shape(pages=(32,) * 3))


@given(plans())
def test_allocated_bytes_are_the_plans(plan):
    """One uint8 tensor per allocation, of exactly the planned size, zeroed."""
    cache = allocate(plan)

    assert tuple(tensor.nbytes for tensor in cache.allocations) == plan.allocations
    assert cache.num_bytes == sum(plan.allocations)
    assert all(tensor.dtype == torch.uint8 for tensor in cache.allocations)
    assert not any(tensor.any() for tensor in cache.allocations)


@given(plans())
def test_views_are_the_slots_bytes_without_a_copy(plan):
    """Page ``b`` of a layer is the byte range that its slot names."""
    cache = allocate(plan)

    for slot in plan.slots:
        pages = cache.layers[slot.layer]
        assert pages.shape == (plan.num_blocks, slot.page_bytes)
        for block in range(plan.num_blocks):
            start = cache.allocations[slot.allocation].data_ptr() + slot.page(block).start
            assert pages[block].data_ptr() == start


@given(plans(), st.data())
def test_writing_a_page_changes_no_other_page_of_a_live_block(plan, data):
    """Pages of the same group, and pages of other blocks of any group, keep their bytes."""
    cache = allocate(plan)
    slot = data.draw(st.sampled_from(plan.slots))
    block = data.draw(st.integers(0, plan.num_blocks - 1))

    cache.layers[slot.layer][block].fill_(255)

    for other in plan.slots:
        for b in range(plan.num_blocks):
            same_group = other.group == slot.group
            written = b == block and other.layer == slot.layer
            if written:
                assert cache.layers[other.layer][b].eq(255).all()
            elif same_group or b != block:
                assert not cache.layers[other.layer][b].any()


def test_a_packed_row_is_one_contiguous_run():
    """Packed, the pages of a block and group are next to each other; else one run per layer."""
    packed, unpacked = make("packed", GPT, 8), make("layer-outer", GPT, 8)

    assert [r.num_bytes for r in chunk_ranges(packed, 0, (3,))] == [128]
    assert [r.num_bytes for r in chunk_ranges(unpacked, 0, (3,))] == [32] * 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_typed_views_alias_the_pages(layout):
    """A typed view has the backend's shape and shares the bytes."""
    cache = allocate(make(layout, (Shape(pages=(128, 128)),), 4))

    view = cache.typed("group0.layer1", torch.bfloat16, 2, 4, 2, 4)
    view[2] = 1.5

    assert view.shape == (4, 2, 4, 2, 4)
    assert cache.layers["group0.layer1"][2].view(torch.bfloat16).eq(1.5).all()
    assert not cache.layers["group0.layer0"].any()


def test_padding_stays_out_of_a_typed_view():
    """A shape smaller than the page leaves the page's end alone."""
    cache = allocate(make("packed", (Shape(pages=(128,)),), 4))

    view = cache.typed("group0.layer0", torch.float32, 3, 5)
    view.fill_(1.0)

    assert not cache.layers["group0.layer0"][:, 60:].any()


def test_a_typed_view_that_does_not_fit_is_refused():
    """The message gives the page's bytes and what the shape takes."""
    cache = allocate(make("packed", (Shape(pages=(128,)), Shape(pages=(66,))), 4))

    with pytest.raises(ValueError) as error:
        cache.typed("group0.layer0", torch.float32, 3, 11)
    assert str(error.value) == (
        "a page of group0.layer0 has 128 bytes, (3, 11) of torch.float32 takes 132"
    )

    odd = allocate(make("packed", (Shape(pages=(66,)),), 4))
    with pytest.raises(ValueError) as error:
        odd.typed("group0.layer0", torch.float32, 16)
    assert str(error.value) == "the pages of group0.layer0 are not aligned for torch.float32"


def test_too_little_memory_says_what_was_asked_and_what_is_there():
    """A plan beyond the machine is refused before anything is taken."""
    plan = make("pools", (Shape(pages=(1 << 40, 1 << 40)),), 8)

    with pytest.raises(NotEnoughMemoryError) as error:
        allocate(plan)

    assert error.value.asked_bytes == 2 * 8 << 40
    assert 0 < error.value.available_bytes < 1 << 44
    assert str(error.value).startswith("the KV cache asks for 17592186044416 bytes (16 TiB), ")


def test_a_failed_allocation_frees_what_it_had_taken(monkeypatch):
    """When the second allocation fails, the first one is gone."""
    taken = []

    def fail_second(num_bytes):
        if taken:
            raise OSError(12, "Cannot allocate memory")
        memory = HostMemory(num_bytes)
        taken.append(weakref.ref(memory.bytes))
        return memory

    monkeypatch.setattr(kvengine.runtime.cache, "HostMemory", fail_second)
    with pytest.raises(NotEnoughMemoryError):
        allocate(make("pools", (Shape(pages=(64, 64)),), 8))

    assert taken[0]() is None


def test_a_whole_pipeline_is_not_allocated():
    """The caller picks a rank."""
    plan = make("packed", GPT, 4)

    with pytest.raises(ValueError) as error:
        allocate(evolve(plan, ranks=(plan,)))

    assert str(error.value) == "the plan is of a whole pipeline; allocate one of its ranks"


@given(plans(min_blocks=2), st.data())
def test_a_shrunk_plan_is_the_plan_of_fewer_blocks(plan, data):
    """Shrinking gives what planning with fewer blocks gives, in every layout."""
    num_blocks = data.draw(st.integers(1, plan.num_blocks))
    shapes = [
        Shape(
            pages=tuple(s.page_bytes for s in plan.slots if s.group == g),
            blocks_per_chunk=plan.offload.blocks_per_chunk[g],
        )
        for g in range(len(plan.groups))
    ]
    small = shrink(plan, num_blocks)
    planned = make(plan.layout, shapes, num_blocks)

    assert (small.slots, small.allocations) == (planned.slots, planned.allocations)
    assert small.num_blocks == num_blocks


def test_a_plan_does_not_shrink_to_more():
    """A larger or an empty pool is refused."""
    with pytest.raises(ValueError) as error:
        shrink(make("packed", GPT, 4), 5)
    assert str(error.value) == "num_blocks must be 1 to 4, not 5"


def test_a_control_group_limits_what_is_available(tmp_path: Path):
    """The least of the kernel's figure and the room in each control group counts."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:   800 kB\n")
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    (cgroup / "a" / "b").mkdir(parents=True)
    (cgroup / "a" / "b" / "memory.max").write_text("max\n")
    (cgroup / "a" / "b" / "memory.current").write_text("5\n")
    (cgroup / "a" / "memory.max").write_text("7000\n")
    (cgroup / "a" / "memory.current").write_text("1000\n")

    assert host_available_bytes(proc, cgroup) == 6000

    (cgroup / "a" / "memory.max").write_text("max\n")
    assert host_available_bytes(proc, cgroup) == 800 * 1024

    (proc / "self" / "cgroup").write_text("3:cpu,memory:/x\n")
    (cgroup / "memory" / "x").mkdir(parents=True)
    (cgroup / "memory" / "x" / "memory.limit_in_bytes").write_text("900\n")
    (cgroup / "memory" / "x" / "memory.usage_in_bytes").write_text("1000\n")
    assert host_available_bytes(proc, cgroup) == 0
