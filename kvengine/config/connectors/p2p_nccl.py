"""``P2pNcclConnector``: blocks from engine to engine over NCCL, up to vLLM 0.23."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import Absent, NotIn
from kvengine.rules.options import option
from kvengine.rules.readings import FloatCall
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import Releases

__all__ = ["P2pNcclConnector"]


@rules(
    Fault(
        at=Absent("http_port"),
        when=(NotIn("proxy_ip", ("",)), NotIn("proxy_port", ("",))),
        says="is required with proxy_ip and proxy_port",
        because="the proxy has to learn the HTTP port of this server",
        code="missing",
        vllm=Releases(until="0.24"),
    ),
)
@frozen(kw_only=True, slots=False)
class P2pNcclConnector(ExtraConfig):
    """Removed in 0.24; use NixlConnector."""

    proxy_ip: str = option(
        "Address of the proxy; without one nothing is registered.",
        default="",
        examples=("10.0.0.1",),
    )
    proxy_port: str = option(
        "Port of the proxy, as text.",
        default="",
        examples=("30001",),
        traps=("a JSON number fails: it is put together with the address as text",),
    )
    http_port: int | str | None = option(
        "HTTP port of this server, told to the proxy.",
        default=None,
        nullable=True,
        examples=(8000,),
    )
    mem_pool_size_gb: float = option(
        "Host memory for received tensors, in GiB despite the name.",
        unit="GiB",
        default=32.0,
        reading=FloatCall(),
        examples=(32,),
    )
    send_type: Literal["PUT", "PUT_ASYNC", "GET"] = option(
        "Who sends, and whether anybody waits.", default="PUT_ASYNC", examples=("PUT_ASYNC",)
    )
    nccl_num_channels: str = option(
        "NCCL channels, as text.",
        default="8",
        examples=("8",),
        traps=("a JSON number fails: it is put into the environment",),
    )
