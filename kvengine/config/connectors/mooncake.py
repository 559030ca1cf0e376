"""``MooncakeConnector``: blocks from engine to engine over the Mooncake transfer engine."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.options import option
from kvengine.rules.releases import Releases

__all__ = ["MooncakeConnector"]


@frozen(kw_only=True, slots=False)
class MooncakeConnector(ExtraConfig):
    """Peers find each other through a bootstrap server of the prefill side."""

    num_workers: int = option(
        "Sender threads of the prefill side; twice as many tasks.",
        unit="threads",
        ge=1,
        default=10,
        examples=(10,),
        traps=('a text is not converted: "10" twice is "1010"',),
    )
    mooncake_protocol: str = option(
        "Protocol of the transfer engine.",
        default="rdma",
        examples=("rdma", "tcp"),
        traps=(
            "called protocol in the JSON file of the Mooncake store",
            "sleep mode needs rdma (0.33)",
        ),
    )
    device_name: str = option(
        "RDMA devices that the transfer engine may use.",
        default="",
        default_text="all",
        vllm=Releases(since="0.25"),
        examples=("mlx5_0",),
    )
    bootstrap_server_address: str | None = option(
        "Host and port of an external bootstrap server for prefill workers; none of their own is"
        " started then.",
        default=None,
        nullable=True,
        vllm=Releases(since="0.32"),
        instead="VLLM_MOONCAKE_BOOTSTRAP_PORT",
        examples=("10.0.0.1:8998",),
    )
