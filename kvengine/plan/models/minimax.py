"""MiniMax-M3 (sparse attention with an index cache) and MiMo-V2 (values narrower than keys)."""

from __future__ import annotations

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import attention, build
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Layer, Vector
from kvengine.rules.releases import Releases

__all__ = ["mimo_v2", "minimax_m3"]


def minimax_m3(name: str, text: Text, prefix: str) -> Architecture:
    """Full attention in the first layers, block-sparse attention with an index after them."""
    sparse = text.table("sparse_attention_config")
    flags = sparse.sequence("sparse_attention_freq") or ()
    index = Vector(
        kind="mla", state_bytes=sparse.integer("sparse_index_dim", default=128) * 2,
        backend="MINIMAX_M3_SPARSE_INDEXER", replicated=False, format="index",
    )  # fmt: skip
    size = text.head_size
    plain = attention(text)
    sparsely = Attention(
        heads=text.kv_heads, head_size=size, head_size_v=size, backend="MINIMAX_M3_SPARSE"
    )
    layers = []
    for i in range(text.num_layers):
        base = f"{prefix}model.layers.{i}.self_attn.attn"
        if i < len(flags) and flags[i]:
            layers.append(Layer(f"{base}.index_cache", i, index))
            layers.append(Layer(base, i, sparsely))
        else:
            layers.append(Layer(base, i, plain))
    return build(name, text, layers)


def mimo_v2(name: str, text: Text, prefix: str) -> Architecture:
    """Window and full layers have their own head counts and sizes."""
    pattern = text.sequence("hybrid_layer_pattern") or ()
    full = _cache(text, "", window=None, sinks="add_full_attention_sink_bias")
    window = text.size("sliding_window_size", "sliding_window")
    local = _cache(text, "swa_", window=window, sinks="add_swa_attention_sink_bias")
    layers = [
        Layer(
            f"{prefix}model.layers.{i}.self_attn.attn",
            i,
            local if i < len(pattern) and pattern[i] == 1 else full,
        )
        for i in range(text.num_layers)
    ]
    return build(name, text, layers)


def _cache(text: Text, kind: str, *, window: int | None, sinks: str) -> Attention:
    size = text.integer(f"{kind}head_dim", default=text.head_size)
    values = text.integer(f"{kind}v_head_dim", "v_head_dim", default=size)
    return Attention(
        heads=text.integer(f"{kind}num_key_value_heads", default=text.kv_heads),
        head_size=size,
        head_size_v=values,
        window=window,
        sinks=bool(text.get(sinks, default=False)),
        backend=None if size == values else "FLASH_ATTN_DIFFKV",
        plain_in=Releases(until="0.32"),
    )
