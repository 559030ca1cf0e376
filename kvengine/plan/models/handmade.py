"""Layers that a document describes by hand, for engines and models that we do not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvengine.config.layers import (
    ChunkedLayers,
    FullLayers,
    HandLayers,
    LatentLayers,
    StateLayers,
    WindowLayers,
)
from kvengine.errors import PlanError
from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.text import MOST_LAYERS, Text
from kvengine.plan.specs import Attention, Cache, Latent, Layer, State
from kvengine.plan.states import Fixed

__all__ = ["described_by_hand"]


def described_by_hand(config: Mapping[str, Any], runs: Sequence[HandLayers]) -> Architecture:
    """The architecture of ``[[model.layers]]``: runs of alike layers, repeated in order."""
    if sum(run.count for run in runs) > MOST_LAYERS:
        raise PlanError(
            "setup",
            "limit",
            f"model.layers describes more than {MOST_LAYERS} layers",
            path=("model", "layers"),
        )
    layers = tuple(_layers(runs))
    caches = [layer.cache for layer in layers]
    attends = [cache for cache in caches if isinstance(cache, Attention)]
    latent = [cache for cache in caches if isinstance(cache, Latent)]
    kv_heads = max((cache.heads for cache in attends), default=1 if latent else 0)
    sizes = [cache.head_size for cache in attends] + [cache.width for cache in latent]
    return Architecture(
        name="model.layers",
        text=Text(config, {}),
        layers=layers,
        num_layers=len(layers),
        heads=kv_heads if attends else 0,
        kv_heads=kv_heads,
        head_size=sizes[0] if sizes else 0,
        latent=bool(latent) and not attends,
        hybrid=any(isinstance(cache, State) for cache in caches) and bool(sizes),
    )


def _layers(runs: Iterable[HandLayers]) -> Iterable[Layer]:
    index = 0
    for run in runs:
        cache = _cache(run)
        for _ in range(run.count):
            yield Layer(run.name.format(i=index), index, cache)
            index += 1


def _cache(run: HandLayers) -> Cache:
    match run:
        case WindowLayers():
            return _attention(run, window=run.window)
        case ChunkedLayers():
            return _attention(run, chunk=run.chunk)
        case FullLayers():
            return _attention(run)
        case LatentLayers():
            return Latent(width=run.width)
        case StateLayers():
            recurrence = Fixed(num_bytes=run.state_bytes)
            return State(kind="mamba2", recurrence=recurrence, backend="MAMBA2_ATTN")
    raise AssertionError(run.kind)


def _attention(
    run: FullLayers | WindowLayers | ChunkedLayers,
    *,
    window: int | None = None,
    chunk: int | None = None,
) -> Attention:
    return Attention(
        heads=run.heads,
        head_size=run.head_size,
        head_size_v=run.head_size_v or run.head_size,
        window=window,
        chunk=chunk,
    )
