"""DeepSeek-V4: a window per layer, compressed latent caches, compressor states, an indexer."""

from __future__ import annotations

from attrs import evolve

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.deepseek import latent
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Layer, Vector

__all__ = ["deepseek_v4"]

_ALIGNMENT = 576
_STATE_BYTES = 584
"""A latent state as fp8: 448 bytes without position, 128 with, 8 of scales."""

_Caches = list[tuple[str, Vector, bool]]

_COMPRESSOR_BLOCKS = {4: 4, 128: 8}
"""Compression ratio -> tokens per block of the compressor's state."""


def deepseek_v4(name: str, text: Text, prefix: str) -> Architecture:
    """The caches of every layer by its entry in ``compress_ratios``."""
    ratios = text.sequence("compress_ratios") or ()
    count = text.num_layers
    drafts = text.count("num_nextn_predict_layers", default=0)
    window = Vector(
        kind="window_mla", state_bytes=_STATE_BYTES, tokens_per_block=64,
        window=text.integer("sliding_window"), alignment=_ALIGNMENT,
        backend="DEEPSEEK_SPARSE_SWA", format="v4",
    )  # fmt: skip
    caches = {int(ratio): _caches(text, window, int(ratio)) for ratio in {*ratios, 0}}
    layers = [
        _layers(
            caches[int(ratios[i]) if i < len(ratios) else 0], f"{prefix}model.layers.{i}.attn", i
        )
        for i in range(count + drafts)
    ]
    whole = latent(
        name,
        text,
        [layer for group in layers[:count] for layer in group],
        [layer for group in layers[count:] for layer in group],
        width=text.integer("head_dim"),
    )
    return evolve(whole, packed_latent=True)


def _layers(caches: _Caches, base: str, index: int) -> list[Layer]:
    return [Layer(base + suffix, index, cache, stores) for suffix, cache, stores in caches]


def _caches(text: Text, window: Vector, ratio: int) -> _Caches:
    """Name suffix, cache, and whether it is stored, of a layer with this compression ratio."""
    main = Vector(
        kind="mla", state_bytes=_STATE_BYTES, tokens_per_state=max(ratio, 1),
        alignment=_ALIGNMENT, backend="FLASHMLA_SPARSE_DSV4", format="v4",
    )  # fmt: skip
    if ratio <= 1:
        return [(".swa_cache", window, True), ("", main, False)]
    width = text.integer("head_dim")
    found = [
        (".swa_cache", window, True),
        ("", main, True),
        (".compressor.state_cache", _compressor(width, ratio), True),
    ]
    return (_indexer(text, ratio) if ratio == 4 else []) + found


def _indexer(text: Text, ratio: int) -> _Caches:
    size = text.integer("index_head_dim")
    keys = Vector(
        kind="mla", state_bytes=size + size // 128 * 4, tokens_per_state=ratio,
        alignment=_ALIGNMENT, backend="DEEPSEEK_V4_INDEXER", format="indexer",
    )  # fmt: skip
    return [
        (".indexer.k_cache", keys, True),
        (".indexer.compressor.state_cache", _compressor(size, ratio), True),
    ]


def _compressor(width: int, ratio: int) -> Vector:
    """Running key and gate sums in float32; two windows of them where blocks overlap (ratio 4)."""
    overlap = 2 if ratio == 4 else 1
    return Vector(
        kind="window_mla", state_bytes=2 * overlap * width * 4,
        tokens_per_block=_COMPRESSOR_BLOCKS.get(ratio, 8), window=overlap * ratio,
        alignment=_ALIGNMENT, backend="CompressorBackend", format="compressor",
    )  # fmt: skip
