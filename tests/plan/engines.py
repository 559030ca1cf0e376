"""Engines to plan in tests: a model of the test data, and whatever a test says about it."""

from __future__ import annotations

from typing import Any

from kvengine.config.connectors.offloading import (
    CPUOffloadingSpec,
    KVEngineOffloadingSpec,
    TieringOffloadingSpec,
)
from kvengine.config.engine import Cache, Config, Model, Parallel
from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import PlanError
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Plan
from tests.plan import rows

GIB = 1 << 30
SPECS = {
    spec.__name__: spec
    for spec in (CPUOffloadingSpec, TieringOffloadingSpec, KVEngineOffloadingSpec)
}


def hf_config(name: str) -> dict[str, Any]:
    """The config.json of a model of the test data."""
    model = rows.model(name)
    return {**model["config"], "architectures": [model["vllm_architecture"]]}


def transfer(spec_name: str = "CPUOffloadingSpec", **extra: Any) -> KVTransferConfig:
    """An OffloadingConnector with 64 GiB of host memory."""
    values = {"cpu_bytes_to_use": 64 * GIB, "spec_name": spec_name, **extra}
    return KVTransferConfig(
        kv_connector="OffloadingConnector",
        kv_role="kv_both",
        kv_connector_extra_config=SPECS[spec_name](**values),
    )


def engine(
    name: str = "llama-3.1-8b",
    vllm: str | None = "0.28",
    *,
    model: dict[str, Any] | None = None,
    parallel: dict[str, Any] | None = None,
    kv_transfer: KVTransferConfig | None = None,
    **cache: Any,
) -> Config:
    """An engine on devices with 40 GiB for KV cache and requests of up to 32768 tokens."""
    return Config(
        schema=2,
        vllm=vllm,
        model=Model(**{"config": hf_config(name), "max_model_len": 32768, **(model or {})}),
        parallel=Parallel(**(parallel or {})),
        cache=Cache(**{"memory": 40 * GIB, **cache}),
        kv_transfer=kv_transfer,
    )


def outcome(config: Config, **options: Any) -> Plan | PlanError:
    """The plan, or why there is none."""
    try:
        return make_plan(config, **options)
    except PlanError as error:
        return error
