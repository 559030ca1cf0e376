"""Plan -> tensors: one allocation each, and views of every layer's pages.

The layout is in the plan's numbers only: packed and unpacked take the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from attrs import frozen

from kvengine.plan.plan import Plan, Slot
from kvengine.runtime.available import NotEnoughMemoryError, host_available_bytes, require
from kvengine.runtime.memory import HostMemory

__all__ = ["Cache", "allocate", "pages_of"]


@frozen(eq=False)
class Cache:
    """The KV cache of one rank. It owns its allocations; every other tensor is a view of them."""

    plan: Plan
    allocations: tuple[torch.Tensor, ...]
    """One ``(bytes,) uint8`` tensor per allocation of the plan."""
    layers: Mapping[str, torch.Tensor]
    """Per layer its pages, ``(num_blocks, page_bytes) uint8``; strided when packed."""

    @property
    def device(self) -> torch.device:
        """Where the allocations are."""
        return self.allocations[0].device

    @property
    def num_bytes(self) -> int:
        """Bytes of all allocations together."""
        return sum(allocation.nbytes for allocation in self.allocations)

    def typed(self, layer: str, dtype: torch.dtype, *page: int) -> torch.Tensor:
        """A layer's pages as an attention backend sees them: ``(num_blocks, *page) dtype``.

        ``page`` is the shape of one page, say ``(2, tokens, heads, head_size)``. Padding behind
        it stays out of the view. Raises ValueError when the page does not hold that shape.
        """
        pages = self.layers[layer]
        used_bytes = prod(page) * dtype.itemsize
        if used_bytes > pages.shape[1]:
            raise ValueError(
                f"a page of {layer} has {pages.shape[1]} bytes, "
                f"{page} of {dtype} takes {used_bytes}"
            )
        try:
            return pages[:, :used_bytes].view(dtype).view(len(pages), *page)
        except RuntimeError as error:
            raise ValueError(f"the pages of {layer} are not aligned for {dtype}") from error


def allocate(plan: Plan, device: str | torch.device = "cpu") -> Cache:
    """Allocate what the plan says, zeroed, on ``device``; the bytes are exactly the plan's.

    Raises :class:`~kvengine.runtime.available.NotEnoughMemoryError`, with nothing left allocated,
    when the device has less. With pipeline stages, pass one of ``plan.ranks``.
    """
    if plan.ranks is not None:
        raise ValueError("the plan is of a whole pipeline; allocate one of its ranks")
    device = torch.device(device)
    require("the KV cache", sum(plan.allocations), _available_bytes(device))
    allocations: list[torch.Tensor] = []
    try:
        allocations.extend(_zeros(num_bytes, device) for num_bytes in plan.allocations)
    except (MemoryError, OSError, torch.OutOfMemoryError, NotEnoughMemoryError) as error:
        allocations.clear()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        raise NotEnoughMemoryError(
            "the KV cache", sum(plan.allocations), _available_bytes(device)
        ) from error
    layers = {
        slot.layer: pages_of(allocations[slot.allocation], slot, plan.num_blocks)
        for slot in plan.slots
    }
    return Cache(plan, tuple(allocations), layers)


def pages_of(allocation: torch.Tensor, slot: Slot, num_blocks: int) -> torch.Tensor:
    """The pages of a slot, ``(num_blocks, page_bytes) uint8``, a view of ``(bytes,) uint8``."""
    return allocation.as_strided(
        (num_blocks, slot.page_bytes), (slot.stride_bytes, 1), slot.offset_bytes
    )


def _zeros(num_bytes: int, device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return torch.from_numpy(HostMemory(num_bytes).bytes)
    return torch.zeros(num_bytes, dtype=torch.uint8, device=device)


def _available_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What PyTorch holds in reserve and nobody uses is to be had as well.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return host_available_bytes()
