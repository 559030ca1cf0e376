"""``make_plan``: from a checked config to the plan, in the order in which vLLM decides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from attrs import evolve

from kvengine.config.engine import Config
from kvengine.errors import PlanError
from kvengine.plan.budget import (
    Budget,
    agreed,
    check_fits,
    fit_length,
    max_concurrency,
    request_bytes,
)
from kvengine.plan.findings import Seen, cache_findings
from kvengine.plan.groups import Bundle, form_groups, stage_part
from kvengine.plan.layout import Layout, choose_layout, place
from kvengine.plan.offload import Units, hash_units, plan_offload
from kvengine.plan.offload_findings import offload_findings
from kvengine.plan.plan import Group, Plan
from kvengine.plan.resolve import Resolved, resolve
from kvengine.plan.setup import Setup, resolve_setup

__all__ = ["Packing", "make_plan"]

Packing = Literal["engine", "always", "never"]


def make_plan(config: Config, *, packing: Packing = "engine") -> Plan:
    """What the engine will do with its KV memory, to the byte.

    ``packing``: as the release decides, or packed (all pages of a block next to each other) or
    unpacked whatever it decides. Raises :class:`~kvengine.PlanError` with ``stage`` ``"setup"``
    where the engine would refuse its configuration, ``"plan"`` where the cache cannot be laid
    out or one request does not fit. When only offloading is refused, ``Plan.offload`` holds the
    refusal.
    """
    seen = _planned(config, packing)
    found = (*cache_findings(seen), *offload_findings(seen))
    return evolve(seen.plan, problems=(*seen.plan.problems, *found))


def _planned(config: Config, packing: Packing) -> Seen:
    setup = resolve_setup(config)
    resolved = resolve(setup)
    name = choose_layout(setup, resolved) if setup.facts.named_layouts else ""
    bundles = form_groups(
        resolved.layers, setup.facts, hybrid=setup.hybrid, block_outermost=name.startswith("B")
    )
    layout = _layout(setup, bundles, name, packing)
    budgets = _budgets(setup, resolved, bundles, layout)
    length = _checked_length(setup, budgets)
    plan = _assemble(config, setup, resolved, bundles, budgets, length)
    return Seen(
        config=config,
        setup=setup,
        resolved=resolved,
        budgets=budgets,
        plan=plan,
        with_hybrid=partial(_with_hybrid, config, packing),
    )


def _with_hybrid(config: Config, packing: Packing) -> Plan | None:
    on = evolve(config, cache=evolve(config.cache, hybrid=True))
    try:
        return _planned(on, packing).plan
    except PlanError:
        return None


def _layout(setup: Setup, bundles: Sequence[Bundle], name: str, packing: Packing) -> Layout:
    """A layout that the release would not choose bears none of its names."""
    outermost = name.startswith("B")
    if packing == "always":
        return Layout(name if outermost else "packed", "slab")
    if setup.facts.named_layouts:
        padded = setup.facts.padded_layer_stride
        if outermost and packing == "never":
            return Layout("unpacked", "layers", padded)
        return Layout(name, "blocks" if outermost else "layers", padded)
    tuples = bool(bundles) and len(bundles) > 1 and all(bundle.uniform for bundle in bundles)
    if packing == "engine" and (tuples or (setup.asks_packed and len(bundles) > 1)):
        return Layout("packed", "tuples" if setup.facts.tuple_slots else "slab")
    return Layout("unpacked", "pools")


def _budgets(
    setup: Setup, resolved: Resolved, bundles: tuple[Bundle, ...], layout: Layout
) -> list[Budget]:
    budgets = []
    for specs, memory in zip(resolved.stages, setup.memory, strict=True):
        part = bundles
        if setup.pipeline > 1:
            names = frozenset(specs)
            part = tuple(stage_part(bundle, names) for bundle in bundles)
        budgets.append(Budget(setup=setup, layout=layout, bundles=part, memory_bytes=memory))
    return budgets


def _checked_length(setup: Setup, budgets: Sequence[Budget]) -> int:
    length = setup.max_model_len
    try:
        if setup.auto_fit:
            length = fit_length(budgets, length)
        for budget in budgets:
            check_fits(budget, length)
    except PlanError as refused:
        if refused.code == "capacity":
            refused.num_blocks_unchecked = agreed(budgets)
        raise
    return length


def _assemble(
    config: Config,
    setup: Setup,
    resolved: Resolved,
    bundles: tuple[Bundle, ...],
    budgets: Sequence[Budget],
    length: int,
) -> Plan:
    blocks = agreed(budgets)
    first = budgets[0]
    units = hash_units(bundles, setup, resolved.tokens_per_block)
    concurrency = max_concurrency(first.bundles, setup, blocks, length)
    whole = budgets[0] if len(budgets) == 1 else evolve(first, bundles=bundles)
    plan = Plan(
        vllm=str(setup.facts.release),
        layout=first.layout.name,
        packed=first.layout.packed,
        num_blocks=blocks,
        bytes_per_block=max(budget.bytes_per_block for budget in budgets),
        request_max_bytes=max(request_bytes(budget, length) for budget in budgets),
        max_concurrency=concurrency,
        capacity_tokens=int(concurrency * length),
        max_model_len=length,
        cache_dtype=resolved.cache_dtype,
        tokens_per_block=resolved.tokens_per_block,
        attention_backends=resolved.backends,
        tokens_per_hash=units.hash_tokens,
        scheduler_block_tokens=units.scheduler_tokens,
        groups=tuple(_group(bundle) for bundle in bundles),
        allocations=(),
        slots=(),
        offload=None,
        problems=setup.problems,
    )
    ranks = tuple(_rank(config, setup, plan, budget, units) for budget in budgets)
    if len(ranks) == 1:
        return evolve(ranks[0], num_blocks_alone=None)
    placement = place(whole.bundles, whole.layout, blocks)
    return evolve(
        plan,
        allocations=placement.allocations,
        slots=placement.slots,
        offload=ranks[0].offload,
        ranks=ranks,
    )


def _rank(config: Config, setup: Setup, plan: Plan, budget: Budget, units: Units) -> Plan:
    """The plan of one pipeline stage, on its first tensor-parallel rank."""
    placement = place(budget.bundles, budget.layout, plan.num_blocks)
    stride = budget.bytes_per_block
    return evolve(
        plan,
        bytes_per_block=stride,
        request_max_bytes=request_bytes(budget, plan.max_model_len),
        groups=tuple(_group(bundle) for bundle in budget.bundles),
        allocations=placement.allocations,
        slots=placement.slots,
        offload=_offload(config, setup, budget, units),
        num_blocks_alone=plan.num_blocks if budget.is_empty else budget.num_blocks,
    )


def _offload(config: Config, setup: Setup, budget: Budget, units: Units) -> Any:
    transfer = config.kv_transfer
    if transfer is None or transfer.kv_connector != "OffloadingConnector":
        return None
    extra = transfer.kv_connector_extra_config
    return plan_offload(budget.bundles, setup, units, budget.bytes_per_block, extra)


def _group(bundle: Bundle) -> Group:
    spec = bundle.spec
    windowed = spec.kind in ("window", "window_mla")
    return Group(
        kind="uniform" if bundle.uniform else spec.kind,
        layers=bundle.names,
        tokens_per_block=bundle.tokens_per_block,
        page_bytes=bundle.page_bytes,
        row_bytes=bundle.row_bytes,
        sliding_window=spec.window if windowed or not bundle.uniform else None,
    )
