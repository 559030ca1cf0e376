"""``NixlConnector`` and its pull and push forms: blocks from engine to engine over NIXL."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import Given, NotIn
from kvengine.rules.options import option
from kvengine.rules.readings import FloatCall, IntCall, TrueText, Truth
from kvengine.rules.relations import Fault, IgnoredUnless, rules
from kvengine.rules.releases import Releases

__all__ = ["NixlConnector", "NixlPushConnector"]


@rules(
    Fault(
        at=Given("num_threads"),
        when=(NotIn("backends", (["UCX"],)),),
        says="is dropped, as backends names another transport than UCX",
        because="NIXL takes a number of threads for UCX alone",
        code="ignored",
        severity="warning",
    ),
    IgnoredUnless(
        "decoder_kv_blocks_ttl",
        key="bidirectional_kv_xfer",
        because="it is how long the decode side keeps blocks for the prefill side",
        severity="info",
    ),
    IgnoredUnless(
        "kv_recompute_threshold",
        key="bidirectional_kv_xfer",
        because="it decides what is fetched back from the decode side",
        severity="info",
    ),
)
@frozen(kw_only=True, slots=False)
class NixlConnector(ExtraConfig):
    """The decode side reads blocks out of the prefill side's memory."""

    enable_cross_layers_blocks: bool = option(
        "One tensor for all layers of a block, so that one transfer moves them all; both sides"
        " must agree. Core option for models of several groups as well, in 0.24-0.28.",
        default=False,
        reading=TrueText(),
        vllm=Releases(until="0.29"),
        instead="VLLM_KV_CACHE_LAYOUT",
        examples=(True,),
        traps=(
            "counts only with the HND layout, without Mamba layers, and with FLASH_ATTN,"
            " FLASHINFER or TRITON_ATTN; no message otherwise",
            "the handshake compares it, so one side alone cannot have it",
        ),
    )
    backends: Sequence[str] = option(
        "NIXL transports.",
        factory=lambda: ["UCX"],
        examples=(["UCX"], ["LIBFABRIC"]),
        traps=("sleep mode needs exactly UCX (0.33)",),
    )
    num_threads: int = option(
        "UCX worker threads; dropped as soon as another transport is listed.",
        unit="threads",
        default=4,
        examples=(4,),
    )
    enforce_handshake_compat: bool = option(
        "Refuse a peer whose version, model, dtype, layout or backend differs.",
        default=True,
        reading=Truth(),
        examples=(False,),
        traps=("peers of 0.32 and 0.33 do not pair while it is on",),
    )
    kv_recompute_threshold: int = option(
        "Remote hits of fewer tokens are computed again instead of fetched (bidirectional mode).",
        unit="tokens",
        default=64,
        reading=IntCall(),
        examples=(64,),
    )
    bidirectional_kv_xfer: bool = option(
        "Whether the decode side keeps blocks that the prefill side may fetch in the next turn.",
        default=False,
        reading=Truth(),
        examples=(True,),
        traps=("refused with prefill context parallelism from 0.29 on",),
    )
    decoder_kv_blocks_ttl: int = option(
        "How long the decode side keeps blocks in bidirectional mode.",
        unit="seconds",
        default=480,
        vllm=Releases(since="0.22"),
        examples=(480,),
    )
    kv_lease_duration: int = option(
        "Lease on blocks of the prefill side, renewed by heartbeats every sixth of it.",
        unit="seconds",
        ge=6,
        default=30,
        vllm=Releases(since="0.22"),
        instead="VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
        examples=(30,),
        traps=(
            "it took the place of a fixed 480 s in 0.22",
            "below 6 the heartbeat interval is zero",
            "both sides should use the same value",
        ),
    )
    engine_ttl: float = option(
        "Idle time after which what is known of a peer is dropped.",
        unit="seconds",
        default=3600.0,
        vllm=Releases(since="0.24"),
        examples=(3600,),
    )


@frozen(kw_only=True, slots=False)
class NixlPushConnector(NixlConnector):
    """The prefill side writes blocks into the decode side's memory."""

    push_registration_timeout: float | None = option(
        "How long a registered decode request waits for its blocks.",
        unit="seconds",
        default=None,
        default_text="decoder_kv_blocks_ttl",
        reading=FloatCall(),
        examples=(480,),
    )
