"""Families that need only a few lines each: LFM2, LongCat, Step 3.5, Falcon, Ling linear."""

from __future__ import annotations

from attrs import evolve

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.deepseek import latent
from kvengine.plan.models.dense import attention, build
from kvengine.plan.models.mamba import hybrid
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Latent, Layer, State
from kvengine.plan.states import LinearState, ShortConv
from kvengine.rules.releases import ALWAYS

__all__ = ["bailing_linear", "falcon", "lfm2", "longcat", "step3p5"]


def lfm2(name: str, text: Text, prefix: str) -> Architecture:
    """LFM2: short convolutions between attention layers."""
    recurrence = ShortConv(
        width=text.integer("conv_dim", default=text.hidden_size),
        kernel=text.integer("conv_L_cache", default=3),
        conv_dtype="auto",
        state_dtype="auto",
    )
    state = State(kind="short_conv", recurrence=recurrence, backend="SHORT_CONV_ATTN")
    cache = attention(text)
    types = text.sequence("layer_types") or ()
    attends = set(text.sequence("full_attn_idxs") or ())

    def layer(i: int) -> Layer:
        base = f"{prefix}model.layers.{i}"
        if (types[i] == "full_attention") if types else (i in attends):
            return Layer(f"{base}.self_attn.attn", i, cache)
        return Layer(f"{base}.short_conv", i, state)

    return hybrid(name, text, map(layer, range(text.num_layers)), kv_heads=text.kv_heads)


def longcat(name: str, text: Text, prefix: str) -> Architecture:
    """LongCat-Flash: two latent attentions in every layer."""
    hidden = text.count("num_hidden_layers", default=0)
    count = hidden // 2 or text.count("num_layers")
    cache = Latent(width=text.latent_width)
    layers = [
        Layer(f"{prefix}model.layers.{i}.self_attn.{j}.attn", i, cache)
        for i in range(count)
        for j in range(2)
    ]
    found = latent(name, text, layers, [], width=text.latent_width)
    return evolve(found, num_layers=count)


def step3p5(name: str, text: Text, prefix: str) -> Architecture:
    """Step 3.5: window layers may have a head count of their own."""
    other = text.table("attention_other_setting")
    types = text.sequence("layer_types") or ()
    full = attention(text)
    heads = other.integer("num_attention_groups", default=text.kv_heads)
    size = other.integer("head_dim", default=text.head_size)

    def layer(i: int) -> Layer:
        windowed = types[i] == "sliding_attention" if i < len(types) else i % 2 == 0
        window = text.size("sliding_window") if windowed else None
        cache = full
        if window:
            cache = Attention(heads=heads, head_size=size, head_size_v=size, window=window)
        return Layer(f"{prefix}model.layers.{i}.self_attn.attn", i, cache)

    return build(name, text, map(layer, range(text.num_layers)))


def falcon(name: str, text: Text, prefix: str) -> Architecture:
    """Falcon: its layers never learn of the cache dtype."""
    size = text.head_size
    cache = Attention(heads=text.kv_heads, head_size=size, head_size_v=size, plain_in=ALWAYS)
    return build(
        name,
        text,
        [
            Layer(f"{prefix}transformer.h.{i}.self_attention.attn", i, cache)
            for i in range(text.num_layers)
        ],
    )


def bailing_linear(name: str, text: Text, prefix: str) -> Architecture:
    """Ling and Ring 2.5: linear attention, and latent attention at the end of every group."""
    recurrence = LinearState(
        heads=text.heads, head_size=text.head_size, conv_dtype="auto", state_dtype="auto"
    )
    state = State(kind="linear", recurrence=recurrence, backend="LINEAR_ATTN")
    cache = Latent(width=text.latent_width)
    period = text.integer("layer_group_size", default=1)

    def layer(i: int) -> Layer:
        base = f"{prefix}model.layers.{i}.self_attn"
        if period > 0 and (i + 1) % period:
            return Layer(base, i, state)
        return Layer(f"{base}.attn", i, cache)

    return hybrid(
        name,
        text,
        map(layer, range(text.num_layers)),
        heads=text.heads,
        kv_heads=1,
        head_size=text.latent_width,
        latent=True,
        hybrid=True,
    )
