"""``OffloadingConnector``: blocks go to host memory, and from there to secondary tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from kvengine.rules.options import Variant, open_keys, option, own_keys, tagged
from kvengine.rules.readings import FloatCall, IntCall, TrueText, Truth
from kvengine.rules.relations import AtMostOne, IgnoredUnless, rules
from kvengine.rules.releases import Releases

__all__ = [
    "CPUOffloadingSpec",
    "KVEngineOffloadingSpec",
    "OffloadingConnector",
    "OtherSpec",
    "TieringOffloadingSpec",
]


@own_keys("^x-")
@rules(
    AtMostOne(
        ("block_size", "blocks_per_chunk"),
        because="both set how much one chunk holds, block_size in tokens and blocks_per_chunk in"
        " blocks; only blocks_per_chunk fits groups of different block sizes",
        vllm=Releases(since="0.26"),
    ),
)
@frozen(kw_only=True, slots=False)
class OffloadingConnector:
    """Keys that the connector itself reads, whatever the spec."""

    spec_name: str = option(
        "The offloading spec: a registered name, or a class of spec_module_path.",
        default="CPUOffloadingSpec",
        examples=("TieringOffloadingSpec",),
    )
    spec_module_path: str | None = option(
        "Python module that holds the spec class, for specs outside vLLM. kvengine never imports"
        " it.",
        default=None,
        nullable=True,
        examples=("kvengine.integrations.vllm",),
    )
    blocks_per_chunk: int | None = option(
        "Blocks of one group that are stored, looked up and moved as one.",
        unit="blocks",
        spelled_since=2,
        ge=1,
        default=None,
        default_text="1",
        nullable=True,
        reading=IntCall(),
        vllm=Releases(since="0.26"),
        instead="block_size",
        examples=(8,),
    )
    block_size: int | None = option(
        "Tokens per chunk: a multiple of the tokens per block, which all groups must share.",
        unit="tokens",
        ge=1,
        default=None,
        default_text="one block",
        nullable=True,
        reading=IntCall(),
        examples=(256,),
    )
    enable_cross_layers_blocks: bool = option(
        "Packed layout for models of several groups: all pages of a block next to each other."
        " From 0.29 vLLM chooses the layout by itself (VLLM_KV_CACHE_LAYOUT overrides).",
        default=False,
        reading=TrueText(),
        vllm=Releases(since="0.24", until="0.29"),
        instead="cache.layout (VLLM_KV_CACHE_LAYOUT)",
        examples=(True,),
    )
    offload_prompt_only: bool = option(
        "Whether only blocks of the prompt are offloaded, not those of generated tokens.",
        default=True,
        reading=Truth(),
        vllm=Releases(since="0.23"),
        examples=(False,),
    )
    self_describing_kv_events: bool = option(
        "Whether KV events carry what a consumer needs to rebuild the prefix.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.24"),
        examples=(True,),
    )
    canonical_layout: bool = option(
        "Whether stored chunks use one byte order for every topology, so that engines of other"
        " tensor parallel sizes can read them. Passed on by TieringOffloadingSpec only.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.28"),
        examples=(True,),
    )
    sync_load_budget_bytes: int = option(
        "Bytes that may be loaded inside a step instead of beside it; 0 switches that off.",
        unit="bytes",
        ge=0,
        default=0,
        reading=IntCall(),
        vllm=Releases(since="0.33"),
        examples=(33554432,),
    )


@frozen(kw_only=True, slots=False)
class _HostTier(OffloadingConnector):
    """Keys of every spec that keeps chunks in host memory."""

    cpu_bytes_to_use: int = option(
        "Host memory for chunks, all ranks of one engine together; every data-parallel engine"
        " takes as much again.",
        unit="bytes",
        ge=1,
        reading=IntCall(),
        examples=(68719476736,),
        traps=(
            "too small for one chunk gives zero chunks, without an error from CPUOffloadingSpec",
            "--kv-offloading-size overwrites it",
        ),
    )
    store_threshold: int = option(
        "Store a chunk only once it has been seen that many times; below 2 every chunk is stored."
        " Up to 0.28 look-ups count, from 0.29 offers to store.",
        unit="times",
        ge=0,
        default=0,
        reading=IntCall(),
        examples=(2,),
    )


@rules(
    IgnoredUnless(
        "cache_policy_module_path",
        key="eviction_policy",
        because="vLLM looks a policy up in it only when the name is none of its own",
    ),
)
@frozen(kw_only=True, slots=False)
class _VLLMHostTier(_HostTier):
    """Keys of vLLM's own specs."""

    eviction_policy: str = option(
        "Which chunk leaves a full tier first: lru, arc, or a class of cache_policy_module_path.",
        default="lru",
        examples=("arc",),
    )
    cache_policy_module_path: str | None = option(
        "Python module that holds the eviction policy class. kvengine never imports it.",
        default=None,
        nullable=True,
        vllm=Releases(since="0.27"),
        examples=("my_policies",),
    )


