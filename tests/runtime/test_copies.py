import sys
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvengine.plan.chunks import chunk_copies
from kvengine.runtime.cache import allocate
from kvengine.runtime.copies import CpuMover
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.rows import Move, rows_from_tensors, rows_of
from tests.runtime.plans import Shape, make, name, plans

HOST_BYTES = 1 << 14


def fill(cache):
    """Every byte of the cache another pseudo-random value."""
    generator = torch.Generator().manual_seed(1)
    for allocation in cache.allocations:
        allocation.copy_(
            torch.randint(0, 256, allocation.shape, dtype=torch.uint8, generator=generator)
        )


@st.composite
def moves_of(draw, plan):
    """Chunks of any group, at places of one or several runs, that do not touch each other."""
    moves = []
    start = draw(st.integers(0, 9))
    free = {group: list(range(plan.num_blocks)) for group in range(len(plan.groups))}
    for _ in range(draw(st.integers(0, 5))):
        group = draw(st.integers(0, len(plan.groups) - 1))
        slots = plan.offload.blocks_per_chunk[group]
        first = draw(st.integers(0, slots - 1))
        blocks = draw(st.permutations(free[group]))[: draw(st.integers(0, slots - first))]
        for other in free.values():
            other[:] = [block for block in other if block not in blocks]
        place = []
        left = plan.offload.chunk_bytes[group]
        while left:
            size = draw(st.sampled_from([left, left, max(1, left // 2), 1]))
            start += draw(st.sampled_from([0, 0, 8, 3])) if place or moves else 0
            place.append((start, size))
            start += size
            left -= size
        moves.append(Move(group, blocks, tuple(place), first))
    return moves


def bytes_of(host, place):
    return b"".join(bytes(host.view(start, size)) for start, size in place)


def reference(plan, cache, move):
    """The bytes that a chunk's blocks must have in its host slot, copy by copy of the plan."""
    slot = bytearray(plan.offload.chunk_bytes[move.group])
    for copy in chunk_copies(plan, move.group, move.blocks, first_block=move.first_block):
        source = cache.allocations[copy.allocation].numpy()
        stop = copy.offset_bytes + copy.num_bytes
        slot[copy.slot_offset_bytes : copy.slot_offset_bytes + copy.num_bytes] = source[
            copy.offset_bytes : stop
        ].tobytes()
    return bytes(slot)


@settings(max_examples=200)
@given(st.data())
def test_a_store_writes_exactly_the_planned_copies(data):
    """Host memory gets the bytes that the plan's copies name, and nothing else changes."""
    plan = data.draw(plans())
    moves = data.draw(moves_of(plan))
    cache, host = allocate(plan), HostMemory(HOST_BYTES)
    fill(cache)
    before = [allocation.clone() for allocation in cache.allocations]

    CpuMover([rows_of(cache, g) for g in range(len(plan.groups))], host).store(moves)

    written = 0
    for move in moves:
        assert bytes_of(host, move.place) == reference(plan, cache, move)
        written += sum(size for _, size in move.place)
    for move in moves:
        for start, size in move.place:
            host.view(start, size)[:] = bytes(size)
    assert not host.bytes.any()
    assert all(map(torch.equal, before, cache.allocations))


@settings(max_examples=200)
@given(st.data())
def test_a_load_writes_exactly_the_blocks_asked_for(data):
    """The blocks get the bytes of their places; every other byte of the cache stays."""
    plan = data.draw(plans())
    moves = data.draw(moves_of(plan))
    cache, host = allocate(plan), HostMemory(HOST_BYTES)
    host.bytes[:] = np.random.default_rng(1).integers(0, 256, HOST_BYTES, dtype=np.uint8)
    fill(cache)
    expected = [allocation.clone() for allocation in cache.allocations]
    for move in moves:
        slot = torch.tensor(list(bytes_of(host, move.place)), dtype=torch.uint8)
        for copy in chunk_copies(plan, move.group, move.blocks, first_block=move.first_block):
            expected[copy.allocation][copy.offset_bytes : copy.offset_bytes + copy.num_bytes] = (
                slot[copy.slot_offset_bytes : copy.slot_offset_bytes + copy.num_bytes]
            )

    CpuMover([rows_of(cache, g) for g in range(len(plan.groups))], host).load(moves)

    assert all(map(torch.equal, expected, cache.allocations))


@given(st.data())
def test_every_layout_has_the_same_host_bytes(data):
    """A chunk stored from one layout loads into another: case R26."""
    shapes = [Shape(pages=(24, 24, 24), blocks_per_chunk=2), Shape(pages=(24, 24))]
    store, load = data.draw(st.permutations(["pools", "packed", "layer-outer"]))[:2]
    source, target = allocate(make(store, shapes, 6)), allocate(make(load, shapes, 6))
    fill(source)
    host = HostMemory(4096)
    groups = range(len(shapes))
    moves = [Move(0, [4, 1], ((0, 144),)), Move(1, [3], ((256, 48),))]

    CpuMover([rows_of(source, g) for g in groups], host).store(moves)
    CpuMover([rows_of(target, g) for g in groups], host).load(moves)

    for move in moves:
        for layer in range(len(shapes[move.group].pages)):
            layer = name(move.group, layer)
            for block in move.blocks:
                assert torch.equal(source.layers[layer][block], target.layers[layer][block])


def test_foreign_tensors_are_joined_where_they_touch():
    """Adjacent strided views are one lane, others their own; the row order is that given."""
    block = torch.arange(4 * 48, dtype=torch.uint8).view(4, 48)
    alone = torch.arange(4 * 16, dtype=torch.int8).view(4, 16)
    rows = rows_from_tensors([block[:, :16], block[:, 16:40], alone, block[:, 40:]])

    assert [(lane.num_bytes, lane.row_offset_bytes) for lane in rows.lanes] == [
        (40, 0),
        (16, 40),
        (8, 56),
    ]
    assert (rows.row_bytes, rows.num_blocks) == (64, 4)

    host = HostMemory(4096)
    CpuMover([rows], host).store([Move(0, [2], ((0, 64),))])
    expected = torch.cat([block[2, :40], alone[2].view(torch.uint8), block[2, 40:]])
    assert bytes(host.view(0, 64)) == bytes(expected.tolist())


def test_tensors_that_are_no_pages_are_refused():
    """Elements wider than a byte, or bytes that are not contiguous, are an error."""
    for bad in (torch.zeros(4, 4), torch.zeros(8, 4, dtype=torch.uint8).t(), torch.zeros(4).byte()):
        with pytest.raises(ValueError) as error:
            rows_from_tensors([bad])
        assert str(error.value) == (
            "pages are (num_blocks, bytes) tensors of bytes, contiguous per block"
        )


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Move(0, [4], ((0, 32),)), "blocks of group 0 are 0 to 3, not 0 to 4"),
        (Move(0, [-1, 2], ((0, 64),)), "blocks of group 0 are 0 to 3, not -1 to 2"),
        (Move(0, [1, 2], ((0, 32),)), "a chunk of group 0 has 1 blocks, not 0 to 1"),
        (Move(0, [1], ((0, 32),), 1), "a chunk of group 0 has 1 blocks, not 1 to 1"),
    ],
)
def test_ids_are_checked_before_a_copy(move, message):
    """A block or a place out of range is an error, and no byte has moved: case R05."""
    cache, host = allocate(make("packed", [Shape(pages=(32,))], 4)), HostMemory(4096)
    fill(cache)
    mover = CpuMover([rows_of(cache, 0)], host)
    good = Move(0, [0], ((1024, 32),))

    for act in (mover.store, mover.load):
        with pytest.raises(ValueError) as error:
            act([good, move])
        assert str(error.value) == message
    assert not host.bytes.any()


@pytest.mark.parametrize("layout", ["packed", "pools"])
@pytest.mark.parametrize("direction", ["store", "load"])
def test_other_threads_run_while_bytes_are_copied(layout, direction):
    """A copy of few large pieces leaves the interpreter to others: one sees it half done."""
    pages = 8 << 20
    cache, host = allocate(make(layout, [Shape(pages=(pages,))], 4)), HostMemory(4 * pages)
    mover = CpuMover([rows_of(cache, 0)], host)
    moves = [Move(0, [block], ((block * pages, pages),)) for block in range(4)]
    device = cache.allocations[0].numpy()
    source, target = (device, host.bytes) if direction == "store" else (host.bytes, device)

    def is_seen_half_done():
        target[:], source[:] = 0, 1
        thread = threading.Thread(target=getattr(mover, direction), args=[moves])
        thread.start()
        while not target[0]:
            time.sleep(0)
        half_done = not target[-1]
        thread.join()
        return half_done and bool(target.all())

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(60)  # nobody is made to give the interpreter away
    try:
        assert any(is_seen_half_done() for _ in range(50))
    finally:
        sys.setswitchinterval(switch_s)
