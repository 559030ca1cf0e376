"""``[[model.layers]]``: layers described by hand, for models and engines that we do not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from kvengine.rules.options import Variant, open_keys, option, tagged

__all__ = [
    "LAYER_KINDS",
    "ChunkedLayers",
    "FullLayers",
    "HandLayers",
    "LatentLayers",
    "StateLayers",
    "WindowLayers",
]


@frozen(kw_only=True)
class HandLayers:
    """A run of alike layers; runs stand in the order of the model."""

    kind: str = option(
        "What the layers cache: full, window, chunked, mla or state.",
        spelled_since=2,
        examples=("full", "window"),
    )
    count: int = option(
        "Layers of this run.", unit="layers", ge=1, default=1, spelled_since=2, examples=(24,)
    )
    name: str = option(
        "Name of a layer; {i} is its number, counted over all runs.",
        default="model.layers.{i}.self_attn.attn",
        spelled_since=2,
        examples=("decoder.layers.{i}.attn",),
    )


@frozen(kw_only=True)
class FullLayers(HandLayers):
    """Layers that keep keys and values of every token."""

    heads: int = option(
        "KV heads of the whole model, before tensor parallelism divides them.",
        unit="heads",
        ge=1,
        spelled_since=2,
        examples=(8,),
    )
    head_size: int = option(
        "Elements of one head's key.", unit="elements", ge=1, spelled_since=2, examples=(128,)
    )
    head_size_v: int | None = option(
        "Elements of one head's value, where it differs from the key.",
        unit="elements",
        ge=1,
        default=None,
        default_text="head_size",
        spelled_since=2,
        examples=(128,),
    )


@frozen(kw_only=True)
class WindowLayers(FullLayers):
    """Layers that keep the last tokens only."""

    window: int = option(
        "Tokens of the sliding window.", unit="tokens", ge=1, spelled_since=2, examples=(1024,)
    )


@frozen(kw_only=True)
class ChunkedLayers(FullLayers):
    """Layers that attend within chunks of the sequence."""

    chunk: int = option(
        "Tokens of one chunk.", unit="tokens", ge=1, spelled_since=2, examples=(8192,)
    )


@frozen(kw_only=True)
class LatentLayers(HandLayers):
    """Multi-head latent attention: one vector per token, the same on every rank."""

    width: int = option(
        "Elements of the vector: kv_lora_rank + qk_rope_head_dim.",
        unit="elements",
        ge=1,
        spelled_since=2,
        examples=(576,),
    )


@frozen(kw_only=True)
class StateLayers(HandLayers):
    """Recurrent layers: one state per sequence, whatever its length."""

    state_bytes: int = option(
        "Bytes of one state on one rank.",
        unit="bytes",
        ge=1,
        spelled_since=2,
        examples=(2097152,),
    )


@frozen(kw_only=True)
class OtherLayers(HandLayers):
    """Layers of a kind that there is not: whatever they hold, the kind is the problem."""

    values: Mapping[str, Any] = open_keys()


LAYER_KINDS: dict[str, type[HandLayers]] = {
    "full": FullLayers,
    "window": WindowLayers,
    "chunked": ChunkedLayers,
    "mla": LatentLayers,
    "state": StateLayers,
}
"""``kind`` -> the class of the table."""

tagged(Variant(tag="kind", classes=LAYER_KINDS, otherwise=OtherLayers, closed=True))(HandLayers)
