"""Hash units, chunks and the host tier: what offloading makes of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd, lcm
from typing import Any

from attrs import frozen

from kvengine.errors import PlanError
from kvengine.plan.groups import Bundle
from kvengine.plan.plan import Offload
from kvengine.plan.setup import Setup
from kvengine.plan.specs import Spec
from kvengine.plan.tiers import Chunks, tiers_of
from kvengine.units import align_up, ceil_div

__all__ = ["Units", "hash_units", "plan_offload", "why_copied"]

_PATH = ("kv_transfer", "kv_connector_extra_config")


@frozen(kw_only=True)
class Units:
    """Tokens of one scheduler step's alignment and of one hash."""

    scheduler_tokens: int
    hash_tokens: int


def _scaled(bundle: Bundle, setup: Setup) -> int:
    """Tokens of a request that one block of a group stands for."""
    return bundle.tokens_per_block * (1 if bundle.spec.kind == "mamba" else setup.context)


def hash_units(bundles: Sequence[Bundle], setup: Setup, tokens_per_block: int) -> Units:
    """The units as a worker sees them; PlanError when prefix_match_unit does not divide."""
    asked = setup.prefix_match_unit
    if len(bundles) <= 1:
        tokens = tokens_per_block * setup.context
        return Units(scheduler_tokens=tokens, hash_tokens=tokens)
    sizes = [_scaled(bundle, setup) for bundle in bundles]
    whole = lcm(*sizes)
    if not (setup.prefix_caching or setup.has_connector) or any(
        bundle.spec.kind == "mamba" and bundle.spec.cache_mode != "align" for bundle in bundles
    ):
        return Units(scheduler_tokens=whole, hash_tokens=whole)
    unit = asked if asked is not None else gcd(*sizes)
    if any(size % unit for size in sizes):
        raise PlanError(
            "plan",
            "geometry",
            f"prefix_match_unit {unit} does not divide the groups' block sizes {sizes}",
            f"use a divisor of {gcd(*sizes)}",
            path=("cache", "prefix_match_unit"),
        )
    return Units(scheduler_tokens=whole, hash_tokens=unit)


def plan_offload(
    bundles: Sequence[Bundle],
    setup: Setup,
    units: Units,
    bytes_per_block: int,
    extra: Any,
) -> Offload | PlanError:
    """Chunks of every group and of the host tier, or why offloading is refused."""
    try:
        blocks = _blocks_per_chunk(bundles, setup, units, extra)
    except PlanError as refused:
        return refused
    sizes = [_offered(bundle, setup) for bundle in bundles]
    chunks = tuple(bundle.row_bytes * blocks for bundle in bundles)
    replicated = why_copied(bundles, setup, bytes_per_block) is None
    copies = 1 if replicated else setup.world
    stored = align_up(bytes_per_block * copies * blocks, setup.facts.chunk_page_bytes)
    budget = getattr(extra, "cpu_bytes_to_use", None)
    tokens = tuple(size * blocks for size in sizes)
    return Offload(
        blocks_per_chunk=(blocks,) * len(bundles),
        tokens_per_chunk=tokens,
        chunk_bytes=chunks,
        vllm_bytes_per_chunk=stored,
        vllm_num_chunks=None if not budget or not stored else int(budget) // stored,
        replicated=replicated,
        tiers=tiers_of(extra, budget, Chunks(num_bytes=chunks, tokens=tokens, copies=copies)),
    )


def _offered(bundle: Bundle, setup: Setup) -> int:
    """Tokens per block as the offloading side counts them."""
    tokens = bundle.tokens_per_block
    if bundle.spec.kind == "mamba" and not setup.facts.context_scales_mamba:
        return tokens
    if bundle.uniform and not setup.facts.uniform_groups_scale:
        return tokens
    return tokens * setup.context


def _blocks_per_chunk(bundles: Sequence[Bundle], setup: Setup, units: Units, extra: Any) -> int:
    sizes = [_offered(bundle, setup) for bundle in bundles]
    for size in sizes:
        if size % units.hash_tokens:
            raise _refuse(
                "geometry",
                f"groups of {size} tokens per block are not whole hash units of"
                f" {units.hash_tokens} tokens",
                *_aligning(setup),
            )
    blocks = getattr(extra, "blocks_per_chunk", None)
    if not setup.facts.blocks_per_chunk:
        blocks = None
    tokens = getattr(extra, "block_size", None)
    if blocks is not None and tokens is not None:
        raise _refuse(
            "exclusive",
            "block_size and blocks_per_chunk are both given",
            "keep blocks_per_chunk: it needs no common block size",
            (*_PATH, "block_size"),
        )
    if blocks is not None:
        return int(blocks)
    return 1 if tokens is None else _from_tokens(int(tokens), sizes, setup)


def _aligning(setup: Setup) -> tuple[str, tuple[str, ...]]:
    """What makes groups whole hash units, and where."""
    if setup.mamba_mode == "all":
        return "use the mode align", ("cache", "mamba_cache_mode")
    return "switch prefix caching on, so that block sizes are aligned", ("cache", "prefix_caching")


def _from_tokens(tokens: int, sizes: Sequence[int], setup: Setup) -> int:
    path = (*_PATH, "block_size")
    distinct = sorted(set(sizes))
    by_blocks = setup.facts.blocks_per_chunk
    if len(distinct) != 1:
        raise _refuse(
            "geometry",
            "block_size is impossible here: groups have "
            + " and ".join(map(str, distinct))
            + " tokens per block",
            "use blocks_per_chunk"
            if by_blocks
            else "leave it out: one block is one chunk; blocks_per_chunk needs vLLM 0.26",
            path,
        )
    size = distinct[0]
    if tokens % size:
        raise _refuse(
            "geometry",
            f"block_size {tokens} is not a multiple of the {size} tokens of one block",
            f"use {ceil_div(tokens, size) * size}"
            + f", or blocks_per_chunk = {ceil_div(tokens, size)}" * by_blocks,
            path,
        )
    return tokens // size


def _refuse(code: str, message: str, hint: str, path: tuple[str, ...]) -> PlanError:
    return PlanError("plan", code, message, hint, path=path)


def why_copied(bundles: Sequence[Bundle], setup: Setup, bytes_per_block: int) -> str | None:
    """Why host memory keeps every rank's copy apart; None where one copy stands for all."""
    facts = setup.facts
    if not setup.model.latent or setup.tensor == 1 or not bundles:
        return "ranks hold different bytes"
    if facts.keeps_replicas_once == "never":
        return f"vLLM {facts.release} never keeps one for all, releases from 0.27 on may"
    if setup.pipeline > 1 or setup.nodes > 1:
        return "the engine spans pipeline stages or machines"
    if setup.context > 1 or setup.prefill_context > 1:
        return "context parallelism divides the tokens over the ranks"
    if setup.executor != "mp":
        return f"the executor is {setup.executor}, and only mp shares host memory"
    if facts.keeps_replicas_once == "one_mla_group":
        only = bundles[0]
        alike = len(bundles) == 1 and not only.uniform and only.spec.kind == "mla"
        if alike and bytes_per_block == only.row_bytes:
            return None
        return f"vLLM {facts.release} keeps one only for a single group of alike layers"
    specs = {spec for bundle in bundles for spec in bundle.kinds}
    replicas = reduce(gcd, (_replicas(spec, setup.tensor) for spec in specs), setup.tensor)
    return None if replicas == setup.tensor else "some layers are divided over the ranks"


def _replicas(spec: Spec, tensor: int) -> int:
    if spec.tensor_shards is None:
        return 1
    return max(1, tensor // spec.tensor_shards)
