"""The keys of a vLLM ``--config`` file that are about KV transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.options import open_keys, option

__all__ = ["ConfigFile"]


@frozen(kw_only=True, slots=False)
class ConfigFile:
    """A configuration file of ``vllm serve``; its other keys are flags as well, and pass."""

    kv_transfer_config: KVTransferConfig | str | None = option(
        "vLLM's KVTransferConfig, as a mapping or as JSON text. Suffixes such as 8G count in the"
        " text only.",
        key="kv-transfer-config",
        default=None,
        examples=({"kv_connector": "NixlConnector", "kv_role": "kv_both"},),
    )
    kv_offloading_size: float | None = option(
        "Host memory for offloading (--kv-offloading-size).",
        key="kv-offloading-size",
        unit="GiB",
        gt=0,
        default=None,
        examples=(64,),
    )
    kv_offloading_backend: Literal["native", "lmcache"] = option(
        "What kv-offloading-size stands for.",
        key="kv-offloading-backend",
        default="native",
        examples=("native",),
    )
    values: Mapping[str, Any] = open_keys()
