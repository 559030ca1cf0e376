"""Layers -> groups that share a block table.

One group when all caches are alike, one *uniform* group when all keep the same tokens; else
pages are made equal and the layers divided into groups of about the same number of layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from attrs import evolve, frozen

from kvengine.errors import PlanError
from kvengine.plan.alike import is_uniform, merge
from kvengine.plan.facts import Facts
from kvengine.plan.specs import Spec
from kvengine.plan.tuples import bucket_groups, tuple_groups
from kvengine.units import ceil_div

__all__ = ["Bundle", "form_groups", "stage_part"]

Layers = Mapping[str, Spec]


@frozen
class Bundle:
    """Layers that share a block table, with the spec that each is stored by.

    ``uniform``: the layers keep their own specs; otherwise all have one, merged.
    """

    names: tuple[str, ...]
    specs: tuple[Spec, ...]
    uniform: bool
    spec: Spec

    @cached_property
    def kinds(self) -> dict[Spec, int]:
        """The distinct specs, in order, and how many layers have each."""
        counts: dict[Spec, int] = {}
        for spec in self.specs:
            counts[spec] = counts.get(spec, 0) + 1
        return counts

    @property
    def tokens_per_block(self) -> int:
        """Tokens of one block, not scaled by context parallelism."""
        return self.spec.tokens_per_block

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of one block over all layers."""
        return sum(spec.page_bytes * count for spec, count in self.kinds.items())

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of one layer; of all layers when they differ."""
        return self.row_bytes if self.uniform else self.spec.page_bytes


def form_groups(
    layers: Layers, facts: Facts, *, hybrid: bool, block_outermost: bool
) -> tuple[Bundle, ...]:
    """The groups of a model, in the engine's order.

    ``hybrid`` False is --disable-hybrid-kv-cache-manager. ``block_outermost``: the layout puts
    all pages of a block next to each other (from 0.29). Raises PlanError, stage ``plan``.
    """
    if not hybrid:
        layers = _promote(layers, facts)
    if not layers:
        return ()
    specs = tuple(dict.fromkeys(layers.values()))
    merged = merge(specs)
    if merged is not None:
        return (_merged(tuple(layers), merged),)
    if is_uniform(specs, facts):
        return (_uniform(layers),)
    if len({spec.page_bytes for spec in specs}) > 1:
        if facts.named_layouts and block_outermost:
            buckets = bucket_groups(layers, facts)
            return tuple(_uniform({name: layers[name] for name in names}) for names in buckets)
        if not facts.named_layouts and any(spec.kind == "window_mla" for spec in specs):
            found = tuple_groups(layers, padded=facts.tuple_slots)
            return tuple(_uniform(group) for group in found)
    return _hybrid_groups(layers, facts)


def stage_part(bundle: Bundle, names: frozenset[str]) -> Bundle:
    """A group restricted to the layers of one pipeline stage; it may become empty."""
    kept = [i for i, name in enumerate(bundle.names) if name in names]
    if len(kept) == len(bundle.names):
        return bundle
    specs = tuple(bundle.specs[i] for i in kept)
    spec = specs[0] if bundle.uniform and specs else bundle.spec
    return Bundle(tuple(bundle.names[i] for i in kept), specs, bundle.uniform and bool(kept), spec)


def _uniform(layers: Layers) -> Bundle:
    specs = tuple(layers.values())
    return Bundle(tuple(layers), specs, True, specs[0])


def _merged(names: tuple[str, ...], spec: Spec) -> Bundle:
    return Bundle(names, (spec,) * len(names), False, spec)


def _promote(layers: Layers, facts: Facts) -> Layers:
    """Windows and chunks kept as full attention, so that one group is enough."""
    specs = tuple(dict.fromkeys(layers.values()))
    if not specs or merge(specs) is not None or is_uniform(specs, facts):
        return layers
    full = {spec.tokens_per_block for spec in specs if spec.is_full}
    promoted = dict(layers)
    if full and any(spec.kind in ("window", "window_mla", "chunked") for spec in specs):
        block = next(iter(full)) if len(full) == 1 else None
        changed = {spec: _as_full(spec, block, facts) for spec in specs}
        promoted = {name: changed[spec] for name, spec in layers.items()}
    specs = tuple(dict.fromkeys(promoted.values()))
    if merge(specs) is None and not is_uniform(specs, facts):
        raise PlanError(
            "plan",
            "geometry",
            "the layers cannot share one group, which the hybrid manager switched off asks for",
            "leave the hybrid manager on: set cache.hybrid = true",
            path=("cache", "hybrid"),
        )
    return promoted


def _as_full(spec: Spec, block: int | None, facts: Facts) -> Spec:
    if spec.kind not in ("window", "window_mla", "chunked"):
        return spec
    if spec.kind == "window_mla" and not facts.compressed_promotes:
        raise PlanError(
            "plan",
            "known-issue",
            f"vLLM {facts.release} fails on compressed windows when the hybrid manager is off",
            "leave the hybrid manager on: set cache.hybrid = true",
            path=("cache", "hybrid"),
        )
    if not facts.promoted_keeps_block and spec.kind != "window_mla":
        block = None
    tokens = block or spec.tokens_per_block
    padded = spec.padded_bytes
    if padded is not None:
        padded = max(padded, spec.payload_bytes * tokens // spec.tokens_per_block)
    return evolve(
        spec,
        kind="mla" if spec.kind == "window_mla" else "full",
        tokens_per_block=tokens,
        padded_bytes=padded,
        retained_tokens=0,
        pads=spec.pads and facts.promoted_windows_merge,
    )


def _hybrid_groups(layers: Layers, facts: Facts) -> tuple[Bundle, ...]:
    equal = _equal_pages(layers, facts)
    if equal is None:
        return (_uniform(_promote(layers, facts)),)
    buckets: list[tuple[list[str], list[Spec]]] = []
    by_spec: dict[Spec, list[str]] = {}
    for name, spec in equal.items():
        by_spec.setdefault(spec, []).append(name)
    for spec, names in by_spec.items():
        for have, specs in buckets:
            if merge([*specs, spec]) is not None:
                have.extend(names)
                specs.append(spec)
                break
        else:
            buckets.append((names, [spec]))
    least = min(len(names) for names, _ in buckets)
    most = max(len(names) for names, _ in buckets)
    size = most if most < least * 1.5 else least
    groups = []
    for names, _ in buckets:
        count = ceil_div(len(names), size)
        for i in range(count):
            part = tuple(names[i::count])
            merged = merge(tuple(dict.fromkeys(equal[name] for name in part)))
            assert merged is not None
            groups.append(_merged(part, merged))
    return tuple(groups)


def _equal_pages(layers: Layers, facts: Facts) -> Layers | None:
    """All pages as large as the largest: by more tokens per block, or by padding.

    None when latent layers keep them apart and windows can be kept as full attention instead.
    """
    specs = tuple(dict.fromkeys(layers.values()))
    widest = max(spec.page_bytes for spec in specs)
    changed: dict[Spec, Spec] = {}
    for spec in specs:
        grown = _grown(spec, widest, facts)
        if grown is None:
            if facts.mixed_fallback and _mixes_latent_and_windows(specs):
                return None
            raise PlanError(
                "plan",
                "geometry",
                f"a page of {spec.page_bytes} bytes does not divide the widest page of {widest}"
                " bytes, and its backend cannot read padded pages",
                "choose another tokens_per_block or cache dtype",
                path=("cache", "tokens_per_block"),
            )
        changed[spec] = grown
    return {name: changed[spec] for name, spec in layers.items()}


def _grown(spec: Spec, widest: int, facts: Facts) -> Spec | None:
    page = spec.page_bytes
    if page == widest:
        return spec
    if spec.kind == "mamba":
        return evolve(spec, padded_bytes=widest)
    if page and widest % page == 0:
        return spec.with_block(spec.tokens_per_block * (widest // page))
    can_pad = spec.kind != "mla" if facts.pads_any_window else spec.pads
    return evolve(spec, padded_bytes=widest) if can_pad else None


def _mixes_latent_and_windows(specs: Sequence[Spec]) -> bool:
    kinds = {spec.kind for spec in specs}
    return {"mla", "window"} <= kinds and not kinds & {"window_mla", "chunked"}
