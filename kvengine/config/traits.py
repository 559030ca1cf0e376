"""What advisories may ask about a model, from its name or its config.json.

``hybrid``: more than one KV cache group; ``window``: sliding windows; ``mamba``: recurrent
layers; ``mla``; ``sparse``: a top-k index; ``mixed-blocks``: groups of different block sizes;
``scratch-group``: a group outside prefix caching; ``nhd-only``; ``step5``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["traits_of_config", "traits_of_name"]

_HYBRID_MAMBA = "hybrid mamba"
_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"deepseek-?v4", "hybrid window mla sparse mixed-blocks"),
    (r"deepseek-?v3\.2", "mla sparse"),
    (r"deepseek-?(v2|v3|r1)", "mla"),
    (r"gpt-oss", "hybrid window"),
    (r"gemma-?[234]", "hybrid window"),
    (r"qwen-?3(\.[5-9]|-next)", _HYBRID_MAMBA),
    (r"kimi-?(k3|linear)", _HYBRID_MAMBA),
    (r"kimi-?k2", "mla"),
    (r"nemotron-?(3|h)\b|nemotron.*hybrid", _HYBRID_MAMBA),
    (r"granite-?4", _HYBRID_MAMBA),
    (r"jamba|zamba|bamba|falcon-h", _HYBRID_MAMBA),
    (r"llama-?4", "hybrid window"),
    (r"mimo-?v2", "hybrid window"),
    (r"minimax-?m3", "sparse nhd-only"),
    (r"glm-?5\.3-flash", "hybrid mamba mixed-blocks scratch-group"),
    (r"glm-?5", "mla sparse"),
    (r"step-?5", "sparse step5"),
    (r"llama-?[23]|qwen-?(2|3)|mistral|mixtral|phi-|qwq|opt-", ""),
    (r"\(mamba\)|mamba hybrid|gdn", _HYBRID_MAMBA),
    (r"sliding window", "hybrid window"),
    (r"\bhybrid\b", "hybrid"),
)
_MAMBA_KEYS = ("mamba_d_state", "ssm_state_size", "mamba_num_heads", "linear_num_key_heads")
_RECURRENT = ("linear_attention", "mamba", "kda", "gated_delta")


def traits_of_name(name: str) -> frozenset[str] | None:
    """The traits of a model by its name; None for a name that says nothing."""
    for pattern, traits in _BY_NAME:
        if re.search(pattern, name, re.IGNORECASE):
            return frozenset(traits.split())
    return None


def traits_of_config(config: Mapping[str, Any]) -> frozenset[str] | None:
    """The traits of a model by its config.json; None for an empty one."""
    if not config:
        return None
    text = config.get("text_config")
    whole = {**config, **(text if isinstance(text, Mapping) else {})}
    kinds = {str(kind) for kind in whole.get("layer_types") or ()}
    traits: set[str] = set()
    if any(key in whole for key in _MAMBA_KEYS) or any(r in k for k in kinds for r in _RECURRENT):
        traits |= {"hybrid", "mamba"}
    if any("sliding" in kind or "chunked" in kind for kind in kinds):
        traits |= {"window"} | ({"hybrid"} if len(kinds) > 1 else set())
    if whole.get("kv_lora_rank"):
        traits.add("mla")
    if whole.get("index_topk"):
        traits.add("sparse")
    kind = str(whole.get("model_type", "")).replace("_", "-")
    return frozenset(traits) | (traits_of_name(kind) or frozenset())
