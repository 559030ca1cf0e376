"""``OffloadingConnector``: blocks go to host memory, and from there to secondary tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.config.tiers import OwnDirectories, OwnTier, SecondaryTier
from kvengine.config.tiers.backpressure import Backpressure, DetectorNamed
from kvengine.config.tiers.base import SINCE_BACKPRESSURE
from kvengine.rules.conditions import (
    Absent,
    AtLeast,
    Filled,
    Given,
    HasItem,
    In,
    LacksItem,
    NotIn,
    On,
)
from kvengine.rules.options import Variant, open_keys, option, tagged
from kvengine.rules.readings import FloatCall, IntCall, Truth
from kvengine.rules.registry import Named, Registry
from kvengine.rules.relations import AtMostOne, Fault, IgnoredUnless, rules
from kvengine.rules.releases import Releases

__all__ = [
    "SPECS",
    "CPUOffloadingSpec",
    "KVEngineOffloadingSpec",
    "OffloadingConnector",
    "OtherSpec",
    "SharedStorageOffloadingSpec",
    "TieringOffloadingSpec",
]


@rules(
    AtMostOne(
        ("block_size", "blocks_per_chunk"),
        because="both set how much one chunk holds, block_size in tokens and blocks_per_chunk in"
        " blocks; only blocks_per_chunk fits groups of different block sizes",
        vllm=Releases(since="0.26"),
    ),
)
@frozen(kw_only=True, slots=False)
class OffloadingConnector(ExtraConfig):
    """Blocks go to host memory as the spec says, and from there to secondary tiers."""

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


_POLICIES = ("lru", "arc")
_SINCE_OWN_POLICIES = Releases(since="0.27")


@rules(
    Fault(
        at=Given("spec_module_path"),
        says="is ignored: vLLM has this spec itself",
        because="vLLM looks there only for a spec_name that is none of its own",
        code="ignored",
        severity="warning",
    ),
    Fault(
        at=NotIn("eviction_policy", _POLICIES),
        when=(Absent("cache_policy_module_path"),),
        says='must be "lru" or "arc", not {value}',
        because="a policy of your own needs cache_policy_module_path as well",
        code="choice",
        vllm=_SINCE_OWN_POLICIES,
    ),
    Fault(
        at=NotIn("eviction_policy", _POLICIES),
        says='must be "lru" or "arc", not {value}',
        because="releases before 0.27 know no others",
        code="choice",
        vllm=Releases(until="0.27"),
    ),
    Fault(
        at=Given("cache_policy_module_path"),
        when=(In("eviction_policy", _POLICIES, when_absent=True),),
        says="is ignored: vLLM has this eviction_policy itself",
        because="vLLM looks there only for a policy that is none of its own",
        code="ignored",
        severity="warning",
        vllm=_SINCE_OWN_POLICIES,
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
    Fault(
        at=HasItem("secondary_tiers", "type", ("valkey",)),
        says="holds a tier of kvengine's",
        because="its tiers need spec_name = KVEngineOffloadingSpec; CPUOffloadingSpec has none",
        foreign=True,
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


@rules(
    Fault(
        at=AtLeast("store_threshold", 2),
        says="is {value}, which TieringOffloadingSpec refuses",
        because="its filter is for CPUOffloadingSpec; below 2 every chunk is stored",
        vllm=Releases(since="0.22"),
    ),
    Fault(
        at=On("self_describing_kv_events"),
        says="is refused by TieringOffloadingSpec",
        because="it takes them from 0.27 on",
        vllm=Releases(since="0.24", until="0.27"),
    ),
    Fault(
        at=Filled("backpressure"),
        when=(HasItem("secondary_tiers", "type", ("p2p",)),),
        says="is the default of every tier, and p2p tiers refuse it",
        because="give each of the other tiers a backpressure of its own",
        vllm=SINCE_BACKPRESSURE,
    ),
    DetectorNamed(),
    Fault(
        at=In("secondary_tiers", ([],)),
        says="is empty: CPUOffloadingSpec does the same",
        because="TieringOffloadingSpec is for tiers behind host memory",
        code="ignored",
        severity="info",
    ),
    Fault(
        at=Given("tier_poll_interval_s"),
        when=(LacksItem("secondary_tiers", "type", ("p2p",)),),
        says="matters to p2p tiers only, and there is none",
        because="only tiers that ask for it are polled",
        code="ignored",
        severity="info",
        vllm=Releases(since="0.33"),
    ),
)
@frozen(kw_only=True, slots=False)
class TieringOffloadingSpec(_VLLMHostTier):
    """vLLM's host memory tier with secondary tiers behind it (0.22 and later)."""

    secondary_tiers: Sequence[SecondaryTier] = option(
        "Further tiers behind host memory, in order; each is a table with a type.",
        factory=list,
        vllm=Releases(since="0.22"),
        examples=([{"type": "fs", "root_dir": "/var/cache/kv"}],),
    )

    tier_poll_interval_s: float = option(
        "Pause between two rounds of the thread that serves tiers with remote peers; 0 or less"
        " switches it off.",
        unit="seconds",
        default=0.001,
        reading=FloatCall(),
        vllm=Releases(since="0.33"),
        examples=(0.001,),
    )
    backpressure: Backpressure | None = option(
        "Throttling of stores to every secondary tier; a tier's own goes over it, key by key.",
        default=None,
        nullable=True,
        vllm=SINCE_BACKPRESSURE,
        examples=({"backpressure_cls": "EMABackpressureDetector"},),
        traps=("p2p tiers refuse it",),
    )


