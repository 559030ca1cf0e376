"""What a rank registers: where a group's bytes lie on the device, and how many they are.

vLLM hands a worker its cache as tensors of whole blocks, and for each group the tensors that hold
the group's pages. Unpacked, that is exact: a group's bytes are those pages. Packed, vLLM names one
tensor of whole block rows for every group, as wide as the widest; which part of it a group fills
is then known from kvengine's plan of the same model, if that plan's row is as wide as vLLM's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kvengine.plan.plan import Plan
from kvengine.runtime.places import Place
from kvengine.runtime.rows import Rows, rows_from_tensors

__all__ = ["differences", "part", "read_rows"]

_log = logging.getLogger(__name__)


def read_rows(
    caches: Any, plan: Plan | None = None, *, quiet: bool = False
) -> tuple[Rows | None, ...]:
    """The rows of each group of vLLM's ``CanonicalKVCaches``; ``plan`` narrows packed ones.

    Where it does not fit, that is logged unless ``quiet``. None for a group of which this rank
    has no layer, which happens with pipeline stages.
    """
    groups = caches.group_data_refs
    whole = _whole_row_bytes(groups)
    if whole is None:
        return tuple(_rows(caches, [(r.tensor_idx, r.page_size_bytes) for r in g]) for g in groups)
    reason = _misfit(plan, len(groups), whole)
    if reason:
        _log.log(
            logging.DEBUG if quiet else logging.WARNING,
            "each chunk takes the widest group's %d bytes a block, because %s",
            whole,
            reason,
        )
        widths = [whole] * len(groups)
    else:
        assert plan is not None
        widths = [group.row_bytes for group in plan.groups]
    return tuple(
        _rows(caches, [(g[0].tensor_idx, width)]) for g, width in zip(groups, widths, strict=True)
    )


def differences(row_bytes: Sequence[int], plan: Plan) -> str:
    """Where kvengine's plan and the registered cache disagree; empty when they do not."""
    planned = [group.row_bytes for group in plan.groups]
    found = list(row_bytes)
    if planned == found:
        return ""
    return f"kvengine plans {planned} bytes a block and group, vLLM has {found}"


def part(place: Place, start: int, num_bytes: int) -> Place:
    """The host bytes of ``num_bytes`` of a chunk, from its byte ``start`` on."""
    runs = []
    for run_start, run_bytes in place:
        if start < run_bytes:
            count = min(num_bytes, run_bytes - start)
            runs.append((run_start + start, count))
            num_bytes -= count
            start = 0
            if not num_bytes:
                break
        else:
            start -= run_bytes
    return tuple(runs)


def _rows(caches: Any, pages: Sequence[tuple[int, int]]) -> Rows | None:
    if not pages:
        return None
    return rows_from_tensors([caches.tensors[index].tensor[:, :width] for index, width in pages])


def _whole_row_bytes(groups: Sequence[Any]) -> int | None:
    """The width of the row that several groups all claim as a whole; None when they do not."""
    first = groups[0]
    if len(groups) < 2 or any(len(group) != 1 for group in groups):
        return None
    claims = {(group[0].tensor_idx, group[0].page_size_bytes) for group in groups}
    return int(first[0].page_size_bytes) if len(claims) == 1 else None


def _misfit(plan: Plan | None, num_groups: int, whole: int) -> str:
    if plan is None:
        return "kvengine could not plan this model"
    if len(plan.groups) != num_groups:
        return f"kvengine plans {len(plan.groups)} groups where vLLM has {num_groups}"
    if plan.bytes_per_block != whole:
        return f"kvengine plans rows of {plan.bytes_per_block} bytes where vLLM has {whole}"
    if not all(_fills_from_the_start(plan, number) for number in range(num_groups)):
        return "kvengine plans another layout than vLLM has"
    return ""


def _fills_from_the_start(plan: Plan, number: int) -> bool:
    """Whether a group fills its part of a row from the first byte, without holes."""
    expected = 0
    slots = [slot for slot in plan.slots if slot.group == number]
    for slot in sorted(slots, key=lambda slot: slot.offset_bytes):
        if slot.offset_bytes != expected or slot.stride_bytes != plan.bytes_per_block:
            return False
        expected += slot.page_bytes
    return expected == plan.groups[number].row_bytes
