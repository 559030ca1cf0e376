"""The ``kvcr`` tier: chunks found through a router, of the external kvcr package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from kvengine.config.connectors.base import HIGHEST_PORT
from kvengine.config.tiers.base import ThrottledTier
from kvengine.rules.conditions import Given, Unlike
from kvengine.rules.options import open_keys, option, refuses_unknown
from kvengine.rules.readings import Truth
from kvengine.rules.relations import Fault, Requires, rules
from kvengine.rules.releases import Releases

__all__ = ["KvcrDisk", "KvcrTier"]

_PAIR = "the external service and the digest that both sides share belong together"


@frozen(kw_only=True, slots=False)
class KvcrDisk:
    """Disk storage of the kvcr package, which reads further keys."""

    paths: Sequence[str] = option("Directories or devices.", examples=(["/var/cache/kvcr"],))
    values: Mapping[str, Any] = open_keys()


@refuses_unknown
@rules(
    Fault(
        at=Given("type"),
        says="cannot be built by vLLM 0.31: it is handed an argument that it does not take",
        because="fixed in 0.32",
        code="known-issue",
        vllm=Releases(since="0.31", until="0.32"),
    ),
    Requires("kvcr_service_socket_path", needs=("compatibility_digest",), because=_PAIR),
    Requires("compatibility_digest", needs=("kvcr_service_socket_path",), because=_PAIR),
    Fault(
        at=Given("secondary_g2_slots"),
        when=(Given("kvcr_service_socket_path"),),
        says="is ignored, the external service has its own memory",
        because="kvcr_service_socket_path is given",
        code="ignored",
        severity="warning",
    ),
    Fault(
        at=Unlike("policy", r"^(fifo|lru|g3_fifo|g3_lru)$|\."),
        says="must be fifo, lru, g3_fifo, g3_lru or a dotted path, not {value}",
        because="kvcr has no policy of that name",
        code="choice",
    ),
)
@frozen(kw_only=True, slots=False)
class KvcrTier(ThrottledTier):
    """A router knows who holds which chunk."""

    router_capabilities: Sequence[str] = option(
        "What the router says that it can do; all that kvcr needs must be in.",
        examples=(["lookup"],),
    )
    control_ports: Sequence[int] = option(
        "Control ports, one for each local data-parallel rank.",
        unit="port",
        ge=1,
        le=HIGHEST_PORT,
        examples=([7000],),
    )
    control_host: str = option(
        "Address that the control channel binds to.", default="0.0.0.0", examples=("0.0.0.0",)
    )
    control_advertise_host: str | None = option(
        "Address told to peers.",
        default=None,
        nullable=True,
        default_text="the host's name",
        examples=("10.0.0.2",),
    )
    eager_ctrl_connect: bool = option(
        "Connect to peers before they are needed.",
        default=True,
        reading=Truth(),
        examples=(False,),
    )
    opportunistic_query: bool = option(
        "Ask peers without a hint.", default=True, reading=Truth(), examples=(False,)
    )
    enable_telemetry: bool = option(
        "Export kvcr's metrics.", default=False, reading=Truth(), examples=(True,)
    )
    operation_timeout_ms: int = option(
        "How long an operation may take.", unit="milliseconds", default=1000, examples=(1000,)
    )
    abandon_timeout_ms: int = option(
        "When an operation is given up.", unit="milliseconds", default=5000, examples=(5000,)
    )
    metadata_retry_interval_ms: int = option(
        "Pause before a peer is asked again who it is.",
        unit="milliseconds",
        default=100,
        examples=(100,),
    )
    secondary_g2_slots: int = option(
        "Slots of a private pool in host memory.", unit="slots", ge=0, default=0, examples=(1024,)
    )
    kvcr_service_socket_path: str | None = option(
        "Socket of an external kvcr service.",
        default=None,
        nullable=True,
        examples=("/run/kvcr.sock",),
    )
    compatibility_digest: str | None = option(
        "Digest that both sides must share.", default=None, nullable=True, examples=("3f2a",)
    )
    policy: str | None = option(
        "What leaves first: fifo, lru, g3_fifo, g3_lru, or a dotted path.",
        default=None,
        nullable=True,
        examples=("lru",),
    )
    g3: KvcrDisk | None = option(
        "Disk storage.", default=None, nullable=True, examples=({"paths": ["/var/cache/kvcr"]},)
    )
    local_dram_backend: str = option(
        "NIXL transport of the private pool.", default="UCX", examples=("UCX",)
    )
    remote_fw_dram_backend: str = option(
        "NIXL transport towards peers.", default="UCX", examples=("UCX",)
    )
