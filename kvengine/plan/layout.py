"""Where every page lies: pools, a packed slab, or one of vLLM's named layouts.

Each answers with the same numbers, a slot per layer; after this module nobody asks which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from attrs import frozen

from kvengine.errors import PlanError
from kvengine.plan.groups import Bundle
from kvengine.plan.plan import Slot
from kvengine.plan.resolve import Resolved
from kvengine.plan.setup import Setup
from kvengine.plan.specs import Spec
from kvengine.units import align_up

__all__ = ["Layout", "Placement", "choose_layout", "packed_layout", "place", "row_stride"]

_PREFERENCE = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
_COMPACT = frozenset({"LBNHC", "LBHNC", "BLNHC", "BLHNC"})
_ALIASES = {"NHD": "LBNHC", "HND": "LBHNC"}
_CONNECTOR_WANTS = "LBHNC"

_Runs = list[tuple[list[str], Spec]]


@frozen
class Layout:
    """How pages are ordered: ``pools``, ``slab`` (packed), ``tuples`` (packed), or a named one.

    ``packed``: one block's pages of a group are one contiguous run.
    """

    name: str
    style: str
    aligned: bool = False

    @property
    def packed(self) -> bool:
        """Whether one block's row is contiguous."""
        return self.style in ("slab", "tuples", "blocks")


@frozen
class Placement:
    """The allocations and slots of one rank."""

    allocations: tuple[int, ...]
    slots: tuple[Slot, ...]


def choose_layout(setup: Setup, resolved: Resolved) -> str:
    """The named layout of a release from 0.29 on; PlanError when none fits all layers."""
    candidates = _candidates(resolved)
    if not candidates:
        raise PlanError(
            "setup",
            "layout",
            "no KV cache layout is read by every attention backend of the model",
            "",
        )
    asked = setup.asked_layout
    if asked is not None:
        name = _ALIASES.get(asked, asked)
        if name in candidates and name in _COMPACT:
            return name
        says = (
            "spreads a page over its block, which kvengine does not plan"
            if name in candidates
            else "is not one that every attention backend of the model reads"
        )
        fitting = ", ".join(one for one in candidates if one in _COMPACT)
        raise PlanError(
            "setup",
            "layout",
            f"layout {asked} {says}",
            f"one of {fitting}",
            path=("cache", "layout"),
        )
    if setup.has_connector and _CONNECTOR_WANTS in candidates:
        return _CONNECTOR_WANTS
    return candidates[0]


def packed_layout(resolved: Resolved, name: str) -> str | None:
    """The packed layout that is nearest to ``name``, None where no backend reads one."""
    packed = [one for one in _candidates(resolved) if one in _COMPACT and one.startswith("B")]
    twin = f"BL{name[2:]}"
    return twin if twin in packed else next(iter(packed), None)


def _candidates(resolved: Resolved) -> list[str]:
    names = list(resolved.layouts or _PREFERENCE)
    specs = {spec for stage in resolved.stages for spec in stage.values()}
    shapes = {(spec.heads, spec.states, spec.page_bytes) for spec in specs}
    return [name for name in names if name in _COMPACT] if len(shapes) > 1 else names


def row_stride(bundles: Sequence[Bundle], layout: Layout) -> int:
    """Bytes that one block takes on a rank: the divisor of its memory."""
    if not any(bundle.names for bundle in bundles):
        return 0
    match layout.style:
        case "pools":
            return sum(_pool_pages(bundles))
        case "tuples":
            return sum(size * count for size, count in _tuple_slots(bundles).items())
        case "layers" if layout.aligned:
            return max(
                sum(_padded(spec) * count for spec, count in bundle.kinds.items())
                for bundle in bundles
            )
    widest = max(bundle.row_bytes for bundle in bundles)
    return widest if layout.style == "slab" else align_up(widest, _common_alignment(bundles))


def _padded(spec: Spec) -> int:
    return align_up(spec.page_bytes, spec.block_alignment)


def _common_alignment(bundles: Sequence[Bundle]) -> int:
    return lcm(*(spec.block_alignment for bundle in bundles for spec in bundle.kinds))


def place(bundles: Sequence[Bundle], layout: Layout, num_blocks: int) -> Placement:
    """Allocations and slots for ``num_blocks`` blocks."""
    stride = row_stride(bundles, layout)
    if not stride:
        return Placement((), ())
    match layout.style:
        case "pools":
            return _pools(bundles, num_blocks)
        case "tuples":
            return _tuples(bundles, stride, num_blocks)
        case "slab":
            runs = [[([name], spec) for name, spec in _each(bundle)] for bundle in bundles]
            return _slab(bundles, runs, stride, num_blocks)
        case "blocks":
            return _slab(bundles, [_by_spec(bundle) for bundle in bundles], stride, num_blocks)
    return _layer_regions(bundles, stride, num_blocks, layout)


