"""Plans made by hand, for layouts that vLLM packs."""

from __future__ import annotations

from collections.abc import Sequence

from kvengine.plan.plan import Group, Plan, Slot


def packed_plan(rows: Sequence[int], bytes_per_block: int, *, first: int = 0) -> Plan:
    """One layer per group, all beginning ``first`` bytes into a row of ``bytes_per_block``."""
    return Plan(
        vllm="0.28",
        layout="packed",
        packed=True,
        num_blocks=4,
        bytes_per_block=bytes_per_block,
        request_max_bytes=0,
        max_concurrency=1.0,
        capacity_tokens=64,
        max_model_len=64,
        cache_dtype="bfloat16",
        tokens_per_block=16,
        attention_backends=(),
        tokens_per_hash=16,
        scheduler_block_tokens=16,
        groups=tuple(
            Group(
                kind="full",
                layers=(f"layers.{index}",),
                tokens_per_block=16,
                page_bytes=row,
                row_bytes=row,
            )
            for index, row in enumerate(rows)
        ),
        allocations=(4 * bytes_per_block,),
        slots=tuple(
            Slot(
                layer=f"layers.{index}",
                group=index,
                allocation=0,
                offset_bytes=first,
                stride_bytes=bytes_per_block,
                page_bytes=row,
            )
            for index, row in enumerate(rows)
        ),
        offload=None,
    )
