"""A plan as a page for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvengine.cli.page import Facts, Grid, Section
from kvengine.config.engine import Config
from kvengine.errors import PlanError
from kvengine.plan.plan import Offload, Plan, Tier
from kvengine.units import format_bytes

__all__ = ["model_name", "refusal", "sections"]

_KINDS = {
    "full": "full attention",
    "window": "sliding window",
    "chunked": "chunked local",
    "mla": "latent (MLA)",
    "window_mla": "latent, window",
    "mamba": "recurrent state",
    "uniform": "mixed, uniform",
}


def sections(plan: Plan, config: Config | None = None) -> list[Section]:
    """Everything that the page shows, from the whole to the parts."""
    page: list[Section] = [Facts(tuple(_facts(plan, config))), _groups(plan)]
    if isinstance(plan.offload, Offload):
        page += _offload(plan.offload, plan, config)
    elif plan.offload is not None:
        page.append(Facts((("offload", f"refused: {plan.offload.message}"),)))
    if plan.ranks:
        page.append(_ranks(plan.ranks))
    return page


def _facts(plan: Plan, config: Config | None) -> Iterator[tuple[str, str]]:
    if config is not None:
        yield "model", _model(config, plan)
    yield "vLLM", f"{plan.vllm}, {' and '.join(plan.attention_backends) or 'no attention'}"
    yield "layout", _layout(plan)
    if not plan.ranks:
        yield "memory", _memory(plan, _budget(config))
    yield "blocks", f"{plan.num_blocks:,}" + _each(plan)
    yield "tokens", f"{plan.capacity_tokens:,} fit in all requests together"
    longest = f"{plan.max_concurrency:,.2f} requests of {plan.max_model_len:,} tokens"
    yield "concurrency", f"{longest}, {format_bytes(plan.request_max_bytes)} each"
    yield "cache dtype", plan.cache_dtype
    yield "hashed by", f"{plan.tokens_per_hash:,} tokens; scheduled by {_scheduled(plan)}"


def model_name(config: Config) -> str:
    """What the model's config calls it."""
    architectures = config.model.config.get("architectures")
    if isinstance(architectures, list) and architectures:
        return str(architectures[0])
    return str(config.model.config.get("model_type", "unnamed"))


def _model(config: Config, plan: Plan) -> str:
    layers = sum(len(group.layers) for group in plan.groups)
    return f"{model_name(config)}, {layers} layers with KV cache"


def _memory(plan: Plan, budget: int) -> str:
    taken = sum(plan.allocations)
    tensors = f"{len(plan.allocations):,} tensor{'s' * (len(plan.allocations) != 1)}"
    if not budget:
        return f"{_bytes(taken)} in {tensors}"
    return f"{_bytes(budget)} given, {tensors}, {_bytes(budget - taken)} lost to rounding"


def _layout(plan: Plan) -> str:
    order = "" if plan.layout in ("packed", "unpacked") else f"{plan.layout}, "
    if plan.packed:
        return f"{order}packed: all pages of a block lie next to each other"
    return f"{order}unpacked: every layer's pages lie in a pool of their own"


def _budget(config: Config | None) -> int:
    """The memory that was given to the first rank; 0 if nothing is known."""
    memory = config.cache.memory if config is not None else None
    if isinstance(memory, int):
        return memory
    return memory[0] if memory else 0


def _each(plan: Plan) -> str:
    return "" if plan.ranks else f" of {_bytes(plan.bytes_per_block)}"


def _scheduled(plan: Plan) -> str:
    return f"{plan.scheduler_block_tokens:,}"


def _groups(plan: Plan) -> Grid:
    header = ("group", "kind", "layers", "tokens/block", "page", "row", "unused/block")
    rows = []
    for index, group in enumerate(plan.groups):
        window = f" {group.sliding_window:,}" if group.sliding_window else ""
        unused = "" if plan.ranks else _bytes(plan.bytes_per_block - group.row_bytes)
        rows.append(
            (
                str(index),
                _KINDS[group.kind] + window,
                f"{len(group.layers):,}",
                f"{group.tokens_per_block:,}",
                _bytes(group.page_bytes),
                _bytes(group.row_bytes),
                unused,
            )
        )
    return Grid("Groups: layers that share a block table", header, tuple(rows), frozenset({"kind"}))


