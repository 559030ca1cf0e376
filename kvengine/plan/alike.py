"""When caches are alike: mergeable into one spec, or at least of one type."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from kvengine.plan.facts import Facts
from kvengine.plan.specs import Spec, SpecKind

__all__ = ["is_uniform", "merge"]


def merge(specs: Sequence[Spec]) -> Spec | None:
    """One spec for all of these, or None: full attention may differ in window or chunk."""
    first = specs[0]
    if len(specs) == 1:
        return first
    if first.kind != "full":
        return first if all(spec == first for spec in specs[1:]) else None
    bare = evolve(first, window=None, chunk=None)
    if any(evolve(spec, window=None, chunk=None) != bare for spec in specs[1:]):
        return None
    windows = {spec.window for spec in specs} - {None}
    chunks = {spec.chunk for spec in specs} - {None}
    if len(windows) > 1 or len(chunks) > 1 or (windows and chunks):
        return None
    return evolve(first, window=next(iter(windows), None), chunk=next(iter(chunks), None))


def is_uniform(specs: Sequence[Spec], facts: Facts) -> bool:
    """Whether all of these need the same blocks of a request, whatever their pages."""
    first = specs[0]
    if len({spec.tokens_per_block for spec in specs}) > 1:
        return False
    if first.is_full:
        return all(spec.is_full for spec in specs)
    if first.kind in ("window", "window_mla"):
        kinds: tuple[SpecKind, ...] = (
            ("window", "window_mla") if first.kind == "window" else ("window_mla",)
        )
        return all(spec.kind in kinds and spec.window == first.window for spec in specs)
    if first.kind == "chunked":
        return all(spec.kind == "chunked" and spec.chunk == first.chunk for spec in specs)
    return all(
        spec.kind == "mamba"
        and spec.draft_states == first.draft_states
        and (
            not facts.uniform_states_alike
            or (spec.page_bytes, spec.checkpoint_states)
            == (first.page_bytes, first.checkpoint_states)
        )
        for spec in specs
    )
