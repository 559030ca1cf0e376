import contextlib
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvengine.runtime.cache import allocate
from kvengine.runtime.copies import CpuMover
from kvengine.runtime.memory import HostMemory
from kvengine.runtime.rows import Move, rows_of
from kvengine.runtime.staged import StagedMover
from tests.runtime.plans import Shape, make, plans
from tests.runtime.test_copies import HOST_BYTES, bytes_of, fill, moves_of

gpu = pytest.mark.gpu
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@settings(max_examples=150)
@given(st.data())
def test_staging_moves_what_direct_copies_move(data):
    """Through a buffer of any size, or directly, a store and a load give the same bytes."""
    plan = data.draw(plans())
    moves = data.draw(moves_of(plan))
    cache, host, other = allocate(plan), HostMemory(HOST_BYTES), HostMemory(HOST_BYTES)
    fill(cache)
    rows = [rows_of(cache, group) for group in range(len(plan.groups))]
    staged = StagedMover(
        rows,
        host,
        staging_bytes=data.draw(st.sampled_from([1, 200, 1 << 20])),
        direct_bytes=data.draw(st.sampled_from([1, 50, 1 << 20])),
    )

    staged.store(moves)
    CpuMover(rows, other).store(moves)
    assert bytes(host.bytes) == bytes(other.bytes)

    before = [allocation.clone() for allocation in cache.allocations]
    for move in moves:
        for lane in rows[move.group].lanes:
            lane.pages[list(move.blocks)] = 0
    staged.load(moves)
    assert all(map(torch.equal, before, cache.allocations))


class Accelerator:
    """What torch has for an accelerator that is not CUDA; notes what is asked of it, in order."""

    def __init__(self):
        self.asked = []

    def device(self, device):
        return contextlib.nullcontext()

    stream = device

    def Stream(self, device):  # noqa: N802
        return SimpleNamespace(wait_event=lambda event: self.asked.append(("wait", event)))

    def current_stream(self, device):
        return "the caller's stream"

    def Event(self):  # noqa: N802
        def note(what):
            return lambda *stream: self.asked.append((what, event, *stream))

        event = SimpleNamespace()
        event.record, event.synchronize = note("record"), note("synchronize")
        return event

    def synchronize(self, device):
        self.asked.append("synchronize")


def test_another_accelerator_moves_through_its_own_streams(monkeypatch):
    """XPU has no way to pin memory; order is kept by its events, as with CUDA (case R02)."""
    api = Accelerator()
    monkeypatch.setattr(torch, "get_device_module", lambda device: api)
    plan = make("pools", [Shape(pages=(64,) * 3, blocks_per_chunk=2)], 8)
    cache, host = allocate(plan), HostMemory(1 << 16)
    fill(cache)
    before = [allocation.clone() for allocation in cache.allocations]
    from kvengine.runtime.cuda import CudaMover

    mover = CudaMover([rows_of(cache, 0)], host)
    moves = [Move(0, [6, 1], ((0, plan.offload.chunk_bytes[0]),))]
    fence = mover.fence()
    mover.store(moves, fence)
    for block in (6, 1):
        for pages in cache.layers.values():
            pages[block] = 0
    mover.load(moves, mover.fence())
    mover.close()

    assert all(map(torch.equal, before, cache.allocations))
    assert api.asked[0] == ("record", fence, "the caller's stream")
    assert api.asked[1] == ("wait", fence)
    assert [what for what, *_ in api.asked[2:4]] == ["record", "synchronize"]
    assert api.asked[-1] == "synchronize"


@gpu
@needs_cuda
@pytest.mark.parametrize("layout", ["packed", "pools", "layer-outer"])
@pytest.mark.parametrize("page_bytes", [24, 4096, 1 << 20])
def test_cuda_moves_come_back(layout, page_bytes):
    """Bytes stored from a CUDA cache come back after the cache was overwritten."""
    plan = make(layout, [Shape(pages=(page_bytes,) * 3, blocks_per_chunk=2)], 8)
    cache, host = allocate(plan, "cuda"), HostMemory(32 << 20)
    before = [allocation.random_(0, 256).clone() for allocation in cache.allocations]
    mover_rows = [rows_of(cache, 0)]
    from kvengine.runtime.cuda import CudaMover

    mover = CudaMover(mover_rows, host)
    size = plan.offload.chunk_bytes[0]
    moves = [
        Move(0, [6, 1], ((0, size),)),
        Move(0, [3, 4], ((size, size // 2), (3 * size, size - size // 2))),
    ]
    mover.store(moves, mover.fence())
    kept = [bytes_of(host, move.place) for move in moves]
    for block in (6, 1, 3, 4):
        for pages in cache.layers.values():
            pages[block] = 0
    mover.load(moves, mover.fence())

    assert all(map(torch.equal, before, cache.allocations))
    assert [bytes_of(host, move.place) for move in moves] == kept
    mover.close()


@gpu
@needs_cuda
def test_a_store_waits_for_the_kernels_before_it():
    """What the compute stream writes before the fence is what is stored: case R02."""
    plan = make("packed", [Shape(pages=(1 << 20,))], 4)
    cache, host = allocate(plan, "cuda"), HostMemory(4 << 20)
    from kvengine.runtime.cuda import CudaMover

    mover = CudaMover([rows_of(cache, 0)], host)
    torch.cuda._sleep(200_000_000)
    cache.layers["group0.layer0"][2].fill_(7)
    mover.store([Move(0, [2], ((0, 1 << 20),))], mover.fence())

    assert (host.bytes[: 1 << 20] == 7).all()
    mover.close()


@gpu
@needs_cuda
def test_cuda_has_too_little_memory_for_a_petabyte():
    """A plan beyond the card is refused, and the card is as free as before."""
    from kvengine.runtime.available import NotEnoughMemoryError

    before, _ = torch.cuda.mem_get_info()
    with pytest.raises(NotEnoughMemoryError):
        allocate(make("packed", [Shape(pages=(1 << 50,))], 1), "cuda")
    assert torch.cuda.mem_get_info()[0] == before
