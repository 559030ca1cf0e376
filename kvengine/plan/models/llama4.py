"""Llama 4: layers with rotary positions attend within chunks, the others to everything."""

from __future__ import annotations

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import build
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Layer

__all__ = ["llama4"]


def llama4(name: str, text: Text, prefix: str) -> Architecture:
    """Scout and Maverick: every fourth layer is global unless ``no_rope_layers`` says else."""
    chunk = text.integer("attention_chunk_size", default=8192)
    size = text.head_size
    local = Attention(heads=text.kv_heads, head_size=size, head_size_v=size, chunk=chunk)
    globally = Attention(heads=text.kv_heads, head_size=size, head_size_v=size)
    return build(
        name,
        text,
        [
            Layer(
                f"{prefix}model.layers.{i}.self_attn.attn",
                i,
                local if chunk and _has_rope(text, i) else globally,
            )
            for i in range(text.num_layers)
        ],
    )


def _has_rope(text: Text, index: int) -> bool:
    listed = text.sequence("no_rope_layers")
    if listed:
        return bool(listed[index])
    interval = text.integer("no_rope_layer_interval", default=4)
    return (index + 1) % interval != 0
