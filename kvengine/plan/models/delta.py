"""Gated delta networks: Qwen3-Next and Qwen3.5, Olmo hybrids, Kimi Linear and Kimi-K3."""

from __future__ import annotations

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import attention
from kvengine.plan.models.mamba import hybrid
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Latent, Layer, State
from kvengine.plan.states import Delta
from kvengine.rules.releases import Releases

__all__ = ["kimi_linear", "qwen_delta"]

_HOPPER = ("9.0",)
_EXPORTING = (*_HOPPER, "10.", "12.")
"""Devices whose prefill kernels export states; Blackwell's only for heads of 128, with CUDA 13."""


def qwen_delta(name: str, text: Text, prefix: str) -> Architecture:
    """Three gated delta layers, then full attention, unless ``layer_types`` says otherwise."""
    state = _gated_delta(text)
    cache = attention(text)
    types = text.sequence("layer_types")
    interval = text.integer("full_attention_interval", default=4)

    def layer(i: int) -> Layer:
        base = f"{prefix}model.layers.{i}"
        attends = types[i] == "full_attention" if types else (i + 1) % interval == 0
        if attends:
            return Layer(f"{base}.self_attn.attn", i, cache)
        return Layer(f"{base}.linear_attn", i, state)

    drafts = text.count("mtp_num_hidden_layers", "num_nextn_predict_layers", default=1)
    count = text.num_layers
    return hybrid(
        name,
        text,
        map(layer, range(count)),
        kv_heads=text.kv_heads,
        drafts=tuple(
            Layer(f"mtp.layers.{i}.self_attn.attn", count + i, cache) for i in range(drafts)
        ),
    )


def _gated_delta(text: Text) -> State:
    recurrence = Delta(
        key_heads=text.integer("linear_num_key_heads"),
        value_heads=text.integer("linear_num_value_heads"),
        key_size=text.integer("linear_key_head_dim"),
        value_size=text.integer("linear_value_head_dim"),
        kernel=text.integer("linear_conv_kernel_dim"),
        conv_dtype="auto",
        state_dtype=text.word("mamba_ssm_dtype", default="auto"),
    )
    return State(
        kind="gdn",
        recurrence=recurrence,
        backend="GDN_ATTN",
        checkpoints_in=Releases(since="0.33"),
        checkpoints_on=_EXPORTING if recurrence.key_size == 128 else _HOPPER,
        checkpoint_tokens=64,
    )


def kimi_linear(name: str, text: Text, prefix: str) -> Architecture:
    """Kimi Delta Attention beside latent attention; layers are counted from 1 in the config."""
    linear = text.table("linear_attn_config")
    heads, size = linear.integer("num_heads"), linear.integer("head_dim")
    recurrence = Delta(
        key_heads=heads, value_heads=heads, key_size=size, value_size=size,
        kernel=linear.integer("short_conv_kernel_size", default=4), conv_dtype="auto",
        state_dtype="float32",
    )  # fmt: skip
    bounded = linear.has("gate_lower_bound")
    state = State(
        kind="kda",
        recurrence=recurrence,
        backend="KIMI_K3_KDA" if linear.get("use_full_rank_gate") else "GDN_ATTN",
        checkpoints_in=Releases(since="0.29") if bounded and size == 128 else None,
        checkpoints_on=_EXPORTING,
    )
    cache = Latent(width=text.latent_width)
    recurrent = {int(i) - 1 for i in linear.sequence("kda_layers") or ()}
    layers = [
        Layer(f"{prefix}model.layers.{i}.self_attn", i, state if i in recurrent else cache)
        for i in range(text.num_layers)
    ]
    return hybrid(
        name,
        text,
        layers,
        heads=text.heads,
        kv_heads=1,
        head_size=text.latent_width,
        latent=True,
        hybrid=True,
    )
