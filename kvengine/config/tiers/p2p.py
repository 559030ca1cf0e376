"""The ``p2p`` tier: chunks from the host memory of other engines."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from kvengine.config.connectors.base import HIGHEST_PORT
from kvengine.config.tiers.base import SINCE_BACKPRESSURE, KnownTier
from kvengine.rules.conditions import Given
from kvengine.rules.options import option
from kvengine.rules.readings import FloatCall, IntCall
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import Releases

__all__ = ["P2PTier"]


@rules(
    Fault(
        at=Given("backpressure"),
        says="is refused by a p2p tier",
        because="its stores cannot be throttled",
        vllm=SINCE_BACKPRESSURE,
    ),
)
@frozen(kw_only=True, slots=False)
class P2PTier(KnownTier):
    """Peers serve each other; unknown keys are swallowed without a word."""

    host: str | None = option(
        "Address that the control socket binds to and that peers call back.",
        default=None,
        default_text="VLLM_P2P_SIDE_CHANNEL_HOST, else localhost (0.25: all interfaces)",
        examples=("10.0.0.2",),
        traps=("the default of 0.26 and later is loopback: across hosts it must be set",),
    )
    port: int | None = option(
        "Base port of the control socket; from 0.26 the data-parallel index is added.",
        unit="port",
        ge=0,
        le=HIGHEST_PORT,
        default=None,
        default_text="VLLM_P2P_SIDE_CHANNEL_PORT, else 5710 (0.25: 7777)",
        reading=IntCall(),
        examples=(5710,),
    )
    backends: Sequence[str] = option(
        "NIXL transports.", factory=lambda: ["UCX"], examples=(["UCX"],)
    )
    num_threads: int = option(
        "NIXL threads; dropped as soon as another transport than UCX is listed.",
        unit="threads",
        default=4,
        reading=IntCall(),
        examples=(4,),
    )
    unbound_store_timeout_s: float = option(
        "How long chunks are kept that nobody fetched.",
        unit="seconds",
        gt=0,
        default=60.0,
        reading=FloatCall(),
        vllm=Releases(since="0.30"),
        examples=(60,),
    )
