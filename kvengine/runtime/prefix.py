"""Which chunks a prefix needs, per group: the same answer for who stores and who loads. No torch.

Full attention reads every token before it. A window reads the last tokens only, a chunked local
layer those since its chunk began, a recurrent state only where it stands at the end. A prefix can
be loaded up to ``tokens`` when each group has all chunks that ``needed`` names for ``tokens``
(case R18: what the writer keeps is what the reader wants, since both ask here).
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

from attrs import frozen

from kvengine.plan.plan import Group, Offload, Plan

__all__ = ["Need", "boundary_tokens", "host_tokens", "longest_prefix", "needed"]


@frozen
class Need:
    """Chunks ``start`` to ``stop - 1`` of a group, the first one from ``first_block`` on."""

    start: int
    stop: int
    first_block: int

    def __len__(self) -> int:
        return self.stop - self.start


def boundary_tokens(plan: Plan) -> int:
    """Prefixes end at multiples of this: where a chunk ends in every group at once (case R20)."""
    return lcm(*_offload(plan).tokens_per_chunk)


def needed(plan: Plan, group: int, tokens: int, *, extra_tokens: int = 0) -> Need:
    """The chunks of a group that a prefix of ``tokens`` needs: whole chunks of that group.

    ``extra_tokens`` are read before the window's own, as some draft models do.
    """
    offload = _offload(plan)
    per_chunk = offload.tokens_per_chunk[group]
    if tokens % per_chunk:
        raise ValueError(f"a prefix ends with a chunk of {per_chunk} tokens, not at {tokens}")
    per_block = per_chunk // offload.blocks_per_chunk[group]
    begin = _first_token(plan.groups[group], tokens, per_block)
    begin = max(0, begin - extra_tokens)
    return Need(begin // per_chunk, tokens // per_chunk, begin % per_chunk // per_block)


def longest_prefix(
    plan: Plan, tokens: int, hit: Callable[[int, int], bool], *, extra_tokens: int = 0
) -> int:
    """The longest prefix, up to ``tokens``, of which every group has what it needs: case R23.

    ``hit(group, chunk)`` says whether a group has its chunk of that number, counted from the
    beginning. Groups of full attention are asked from the left, the others from the right.
    """
    unit = boundary_tokens(plan)
    per_chunk = _offload(plan).tokens_per_chunk
    best = tokens // unit * unit
    groups = sorted(range(len(plan.groups)), key=lambda group: _reads_all(plan.groups[group]))
    for group in reversed(groups):
        if _reads_all(plan.groups[group]):
            count = 0
            while count * per_chunk[group] < best and hit(group, count):
                count += 1
            best = min(best, count * per_chunk[group] // unit * unit)
    while best:
        shorter = best
        for group in groups:
            if not _reads_all(plan.groups[group]):
                need = needed(plan, group, best, extra_tokens=extra_tokens)
                for chunk in range(need.stop - 1, need.start - 1, -1):
                    if not hit(group, chunk):  # so no prefix that needs it can be had
                        shorter = min(shorter, chunk * per_chunk[group] // unit * unit)
                        break
        if shorter == best:
            return best
        best = shorter
    return 0


def host_tokens(plan: Plan, budget_bytes: int) -> int:
    """Tokens whose chunks of every group fit ``budget_bytes``: what a host tier is good for (R03).

    Windows need less than all their chunks, so prefixes that keep only what they need fit more.
    """
    offload = _offload(plan)
    unit = boundary_tokens(plan)
    sizes = zip(offload.chunk_bytes, offload.tokens_per_chunk, strict=True)
    return budget_bytes // sum(size * (unit // tokens) for size, tokens in sizes) * unit


def _offload(plan: Plan) -> Offload:
    if not isinstance(plan.offload, Offload):
        raise ValueError("the plan does not offload")
    return plan.offload


def _reads_all(group: Group) -> bool:
    return group.kind != "mamba" and group.sliding_window is None


def _first_token(group: Group, tokens: int, per_block: int) -> int:
    """The first token of a prefix that what comes behind it still reads."""
    if group.kind == "mamba":
        return max(0, tokens - per_block)
    if group.sliding_window is None:
        return 0
    if group.kind == "chunked":
        return tokens // group.sliding_window * group.sliding_window
    return max(0, tokens - (group.sliding_window - 1))
