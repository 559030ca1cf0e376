"""What there is to say of a plan: problems with place, figures and, where possible, a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from kvengine.config.engine import Config
from kvengine.errors import Drop, Fix, Path, PlanError, Problem, Put
from kvengine.plan.budget import Budget, group_pages
from kvengine.plan.layout import packed_layout
from kvengine.plan.plan import Plan
from kvengine.plan.resolve import Resolved
from kvengine.plan.setup import Setup
from kvengine.units import format_bytes

__all__ = ["EXTRA", "Seen", "cache_findings", "refusal"]

EXTRA: Path = ("kv_transfer", "kv_connector_extra_config")
_PACKED_KEY: Path = (*EXTRA, "enable_cross_layers_blocks")
_WORTH_SAYING = 0.10
_STAGES_ALIKE = 0.05


@frozen(kw_only=True)
class Seen:
    """A plan and what it was made of; ``budgets`` are those of its pipeline stages.

    ``with_hybrid`` plans the same engine with the hybrid manager on; None where it cannot.
    """

    config: Config
    setup: Setup
    resolved: Resolved
    budgets: Sequence[Budget]
    plan: Plan
    with_hybrid: Callable[[], Plan | None]


def cache_findings(seen: Seen) -> Iterator[Problem]:
    """What concerns the cache on the device."""
    yield from _padding(seen)
    yield from _stages(seen)
    yield from _packing(seen)
    yield from _hybrid(seen)


def refusal(error: PlanError) -> Problem:
    """A refusal as a finding, with a fix where the figures decide one."""
    return Problem(error.code, error.path, error.message, error.hint, fix=_mending(error))


def _mending(error: PlanError) -> Fix | None:
    length = error.estimated_max_model_len
    if error.code == "capacity" and length:
        title = f"set model.max_model_len to {length}"
        return Fix(title, (Put(("model", "max_model_len"), length),), safe=False)
    if error.code == "exclusive" and error.path == (*EXTRA, "block_size"):
        return Fix("remove block_size", (Drop(error.path),), safe=False)
    if error.code == "geometry" and error.path == ("cache", "prefix_caching"):
        return Fix("switch prefix caching on", (Put(error.path, True),), safe=False)
    if error.code == "geometry" and error.path == ("cache", "mamba_cache_mode"):
        return Fix("use the mode align", (Put(error.path, "align"),), safe=False)
    if error.code in ("geometry", "known-issue") and error.path == ("cache", "hybrid"):
        return Fix("leave the hybrid manager on", (Put(error.path, True),), safe=False)
    return None


def _padding(seen: Seen) -> Iterator[Problem]:
    """Bytes that the longest request holds and that store nothing."""
    length = seen.plan.max_model_len
    worst: tuple[float, int, int, int] = (0.0, 0, 0, 0)
    for budget in seen.budgets:
        held = stored = rows = 0
        for bundle in budget.bundles:
            pages = group_pages(bundle, seen.setup, length)
            held += pages * budget.bytes_per_block
            rows += pages * bundle.row_bytes
            stored += pages * sum(s.payload_bytes * n for s, n in bundle.kinds.items())
        if held:
            worst = max(worst, (1 - stored / held, held, held - rows, rows - stored))
    share, held, narrow, padded = worst
    if share <= _WORTH_SAYING:
        return
    parts = []
    if narrow:
        parts.append(f"{format_bytes(narrow)} because groups differ in width")
    if padded:
        parts.append(f"{format_bytes(padded)} because pages are padded to one size")
    yield Problem(
        "geometry",
        ("cache", "tokens_per_block"),
        f"{share:.1%} of the {format_bytes(held)} that a request of {length} tokens takes store"
        f" nothing: {' and '.join(parts)}",
        "another number of tokens per block may waste less; compare with plan --compare",
        "info",
    )


def _stages(seen: Seen) -> Iterator[Problem]:
    """Pipeline stages that could have more blocks than all agree on."""
    plan = seen.plan
    alone = [rank.num_blocks_alone for rank in plan.ranks or () if rank.bytes_per_block]
    if len(set(alone)) <= 1:
        return
    unused = [
        max(budget.memory_bytes - plan.num_blocks * budget.bytes_per_block, 0)
        for budget in seen.budgets
    ]
    stage = max(range(len(unused)), key=unused.__getitem__)
    most = seen.budgets[stage].memory_bytes
    severe = most and unused[stage] / most > _STAGES_ALIKE
    yield Problem(
        "capacity",
        ("parallel", "pipeline"),
        f"gives its stages room for {', '.join(map(str, alone))} blocks, and all take the"
        f" {plan.num_blocks} of the poorest: {format_bytes(unused[stage])} of stage {stage} stay"
        " unused",
        "divide the layers with parallel.pipeline_layers, or the memory with one cache.memory per"
        " stage",
        "warning" if severe else "info",
    )


def _packing(seen: Seen) -> Iterator[Problem]:
    """Packed blocks that were asked for, and are not to be had this way."""
    plan, setup = seen.plan, seen.setup
    if not setup.asks_packed or plan.packed:
        return
    if not setup.facts.named_layouts:
        yield Problem(
            "ignored",
            _PACKED_KEY,
            f"has no effect: the model has {len(plan.groups)} group, and vLLM {plan.vllm} packs"
            " several groups only",
            "leave it out",
            "warning",
            Fix("remove it", (Drop(_PACKED_KEY),), safe=False),
        )
        return
    name = packed_layout(seen.resolved, plan.layout)
    says = f"is not read by vLLM {plan.vllm}, which lays the cache out as {plan.layout}"
    if name is None:
        hint = "no packed layout is read by every attention backend of this model; leave it out"
        yield Problem("layout", _PACKED_KEY, says, hint, "warning")
        return
    hint = f'set cache.layout = "{name}" (VLLM_KV_CACHE_LAYOUT={name}) for packed blocks'
    changes = (Drop(_PACKED_KEY), Put(("cache", "layout"), name))
    yield Problem("layout", _PACKED_KEY, says, hint, "warning", Fix(hint, changes, safe=False))


def _hybrid(seen: Seen) -> Iterator[Problem]:
    """What it costs to keep windows like full attention."""
    if seen.setup.hybrid:
        return
    other = seen.with_hybrid()
    if other is None or other.capacity_tokens <= seen.plan.capacity_tokens:
        return
    have, could = seen.plan.capacity_tokens, other.capacity_tokens
    path = ("cache", "hybrid")
    yield Problem(
        "capacity",
        path,
        f"off keeps every token of layers that need a window only: {have} tokens fit, with the"
        f" hybrid manager {could}, {could / max(have, 1):.1f} times as many",
        "leave the hybrid manager on, if the connector supports it",
        "warning",
        Fix("switch the hybrid manager on", (Put(path, True),), safe=False),
    )
