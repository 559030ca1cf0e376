"""The same plan with fewer blocks: to try a layout without the memory of the real one."""

from __future__ import annotations

from attrs import evolve

from kvengine.plan.plan import Plan, Slot

__all__ = ["shrink"]


def shrink(plan: Plan, num_blocks: int) -> Plan:
    """``plan`` with ``num_blocks`` blocks, at most as many as it has; pages and rows unchanged.

    A layout with the blocks outermost keeps its offsets; where layers are outermost, a layer
    begins behind the blocks of those before it, and moves up. Capacities shrink in proportion.
    """
    if not 1 <= num_blocks <= plan.num_blocks:
        raise ValueError(f"num_blocks must be 1 to {plan.num_blocks}, not {num_blocks}")
    share = num_blocks / plan.num_blocks
    return evolve(
        plan,
        num_blocks=num_blocks,
        max_concurrency=plan.max_concurrency * share,
        capacity_tokens=int(plan.capacity_tokens * share),
        allocations=tuple(
            num_bytes // plan.num_blocks * num_blocks for num_bytes in plan.allocations
        ),
        slots=tuple(_move(slot, plan, num_blocks) for slot in plan.slots),
    )


def _move(slot: Slot, plan: Plan, num_blocks: int) -> Slot:
    block_outermost = slot.stride_bytes * plan.num_blocks == plan.allocations[slot.allocation]
    if block_outermost:
        return slot
    assert slot.offset_bytes % plan.num_blocks == 0, "a layer begins inside another's blocks"
    return evolve(slot, offset_bytes=slot.offset_bytes // plan.num_blocks * num_blocks)
