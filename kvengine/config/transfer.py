"""vLLM's ``KVTransferConfig``: the object that ``--kv-transfer-config`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from kvengine.config.connectors import CONNECTOR
from kvengine.rules.conditions import Given, In
from kvengine.rules.options import option, refuses_unknown
from kvengine.rules.readings import LenientBool, LenientFloat, LenientInt
from kvengine.rules.relations import Fault, Requires, rules
from kvengine.rules.releases import ALWAYS, Releases

__all__ = ["Child", "KVTransferConfig"]

_UNTIL_REJECTED = Releases(until="0.32")


@refuses_unknown
@rules(
    Requires(
        "kv_connector",
        needs=("kv_role",),
        because="vLLM refuses a connector without a role; choose kv_producer, kv_consumer or"
        " kv_both",
    ),
    Fault(
        at=In("kv_connector_module_path", ("",)),
        says="is empty",
        because="leave it out, or name a module",
        code="range",
    ),
)
@frozen(kw_only=True)
class KVTransferConfig:
    """How KV cache moves in and out of one engine."""

    kv_connector: str | None = option(
        "The connector that moves KV cache: a registered name, or a class of"
        " kv_connector_module_path. Null counts as not given.",
        nullable=True,
        default=None,
        examples=("OffloadingConnector", "NixlConnector"),
    )
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = option(
        "Whether this engine hands KV cache out, takes it in, or both. Required with a connector.",
        nullable=True,
        default=None,
        examples=("kv_both",),
    )
    kv_connector_extra_config: Mapping[str, Any] = option(
        "Options of the connector. vLLM never checks them; which keys are read depends on the"
        " connector and the release.",
        factory=dict,
        examples=({"cpu_bytes_to_use": 68719476736},),
        variant=CONNECTOR,
    )
    kv_connector_module_path: str | None = option(
        "Python module that holds the connector class, for connectors outside vLLM. It wins over"
        " the registry. kvengine never imports it.",
        nullable=True,
        default=None,
        examples=("lmcache.integration.vllm.lmcache_connector_v1",),
    )
    engine_id: str | None = option(
        "Name of this engine among its peers; data-parallel ranks get a suffix.",
        nullable=True,
        default=None,
        default_text="a random UUID",
        examples=("prefill-0",),
    )
    kv_load_failure_policy: Literal["recompute", "fail"] = option(
        "What happens to a request whose KV cache could not be loaded. With MultiConnector only"
        " the outer value counts.",
        default="fail",
        examples=("recompute",),
    )
    kv_buffer_device: str = option(
        "Where NIXL stages transferred KV cache; cpu means a buffer in host memory.",
        default="cuda",
        default_text="the device type of the platform",
        readers=("NixlConnector",),
        examples=("cpu",),
    )
    enable_permute_local_kv: bool = option(
        "Swap the token and head order of received KV cache (experimental, NIXL only).",
        default=False,
        reading=LenientBool(),
        readers=("NixlConnector",),
        examples=(True,),
    )
    kv_port: int = option(
        "Port of the first connector generation; read by P2pNcclConnector up to 0.23, accepted"
        " without effect since.",
        default=14579,
        reading=LenientInt(),
        readers=("P2pNcclConnector",),
        unit="port",
        dead=Releases(since="0.24"),
        examples=(14579,),
    )
    kv_buffer_size: float = option(
        "Size of the transfer buffer of P2pNcclConnector (up to 0.23); without effect from 0.24,"
        " rejected since 0.32.",
        default=1e9,
        unit="bytes",
        reading=LenientFloat(),
        vllm=_UNTIL_REJECTED,
        dead=Releases(since="0.24"),
        readers=("P2pNcclConnector",),
        examples=(1e9,),
    )
    kv_rank: int | None = option(
        "Rank of this engine among its peers; read by nobody since 0.21, rejected since 0.32.",
        nullable=True,
        default=None,
        reading=LenientInt(),
        vllm=_UNTIL_REJECTED,
        dead=ALWAYS,
        examples=(0,),
    )
    kv_parallel_size: int = option(
        "Number of peers; read by nobody since 0.21, rejected since 0.32.",
        default=1,
        reading=LenientInt(),
        vllm=_UNTIL_REJECTED,
        dead=ALWAYS,
        examples=(2,),
    )
    kv_ip: str = option(
        "Address of the first connector generation; read by nobody since 0.21, rejected since"
        " 0.32.",
        default="127.0.0.1",
        vllm=_UNTIL_REJECTED,
        dead=ALWAYS,
        examples=("127.0.0.1",),
    )


@rules(
    Fault(
        at=Given("engine_id"),
        says="cannot be set for a child: vLLM hands it the engine's own, and then has two",
        because="remove it; every release from 0.21 to 0.33 fails here",
    ),
)
@frozen(kw_only=True)
class Child(KVTransferConfig):
    """One connector of several: a whole transfer config, which inherits the engine id only."""

    kv_connector: str = option("The connector of this child.", examples=("OffloadingConnector",))
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] = option(
        "The role of this child; it is not inherited.", examples=("kv_both",)
    )
    engine_id: str | None = option(
        "Not for children: vLLM 0.21 to 0.33 fail with it.",
        default=None,
        nullable=True,
        examples=("prefill-0",),
    )
    kv_load_failure_policy: Literal["recompute", "fail"] = option(
        "Without effect in a child: the outer value counts.",
        default="fail",
        dead=ALWAYS,
        examples=("recompute",),
    )
