"""Gemma 3, 3n and 4: windows in a pattern, layers that share a cache, heads of two sizes."""

from __future__ import annotations

from attrs import evolve

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import build, every
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Layer

__all__ = ["gemma3", "gemma3n", "gemma4"]

_NAME = "model.layers.{i}.self_attn.attn"
_PATTERN = every(6, full=-1)


def gemma3(name: str, text: Text, prefix: str) -> Architecture:
    """Gemma 3: five window layers, then a full one."""
    return build(name, text, _layers(text, prefix + _NAME))


def gemma3n(name: str, text: Text, prefix: str) -> Architecture:
    """Gemma 3n: the last layers read the caches of earlier ones of their kind."""
    return build(name, text, _layers(text, prefix + _NAME))


def gemma4(name: str, text: Text, prefix: str) -> Architecture:
    """Gemma 4: full layers have fewer and wider heads than window layers."""
    widest = max(text.head_size, text.integer("global_head_dim", default=0))
    model = build(name, text, _layers(text, prefix + _NAME))
    return evolve(model, head_size=widest, uneven_heads=widest != text.head_size)


def _layers(text: Text, template: str) -> list[Layer]:
    count = text.num_layers
    own = count - text.integer("num_kv_shared_layers", default=0)
    caches: dict[int | None, Attention] = {}
    layers = []
    for i in range(count):
        window = _PATTERN(text, i)
        if window not in caches:
            caches[window] = _cache(text, window)
        layers.append(Layer(template.format(i=i), i, caches[window], stores=i < own))
    return layers


def _cache(text: Text, window: int | None) -> Attention:
    size, heads = text.head_size, text.kv_heads
    if window is None:
        size = text.integer("global_head_dim", default=size)
        if text.get("attention_k_eq_v"):
            heads = text.integer("num_global_key_value_heads", default=heads)
    return Attention(
        heads=heads,
        head_size=size,
        head_size_v=size,
        window=window,
        image_prefix=text.get("use_bidirectional_attention") == "vision",
    )
