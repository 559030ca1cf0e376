"""kvengine's own plan of the model that vLLM serves, for the sizes that vLLM does not say."""

from __future__ import annotations

import logging
import os
from typing import Any

from kvengine.errors import KVEngineError
from kvengine.plan.plan import Plan

__all__ = ["document_of", "plan_of", "stage_of"]

_log = logging.getLogger(__name__)
_PLENTY_BYTES = 1 << 50


def plan_of(engine: Any | None, version: str, *, quiet: bool = False) -> Plan | None:
    """Plan what vLLM has set up; None, logged unless ``quiet``, when kvengine cannot."""
    if engine is None:
        return None
    from kvengine import load, make_plan

    try:
        return make_plan(load(document_of(engine, version)))
    except KVEngineError as error:
        level = logging.DEBUG if quiet else logging.INFO
        _log.log(level, "kvengine cannot plan this model, vLLM's own sizes are used: %s", error)
        return None


def stage_of(plan: Plan | None, rank: int, world_size: int) -> Plan | None:
    """The part of a plan that a rank holds: vLLM numbers ranks stage by stage."""
    if plan is None or not plan.ranks:
        return plan
    return plan.ranks[rank * len(plan.ranks) // world_size]


def document_of(engine: Any, version: str) -> dict[str, Any]:
    """vLLM's resolved configuration as an engine document."""
    model, parallel, cache = engine.model_config, engine.parallel_config, engine.cache_config
    return {
        "schema": 2,
        "vllm": ".".join(version.split(".")[:2]),
        "model": {
            "config": _plain(model.hf_config.to_dict()),
            "max_model_len": model.max_model_len,
            "dtype": str(model.dtype).removeprefix("torch."),
        },
        "parallel": {
            "tensor": parallel.tensor_parallel_size,
            "pipeline": parallel.pipeline_parallel_size,
            "decode_context": parallel.decode_context_parallel_size,
            **_layers_per_stage(),
        },
        "cache": {
            "memory": _PLENTY_BYTES,  # sizes per block do not depend on how many there are
            "tokens_per_block": cache.block_size,
            "dtype": str(cache.cache_dtype),
        },
        "kv_transfer": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": dict(engine.kv_transfer_config.kv_connector_extra_config),
        },
    }


def _layers_per_stage() -> dict[str, list[int]]:
    """How vLLM was told to divide the layers, if it was."""
    told = os.environ.get("VLLM_PP_LAYER_PARTITION")
    return {"pipeline_layers": [int(count) for count in told.split(",")]} if told else {}


def _plain(value: Any) -> Any:
    """A config as JSON types: dtypes and the like become text, None is left out."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (str, int, float, bool)):
        return value
    return str(value).removeprefix("torch.")
