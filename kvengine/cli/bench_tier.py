"""The tier that ``bench --tier`` measures, in a namespace of its own."""

from __future__ import annotations

import json
from typing import Any

from kvengine.cli import UsageError
from kvengine.config.engine import Config
from kvengine.plan.plan import Offload, Plan
from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.identity import GroupGeometry, Identity, digest_of
from kvengine.runtime.tiers.open import open_tier

__all__ = ["opened_tier"]


def opened_tier(text: str, plan: Plan, config: Config) -> Tier:
    """A directory, or a table as in ``secondary_tiers[]`` written as JSON; UsageError if it fails.

    No engine reads what the bench leaves there: the namespace is the bench's own.
    """
    try:
        return open_tier(_table(text), _identity(plan, config))
    except (TierError, ValueError) as error:
        raise UsageError(f"bench: --tier: {error}") from None


def _table(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {"type": "fs", "root_dir": text}
    table = json.loads(text)
    assert isinstance(table, dict)
    return table


def _identity(plan: Plan, config: Config) -> Identity:
    parallel = config.parallel
    groups: Any = tuple(_geometry(plan, index) for index in range(len(plan.groups)))
    return Identity(
        model=digest_of({"config": dict(config.model.config)}),
        cache_dtype=f"{plan.cache_dtype} of {config.model.dtype}",
        layout=plan.layout,
        layout_version=0,
        runner=f"kvengine bench, vLLM {plan.vllm}",
        groups=groups,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        decode_context_parallel=1,
        prefill_context_parallel=parallel.prefill_context,
        rank=0,
        hash_algorithm="random",
        salt="bench",
    )


def _geometry(plan: Plan, index: int) -> GroupGeometry:
    group, offload = plan.groups[index], plan.offload
    layers: Any = group.layers
    pages: Any = tuple(slot.page_bytes for slot in plan.slots if slot.group == index)
    per_chunk, chunk_bytes = 1, group.row_bytes
    if isinstance(offload, Offload):
        per_chunk, chunk_bytes = offload.blocks_per_chunk[index], offload.chunk_bytes[index]
    return GroupGeometry(
        kind=group.kind,
        layers=layers,
        tokens_per_block=group.tokens_per_block,
        page_bytes=pages,
        blocks_per_chunk=per_chunk,
        chunk_bytes=chunk_bytes,
    )
