"""Layers that a separate draft model adds behind the layers of its target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from kvengine.plan.models.find import architectures, describe
from kvengine.plan.specs import Layer
from kvengine.rules.releases import Release

__all__ = ["draft_layers"]

_TARGETS = {
    "EagleLlamaForCausalLM": "LlamaForCausalLM",
    "Eagle3LlamaForCausalLM": "LlamaForCausalLM",
    "LlamaForCausalLMEagle3": "LlamaForCausalLM",
    "EagleMistralForCausalLM": "MistralForCausalLM",
    "EagleDeepSeekMTPModel": "DeepseekV3ForCausalLM",
    "Eagle3DeepseekV2ForCausalLM": "DeepseekV3ForCausalLM",
    "EagleMiniCPMForCausalLM": "MiniCPMForCausalLM",
    "EagleLlama4ForCausalLM": "Llama4ForCausalLM",
    "Qwen3ForCausalLMEagle3": "Qwen3ForCausalLM",
}
"""Draft architecture -> the architecture whose layers it has."""


def draft_layers(config: Mapping[str, Any], first: int, release: Release) -> tuple[Layer, ...]:
    """The layers of an EAGLE-like head, numbered behind the target's ``first`` layers.

    ``config`` is the draft's config.json, or ``{architecture, config}``.
    """
    inner = config.get("config")
    if isinstance(inner, Mapping):
        named = config.get("architecture")
        config = {**inner, **({"architectures": [named]} if named else {})}
    names = [_TARGETS.get(name, name) for name in architectures(config)]
    architecture = describe({**config, "architectures": names}, release)
    return tuple(
        evolve(layer, name=_renumbered(layer, first), index=first + layer.index)
        for layer in architecture.layers
    )


def _renumbered(layer: Layer, first: int) -> str:
    before, _, after = layer.name.partition(f".{layer.index}.")
    return f"{before}.{first + layer.index}.{after}"
