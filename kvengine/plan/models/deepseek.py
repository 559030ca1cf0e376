"""Latent attention (MLA): DeepSeek-V2/V3, Kimi-K2, GLM-4.7-Flash; and with a sparse indexer."""

from __future__ import annotations

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import dense
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Latent, Layer, Vector

__all__ = ["deepseek", "latent"]

INDEXER = "DEEPSEEK_V32_INDEXER"


def deepseek(name: str, text: Text, prefix: str) -> Architecture:
    """Latent attention; an indexer beside it where the config has ``index_topk``."""
    if not text.has("kv_lora_rank"):
        return dense(name, text, prefix)
    sparse = text.has("index_topk")
    count = text.num_layers
    drafts = text.count("num_nextn_predict_layers", default=0)
    leads, follows = (
        Latent(width=text.latent_width, sparse=sparse, leads=x) for x in (True, False)
    )
    indexer = _indexer(text) if sparse else None
    layers = []
    for i in range(count + drafts):
        base = f"{prefix}model.layers.{i}.self_attn"
        own = sparse and _has_indexer(text, i)
        found = [Layer(f"{base}.attn", i, leads if own else follows)]
        if own and indexer is not None:
            found.insert(0, Layer(f"{base}.indexer.k_cache", i, indexer))
        layers.append(found)
    return latent(
        name,
        text,
        [layer for group in layers[:count] for layer in group],
        [layer for group in layers[count:] for layer in group],
        width=text.latent_width,
    )


def latent(
    name: str, text: Text, layers: list[Layer], drafts: list[Layer], *, width: int
) -> Architecture:
    """An architecture of latent attention: one KV head, replicated on every rank."""
    return Architecture(
        name=name,
        text=text,
        layers=tuple(layers),
        drafts=tuple(drafts),
        num_layers=text.num_layers,
        heads=text.heads,
        kv_heads=1,
        head_size=width,
        latent=True,
    )


def _indexer(text: Text) -> Vector:
    """Keys of the indexer in one byte per element, and a 4-byte scale per 128 of them."""
    size = text.integer("index_head_dim")
    return Vector(kind="mla", state_bytes=size + size // 128 * 4, backend=INDEXER, format="indexer")


def _has_indexer(text: Text, index: int) -> bool:
    """Whether a layer picks its own tokens instead of sharing an earlier layer's choice.

    Layers of multi-token prediction always do.
    """
    pattern = text.get("index_topk_pattern")
    if index >= text.num_layers:
        return True
    if pattern is not None:
        return index >= len(pattern) or pattern[index] != "S"
    period = text.integer("index_topk_freq", default=1)
    offset = text.integer("index_skip_topk_offset", default=2)
    return max(index - offset + 1, 0) % period == 0