def _pool_pages(bundles: Sequence[Bundle]) -> list[int]:
    """Bytes of one block in every pool: pool ``i`` is shared by layer ``i`` of each group."""
    count = max(len(bundle.names) for bundle in bundles)
    return [
        max(bundle.specs[i].page_bytes for bundle in bundles if i < len(bundle.specs))
        for i in range(count)
    ]


def _pools(bundles: Sequence[Bundle], num_blocks: int) -> Placement:
    """One allocation per layer of the longest group; groups share them."""
    pages = _pool_pages(bundles)
    slots = tuple(
        Slot(
            layer=name,
            group=group,
            allocation=i,
            offset_bytes=0,
            stride_bytes=pages[i],
            page_bytes=spec.page_bytes,
        )
        for group, bundle in enumerate(bundles)
        for i, (name, spec) in enumerate(_each(bundle))
    )
    return Placement(tuple(page * num_blocks for page in pages), slots)


def _slab(
    bundles: Sequence[Bundle], runs: Sequence[_Runs], stride: int, num_blocks: int
) -> Placement:
    """One allocation; in every block the pages of a group lie next to each other."""
    slots = []
    for group, found in enumerate(runs):
        offset = 0
        for names, spec in found:
            for name in names:
                slots.append(
                    Slot(
                        layer=name,
                        group=group,
                        allocation=0,
                        offset_bytes=offset,
                        stride_bytes=stride,
                        page_bytes=spec.page_bytes,
                    )
                )
                offset += spec.page_bytes
    return Placement((stride * num_blocks,), _in_group_order(bundles, slots))


def _tuple_slots(bundles: Sequence[Bundle]) -> dict[int, int]:
    """Page size -> slots of that size in a block: as many as the group with the most has."""
    slots: dict[int, int] = {}
    for bundle in bundles:
        counts: dict[int, int] = {}
        for spec, count in bundle.kinds.items():
            counts[spec.page_bytes] = counts.get(spec.page_bytes, 0) + count
        for size, count in counts.items():
            slots[size] = max(slots.get(size, 0), count)
    return slots


def _tuples(bundles: Sequence[Bundle], stride: int, num_blocks: int) -> Placement:
    """One allocation with slots per page size, shared by all groups (up to 0.26)."""
    starts: dict[int, int] = {}
    offset = 0
    for size, count in _tuple_slots(bundles).items():
        starts[size] = offset
        offset += size * count
    slots = []
    for group, bundle in enumerate(bundles):
        used: dict[int, int] = {}
        for name, spec in _each(bundle):
            size = spec.page_bytes
            start = starts[size] + used.get(size, 0) * size
            used[size] = used.get(size, 0) + 1
            slots.append(
                Slot(
                    layer=name,
                    group=group,
                    allocation=0,
                    offset_bytes=start,
                    stride_bytes=stride,
                    page_bytes=size,
                )
            )
    return Placement((stride * num_blocks,), tuple(slots))


def _layer_regions(
    bundles: Sequence[Bundle], stride: int, num_blocks: int, layout: Layout
) -> Placement:
    """One allocation; every layer owns a region of it, block after block."""
    slots = []
    for group, bundle in enumerate(bundles):
        offset = 0
        for names, spec in _by_spec(bundle):
            page = spec.page_bytes
            step = _padded(spec) if layout.aligned else page
            for name in names:
                slots.append(
                    Slot(
                        layer=name,
                        group=group,
                        allocation=0,
                        offset_bytes=offset,
                        stride_bytes=step,
                        page_bytes=page,
                    )
                )
                offset += step * num_blocks
    return Placement((stride * num_blocks,), _in_group_order(bundles, slots))


def _each(bundle: Bundle) -> Iterator[tuple[str, Spec]]:
    return zip(bundle.names, bundle.specs, strict=True)


def _by_spec(bundle: Bundle) -> _Runs:
    found: dict[Spec, list[str]] = {}
    for name, spec in _each(bundle):
        found.setdefault(spec, []).append(name)
    return [(names, spec) for spec, names in found.items()]


def _in_group_order(bundles: Sequence[Bundle], slots: Sequence[Slot]) -> tuple[Slot, ...]:
    by_name: Mapping[tuple[int, str], Slot] = {(slot.group, slot.layer): slot for slot in slots}
    return tuple(
        by_name[group, name] for group, bundle in enumerate(bundles) for name in bundle.names
    )
