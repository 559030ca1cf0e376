"""Mamba and Mamba-2 layers, alone or between attention layers."""

from __future__ import annotations

from collections.abc import Iterable

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.dense import attention
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Layer, State
from kvengine.plan.states import Mamba1, Mamba2
from kvengine.rules.releases import Releases

__all__ = ["falcon_h1", "granite_hybrid", "jamba", "mamba", "mamba2", "nemotron_h", "zamba2"]


def hybrid(name: str, text: Text, layers: Iterable[Layer], **more: object) -> Architecture:
    """Recurrent states, beside attention where there is any."""
    found = tuple(layers)
    attends = [layer.cache for layer in found if isinstance(layer.cache, Attention)]
    values = {
        "num_layers": text.num_layers,
        "heads": text.heads if attends else 0,
        "kv_heads": attends[0].heads if attends else 0,
        "head_size": attends[0].head_size if attends else 0,
        "hybrid": bool(attends),
    }
    return Architecture(name=name, text=text, layers=found, **(values | more))  # type: ignore[arg-type]


def _mamba1(text: Text, width: int, state: str, kernel: str) -> State:
    recurrence = Mamba1(
        width=width, state_size=text.integer(state), kernel=text.integer(kernel),
        conv_dtype="auto", state_dtype="auto",
    )  # fmt: skip
    return State(kind="mamba1", recurrence=recurrence, backend="MAMBA1_ATTN")


def mamba(name: str, text: Text, prefix: str) -> Architecture:
    """Mamba and Falcon-Mamba: no attention at all."""
    state = _mamba1(text, text.integer("intermediate_size"), "state_size", "conv_kernel")
    layers = [Layer(f"{prefix}backbone.layers.{i}.mixer", i, state) for i in range(text.num_layers)]
    return hybrid(name, text, layers)


def mamba2(name: str, text: Text, prefix: str) -> Architecture:
    """Mamba-2 without attention."""
    width = text.integer("expand", default=2) * text.hidden_size
    state = _mamba2(
        text, width, groups="n_groups", heads="num_heads", size="head_dim", state="state_size",
        kernel="conv_kernel",
    )  # fmt: skip
    layers = [Layer(f"{prefix}backbone.layers.{i}.mixer", i, state) for i in range(text.num_layers)]
    return hybrid(name, text, layers)


def jamba(name: str, text: Text, prefix: str) -> Architecture:
    """Jamba: one attention layer in every ``attn_layer_period``."""
    width = text.integer("mamba_expand", default=2) * text.hidden_size
    state = _mamba1(text, width, "mamba_d_state", "mamba_d_conv")
    cache = attention(text)
    period = text.integer("attn_layer_period", default=8)
    offset = text.integer("attn_layer_offset", default=4)

    def layer(i: int) -> Layer:
        base = f"{prefix}model.layers.{i}"
        attends = i % period == offset
        return Layer(f"{base}.attn", i, cache) if attends else Layer(f"{base}.mixer", i, state)

    return hybrid(name, text, map(layer, range(text.num_layers)))


def _mamba2(
    text: Text, width: int, *, groups: str, heads: str, size: str, state: str, kernel: str,
    dtype: str = "auto",
) -> State:  # fmt: skip
    recurrence = Mamba2(
        width=width, groups=text.integer(groups, default=1), heads=text.integer(heads),
        head_size=text.integer(size), state_size=text.integer(state),
        kernel=text.integer(kernel), conv_dtype="auto", state_dtype=dtype,
    )  # fmt: skip
    return State(
        kind="mamba2",
        recurrence=recurrence,
        backend="MAMBA2_ATTN",
        checkpoints_in=Releases(since="0.32"),
    )


def _mamba_fields(text: Text, width: int) -> State:
    """The spelling that Granite 4, Falcon-H1 and Bamba share."""
    return _mamba2(
        text, width, groups="mamba_n_groups", heads="mamba_n_heads", size="mamba_d_head",
        state="mamba_d_state", kernel="mamba_d_conv",
    )  # fmt: skip