@rules(
    Fault(
        at=Absent("spec_module_path"),
        says="is needed by vLLM to find this spec",
        because='add spec_module_path = "kvengine.integrations.vllm"',
        code="missing",
        severity="warning",
    ),
    OwnDirectories(),
)
@frozen(kw_only=True, slots=False)
class KVEngineOffloadingSpec(_HostTier):
    """kvengine's own spec: every group takes exactly its own size in host memory."""

    eviction_policy: Literal["lru", "arc", "s3fifo"] = option(
        "Which chunk leaves a full tier first.", default="lru", examples=("s3fifo",)
    )
    secondary_tiers: Sequence[OwnTier] = option(
        "kvengine's tiers behind host memory, in order; each is a table with a type.",
        factory=list,
        examples=([{"type": "fs", "root_dir": "/var/cache/kv", "max_bytes": 214748364800}],),
    )


@frozen(kw_only=True, slots=False)
class OtherSpec(OffloadingConnector):
    """A spec that we do not know: its own keys pass."""

    values: Mapping[str, Any] = open_keys()


@frozen(kw_only=True, slots=False)
class SharedStorageOffloadingSpec(OffloadingConnector):
    """llm-d's file system spec: chunks go straight to a shared directory."""

    shared_storage_path: str = option("Directory for the files.", examples=("/mnt/kv",))
    threads_per_gpu: int = option(
        "Threads that move files, for each device.",
        unit="threads",
        default=64,
        reading=IntCall(),
        examples=(64,),
    )
    values: Mapping[str, Any] = open_keys()


_HERE = "kvengine.config.connectors.offloading"

SPECS = Registry(
    {
        "CPUOffloadingSpec": Named(at=f"{_HERE}:CPUOffloadingSpec"),
        "TieringOffloadingSpec": Named(
            at=f"{_HERE}:TieringOffloadingSpec", vllm=Releases(since="0.22")
        ),
        "KVEngineOffloadingSpec": Named(at=f"{_HERE}:KVEngineOffloadingSpec"),
    }
)
"""The specs of vLLM, and ours."""

OUTSIDE_SPECS = Registry(
    {
        "SharedStorageOffloadingSpec": Named(
            at=f"{_HERE}:SharedStorageOffloadingSpec",
            origin="llm-d's fs backend",
            modules=("llmd_fs_backend.spec", "llmd_fs_backend"),
        ),
    }
)
"""Well-known specs of other packages."""

tagged(
    Variant(
        tag="spec_name",
        classes=SPECS,
        outside=OUTSIDE_SPECS,
        otherwise=OtherSpec,
        default="CPUOffloadingSpec",
        open_with="spec_module_path",
        closed=True,
        kind="spec",
    )
)(OffloadingConnector)
