"""``MoRIIOConnector``: blocks from engine to engine over MORI-IO, on AMD devices."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.connectors.base import HIGHEST_PORT, ExtraConfig
from kvengine.rules.options import option
from kvengine.rules.readings import FloatCall, IntCall, TrueText
from kvengine.rules.releases import Releases
from kvengine.rules.words import Word

__all__ = ["MoRIIOConnector"]

_FROM_ENVIRONMENT = Releases(since="0.23")
_PROXY_NEEDED = Releases(until="0.28")


@frozen(kw_only=True, slots=False)
class MoRIIOConnector(ExtraConfig):
    """Either side may move the blocks; a proxy introduces the engines to each other."""

    proxy_ip: str | None = option(
        "Proxy to register with.",
        default=None,
        default_text="none (0.28 and later)",
        required=True,
        required_in=_PROXY_NEEDED,
        examples=("10.0.0.1",),
    )
    proxy_ping_port: int | None = option(
        "Port of the proxy's registration.",
        unit="port",
        ge=0,
        le=HIGHEST_PORT,
        default=None,
        default_text="0 (0.28 and later)",
        required=True,
        required_in=_PROXY_NEEDED,
        reading=IntCall(),
        examples=(36367,),
    )
    http_port: int = option(
        "HTTP port of this server, told to the proxy.",
        unit="port",
        ge=0,
        le=HIGHEST_PORT,
        reading=IntCall(),
        examples=(8000,),
    )
    handshake_port: int | None = option(
        "Base port of the handshake; rank offsets are added.",
        unit="port",
        ge=0,
        le=HIGHEST_PORT,
        default=None,
        default_text="6301",
        reading=IntCall(or_default=True),
        examples=(6301,),
    )
    notify_port: int | None = option(
        "Base port of notifications; rank offsets are added.",
        unit="port",
        ge=0,
        le=HIGHEST_PORT,
        default=None,
        default_text="61005",
        reading=IntCall(or_default=True),
        examples=(61005,),
    )
    backend: str = option(
        "Transport, in any case.",
        default="rdma",
        reading=Word(words=("rdma", "xgmi")),
        vllm=Releases(since="0.22"),
        examples=("xgmi",),
    )
    read_mode: bool = option(
        "Whether the decode side reads; else the prefill side writes.",
        default=False,
        reading=TrueText(name="equal to true or 1 as text", words=("true", "1"), strip=True),
        vllm=_FROM_ENVIRONMENT,
        instead="VLLM_MORIIO_CONNECTOR_READ_MODE",
        examples=(True,),
        traps=(
            "models with sliding windows need it from 0.30 on, unless the hybrid manager is off",
            "models with recurrent layers need it in 0.31 and 0.32",
        ),
    )
    qp_per_transfer: int = option(
        "Queue pairs per transfer.",
        default=1,
        reading=IntCall(),
        vllm=_FROM_ENVIRONMENT,
        instead="VLLM_MORIIO_QP_PER_TRANSFER",
        examples=(1,),
    )
    post_batch_size: int = option(
        "Requests posted together; -1 leaves it to MORI.",
        default=-1,
        reading=IntCall(),
        vllm=_FROM_ENVIRONMENT,
        instead="VLLM_MORIIO_POST_BATCH_SIZE",
        examples=(-1,),
    )
    num_workers: int = option(
        "Workers of the engine.",
        default=1,
        reading=IntCall(),
        vllm=_FROM_ENVIRONMENT,
        instead="VLLM_MORIIO_NUM_WORKERS",
        examples=(1,),
    )
    transfer_timeout: float = option(
        "How long to wait for a transfer.",
        unit="seconds",
        gt=0,
        default=30.0,
        reading=FloatCall(),
        vllm=_FROM_ENVIRONMENT,
        examples=(30,),
        traps=("checked to be positive from 0.31 on",),
    )
    defer_timeout: float = option(
        "Sends that nobody acknowledged are given up after it.",
        unit="seconds",
        gt=0,
        default=60.0,
        reading=FloatCall(),
        vllm=_FROM_ENVIRONMENT,
        examples=(60,),
    )
    recv_abort_timeout: float | None = option(
        "Receives that were lost are given up after it.",
        unit="seconds",
        gt=0,
        default=None,
        default_text="VLLM_MORIIO_TRANSFER_TIMEOUT_S, or 120",
        reading=FloatCall(),
        vllm=Releases(since="0.31"),
        instead="VLLM_MORIIO_TRANSFER_TIMEOUT_S",
        examples=(120,),
    )
    host_ip: str | None = option(
        "Address told to peers.",
        default=None,
        nullable=True,
        default_text="detected",
        vllm=Releases(since="0.24"),
        examples=("10.0.0.2",),
    )