def granite_hybrid(name: str, text: Text, prefix: str) -> Architecture:
    """Granite 4: ``layer_types`` says which layers attend."""
    state = _mamba_fields(text, text.integer("mamba_expand", default=2) * text.hidden_size)
    cache = attention(text)
    types = text.sequence("layer_types") or text.sequence("layers_block_type") or ()

    def layer(i: int) -> Layer:
        base = f"{prefix}model.layers.{i}"
        if i < len(types) and "attention" in str(types[i]):
            return Layer(f"{base}.self_attn.attn", i, cache)
        return Layer(f"{base}.mixer", i, state)

    return hybrid(name, text, map(layer, range(text.num_layers)))


def falcon_h1(name: str, text: Text, prefix: str) -> Architecture:
    """Falcon-H1: every layer has attention and Mamba-2 side by side."""
    width = text.integer("mamba_d_ssm", default=0)
    state = _mamba_fields(text, width or text.integer("mamba_expand") * text.hidden_size)
    cache = attention(text)
    count = text.num_layers
    layers = []
    for i in range(count):
        layers.append(Layer(f"{prefix}model.layers.{i}.attn", i, cache))
        layers.append(Layer(f"{prefix}model.{count + i}.mixer", i, state))
    return hybrid(name, text, layers)


def zamba2(name: str, text: Text, prefix: str) -> Architecture:
    """Zamba-2: shared attention blocks before some Mamba-2 layers."""
    width = text.integer("mamba_expand", default=2) * text.hidden_size
    state = _mamba2(
        text, width, groups="mamba_ngroups", heads="n_mamba_heads", size="mamba_headdim",
        state="mamba_d_state", kernel="mamba_d_conv",
    )  # fmt: skip
    size = text.integer("attention_head_dim", default=text.head_size)
    cache = Attention(heads=text.kv_heads, head_size=size, head_size_v=size)
    types = text.sequence("layers_block_type") or ()
    hybrids = [i for i, kind in enumerate(types) if kind == "hybrid"]
    shared = text.count("num_mem_blocks", default=1)
    attends = [
        Layer(f"{prefix}model.attn.{_zamba_slot(j, len(hybrids), shared)}", hybrids[j], cache)
        for block in range(shared)
        for j in range(len(hybrids))
        if j % shared == block
    ]
    states = [Layer(f"{len(hybrids) + i}.mixer", i, state) for i in range(text.num_layers)]
    return hybrid(name, text, [*attends, *states])


def _zamba_slot(position: int, hybrids: int, shared: int) -> int:
    """The number that vLLM gives the attention of the ``position``-th hybrid layer."""
    return (position % shared) * (hybrids + shared - 1) // shared + position // shared


def nemotron_h(name: str, text: Text, prefix: str) -> Architecture:
    """Nemotron-H and Nemotron 3: a letter per layer, ``M`` for Mamba-2 and ``*`` for attention."""
    pattern = text.get("hybrid_override_pattern", default="")
    width = text.integer("mamba_num_heads") * text.integer("mamba_head_dim")
    state = _mamba2(
        text, width, groups="n_groups", heads="mamba_num_heads", size="mamba_head_dim",
        state="ssm_state_size", kernel="conv_kernel",
        dtype=text.word("mamba_ssm_cache_dtype", default="float32"),
    )  # fmt: skip
    size = text.integer("head_dim", "attention_head_dim", default=text.head_size)
    cache = Attention(
        heads=text.kv_heads, head_size=size, head_size_v=size, window=text.size("sliding_window")
    )
    layers = []
    for i, letter in enumerate(pattern):
        base = f"{prefix}model.layers.{i}.mixer"
        if letter == "M":
            layers.append(Layer(base, i, state))
        elif letter == "*":
            layers.append(Layer(f"{base}.attn", i, cache))
    return hybrid(name, text, layers, num_layers=len(pattern))