@rules(
    IgnoredUnless(
        "max_tracker_size",
        key="store_threshold",
        because="it bounds what the store_threshold filter remembers",
    ),
    IgnoredUnless(
        "canonical_layout",
        key="spec_name",
        values=("TieringOffloadingSpec",),
        because="CPUOffloadingSpec keeps its own page format",
    ),
)
@frozen(kw_only=True, slots=False)
class CPUOffloadingSpec(_VLLMHostTier):
    """vLLM's host memory tier."""

    max_tracker_size: int = option(
        "Keys that the store_threshold filter remembers.",
        unit="keys",
        ge=0,
        default=64000,
        reading=IntCall(),
        examples=(64000,),
    )


@frozen(kw_only=True, slots=False)
class _Tiers(OffloadingConnector):
    """Keys of specs with tiers behind host memory."""

    secondary_tiers: Sequence[Mapping[str, Any]] = option(
        "Further tiers behind host memory, in order; each is a table with a type.",
        factory=list,
        vllm=Releases(since="0.22"),
        examples=([{"type": "fs", "root_dir": "/var/cache/kv"}],),
    )


@frozen(kw_only=True, slots=False)
class TieringOffloadingSpec(_Tiers, _VLLMHostTier):
    """vLLM's host memory tier with secondary tiers behind it (0.22 and later)."""

    tier_poll_interval_s: float = option(
        "Pause between two rounds of the thread that serves tiers with remote peers; 0 or less"
        " switches it off.",
        unit="seconds",
        default=0.001,
        reading=FloatCall(),
        vllm=Releases(since="0.33"),
        examples=(0.001,),
    )
    backpressure: Mapping[str, Any] | None = option(
        "Throttling of every secondary tier that has none of its own.",
        default=None,
        vllm=Releases(since="0.31"),
        examples=({"backpressure_cls": "LatencyBackpressure"},),
    )


@frozen(kw_only=True, slots=False)
class KVEngineOffloadingSpec(_Tiers, _HostTier):
    """kvengine's own spec: every group takes exactly its own size in host memory."""

    eviction_policy: Literal["lru", "arc", "sieve", "s3fifo"] = option(
        "Which chunk leaves a full tier first.", default="lru", examples=("s3fifo",)
    )


@frozen(kw_only=True, slots=False)
class OtherSpec(OffloadingConnector):
    """A spec that we do not know: its own keys pass."""

    values: Mapping[str, Any] = open_keys()


tagged(
    Variant(
        tag="spec_name",
        classes={
            "CPUOffloadingSpec": CPUOffloadingSpec,
            "TieringOffloadingSpec": TieringOffloadingSpec,
            "KVEngineOffloadingSpec": KVEngineOffloadingSpec,
        },
        otherwise=OtherSpec,
        default="CPUOffloadingSpec",
        open_with="spec_module_path",
        closed=True,
    )
)(OffloadingConnector)