def _offload(offload: Offload, plan: Plan, config: Config | None) -> Iterator[Section]:
    header = ("group", "blocks/chunk", "tokens/chunk", "chunk", "vLLM's slot", "vLLM wastes")
    ranks = _ranks_per_engine(config)
    rows = []
    for index in range(len(plan.groups)):
        whole = offload.chunk_bytes[index] * (1 if offload.replicated else ranks)
        wasted = 1 - whole / offload.vllm_bytes_per_chunk if offload.vllm_bytes_per_chunk else 0.0
        rows.append(
            (
                str(index),
                f"{offload.blocks_per_chunk[index]:,}",
                f"{offload.tokens_per_chunk[index]:,}",
                _bytes(offload.chunk_bytes[index]),
                _bytes(offload.vllm_bytes_per_chunk),
                f"{max(wasted, 0):.1%}",
            )
        )
    yield Grid("Offload: what moves as one, per rank; slots for all ranks", header, tuple(rows))
    if offload.vllm_num_chunks is not None or offload.tiers:
        yield _tiers(offload, len(plan.groups))


def _ranks_per_engine(config: Config | None) -> int:
    if config is None:
        return 1
    parallel = config.parallel
    return parallel.tensor * parallel.pipeline * parallel.prefill_context


def _tiers(offload: Offload, groups: int) -> Grid:
    header = ["tier", "size", "tokens", *(f"group {index}" for index in range(groups)), "I/O"]
    rows = [_tier(tier) for tier in offload.tiers]
    if offload.vllm_num_chunks is not None:
        rows.append(("vLLM's host memory", "", "", *[f"{offload.vllm_num_chunks:,}"] * groups, ""))
    title = "Tiers: tokens that fit, and chunks if only that group's were stored"
    if any(tier.type == "fs" for tier in offload.tiers):
        title += "; a disk has to have its size free"
    shown = len(header) if any(tier.io_bytes for tier in offload.tiers) else len(header) - 1
    return Grid(
        title, tuple(header[:shown]), tuple(row[:shown] for row in rows), frozenset({"tier"})
    )


def _tier(tier: Tier) -> tuple[str, ...]:
    unknown = "what is free" if tier.type == "fs" else "unbounded"
    size = unknown if tier.capacity_bytes is None else _bytes(tier.capacity_bytes)
    tokens = "any" if tier.tokens is None else f"{tier.tokens:,}"
    chunks = ("any" if count is None else f"{count:,}" for count in tier.num_chunks)
    ends = (min(tier.io_bytes), max(tier.io_bytes)) if tier.io_bytes else ()
    return tier.type, size, tokens, *chunks, " to ".join(dict.fromkeys(map(_bytes, ends)))


def _ranks(ranks: Sequence[Plan]) -> Grid:
    header = ("stage", "layers", "blocks alone", "bytes/block", "memory", "largest request")
    rows = tuple(
        (
            str(index),
            f"{sum(len(group.layers) for group in rank.groups):,}",
            "" if rank.num_blocks_alone is None else f"{rank.num_blocks_alone:,}",
            _bytes(rank.bytes_per_block),
            format_bytes(sum(rank.allocations)),
            format_bytes(rank.request_max_bytes),
        )
        for index, rank in enumerate(ranks)
    )
    return Grid("Pipeline stages: all take the blocks of the poorest", header, rows)


def refusal(error: PlanError) -> Facts:
    """The facts of a refused plan that are numbers."""
    sizes: dict[str, Any] = {"needed": error.need_bytes, "available": error.available_bytes}
    rows = [(name, format_bytes(size)) for name, size in sizes.items() if size is not None]
    if error.num_blocks_unchecked is not None:
        rows.append(("blocks", f"{error.num_blocks_unchecked:,} would fit"))
    if error.estimated_max_model_len is not None:
        rows.append(("would fit", f"max_model_len = {error.estimated_max_model_len:,}"))
    return Facts(tuple(rows))


def _bytes(count: int) -> str:
    """Exact where a unit cannot say it in three digits."""
    text = format_bytes(count)
    number, unit = text.split()
    exact = float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit) == count
    return text if exact else f"{count:,} B"
