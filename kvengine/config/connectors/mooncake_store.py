"""``MooncakeStoreConnector``: blocks in a shared Mooncake store, and the JSON file it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import Given, In, NotIn, On
from kvengine.rules.options import open_keys, option
from kvengine.rules.readings import OnlyTrue, TrueText, Truth
from kvengine.rules.relations import Elsewhere, Fault, IgnoredUnless, rules
from kvengine.rules.releases import Releases
from kvengine.rules.words import TextCall, Word

__all__ = ["MooncakeFile", "MooncakeStoreConnector"]

_SHARED_TP = Releases(since="0.30")
_FILE_KEYS = (
    "metadata_server",
    "master_server_address",
    "protocol",
    "device_name",
    "global_segment_size",
    "local_buffer_size",
    "mode",
    "enable_offload",
    "tenant_id",
)


@rules(
    Elsewhere(
        _FILE_KEYS,
        home="the JSON file that MOONCAKE_CONFIG_PATH names",
        because="the store's own settings are not part of the transfer config",
    ),
    Elsewhere(
        ("mooncake_config_path",),
        home="the environment, as MOONCAKE_CONFIG_PATH",
        because="no release reads the path of the file here",
    ),
    Fault(
        at=Given("store_tp_size"),
        when=(On("enable_store_tp_lcm"),),
        says="is ignored, prefill_tp_sizes decides",
        because="enable_store_tp_lcm takes the least common multiple of those",
        code="overridden",
        severity="warning",
        vllm=_SHARED_TP,
    ),
    IgnoredUnless(
        "prefill_tp_sizes",
        key="enable_store_tp_lcm",
        values=(True,),
        because="the sizes are read for the least common multiple only",
        vllm=_SHARED_TP,
    ),
    *(
        Fault(
            at=On("enable_cross_layers_blocks"),
            when=(wish,),
            says="switches sharing between tensor parallel sizes off",
            because="the rank falls back to a namespace of its own",
            severity="warning",
            vllm=_SHARED_TP,
        )
        for wish in (Given("store_tp_size"), On("enable_store_tp_lcm"))
    ),
)
@frozen(kw_only=True, slots=False)
class MooncakeStoreConnector(ExtraConfig):
    """Every engine stores to, and loads from, one pool."""

    enable_cross_layers_blocks: bool = option(
        "Up to 0.28 the cross-layer block layout. From 0.30 it changes no layout and merely rules"
        " out sharing between tensor parallel sizes.",
        default=False,
        reading=TrueText(),
        vllm=Releases(but=("0.29",)),
        examples=(True,),
        traps=("an old true left in place switches off store_tp_size and enable_store_tp_lcm",),
    )
    load_async: bool = option(
        "Load between steps instead of inside one.",
        default=True,
        reading=Truth(),
        examples=(False,),
    )
    lookup_async: bool = option(
        "Ask the store without holding up the scheduler, and come back to it a step later.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.24"),
        examples=(True,),
    )
    enable_lookup: bool = option(
        "Whether the store is asked and loaded from at all.",
        default=True,
        reading=Truth(),
        vllm=Releases(since="0.27"),
        examples=(False,),
        traps=("off, for a kv_consumer, the engine only lends its memory to the pool",),
    )
    save_decode_cache: bool = option(
        "Store blocks filled while decoding too; it lets a kv_consumer write.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.29"),
        examples=(True,),
    )
    discard_partial_chunks: bool = option(
        "Look up and store whole blocks only; later releases always do.",
        default=True,
        reading=Truth(),
        vllm=Releases(until="0.22"),
        examples=(True,),
    )
    lookup_rpc_port: int | str = option(
        "Tells the look-up sockets of several engines on one host apart: part of a file name, not"
        " a TCP port.",
        default=0,
        examples=(0,),
        traps=("two engines of one host with the same value and data-parallel rank collide",),
    )
    cache_prefix: str = option(
        "Namespace put before the keys in the store.",
        default="",
        reading=TextCall(),
        vllm=Releases(since="0.24"),
        examples=("tenant-a",),
        traps=("before 0.24 it is ignored and tenants share keys",),
    )
    preferred_segment: str | None = option(
        "Segment, host and port, that this rank writes to.",
        default=None,
        nullable=True,
        default_text="MOONCAKE_PREFERRED_SEGMENT",
        vllm=Releases(since="0.22"),
        examples=("10.0.0.1:12345",),
    )
    enable_group_semantics: bool = option(
        "Store the parts of one chunk as a group with one lifetime.",
        default=False,
        reading=TrueText(strip=True),
        vllm=Releases(since="0.28"),
        examples=(True,),
    )
    store_tp_size: int | None = option(
        "Tensor parallel size for which KV is stored, so that engines of other sizes can share"
        " it: a multiple of this engine's own.",
        unit="ranks",
        default=None,
        nullable=True,
        vllm=_SHARED_TP,
        examples=(8,),
        traps=(
            "a text is no size: sharing is off, with a warning and another namespace",
            "serves one full-attention group only, without context parallelism",
        ),
    )
    enable_store_tp_lcm: bool = option(
        "Derive store_tp_size from prefill_tp_sizes: their least common multiple.",
        default=False,
        reading=OnlyTrue(),
        vllm=_SHARED_TP,
        examples=(True,),
    )
    prefill_tp_sizes: Sequence[int] | None = option(
        "Tensor parallel sizes of all prefill engines that share the store.",
        unit="ranks",
        ge=1,
        default=None,
        nullable=True,
        vllm=_SHARED_TP,
        examples=([4, 8],),
    )
    custom_mem_pool: str | None = option(
        "Take the KV cache's memory from a Mooncake allocator.",
        default=None,
        reading=Word(words=("NVLINK", "BAREX"), or_none=True),
        vllm=Releases(since="0.31"),
        examples=("NVLINK",),
        traps=("refused with sleep mode and with the cumem allocator",),
    )


@rules(
    Fault(
        at=NotIn("global_segment_size", (0, "0")),
        when=(In("mode", ("standalone-store",)),),
        says="must be 0 in a standalone store, not {value}",
        because="engines of a standalone store lend it no memory",
        code="range",
        vllm=Releases(since="0.22"),
    ),
    Fault(
        at=In("global_segment_size", (0, "0")),
        when=(In("mode", ("embedded",), when_absent=True),),
        says="must be above 0 in an embedded store",
        because="the pool is made of what the engines lend",
        code="range",
        vllm=Releases(since="0.22"),
    ),
    Fault(
        at=In("local_buffer_size", (0, "0")),
        says="must be above 0",
        because="the store needs a buffer",
        code="range",
        vllm=Releases(since="0.22"),
    ),
)
@frozen(kw_only=True, slots=False)
class MooncakeFile:
    """The JSON file that MOONCAKE_CONFIG_PATH names."""

    metadata_server: str = option(
        "Address of the metadata server.", default="", examples=("P2PHANDSHAKE",)
    )
    master_server_address: str = option(
        "Address of the master.", default="", examples=("10.0.0.1:50051",)
    )
    protocol: str = option("Transport.", default="rdma", examples=("rdma", "tcp"))
    device_name: str = option("RDMA devices.", default="", examples=("mlx5_0",))
    global_segment_size: int | str = option(
        "Memory that a rank lends to the pool: bytes, or a text with gb, mb, kb or b (powers of"
        " 1024).",
        unit="bytes",
        default="4gb",
        examples=("4gb",),
        traps=("GiB, G and TB are refused",),
    )
    local_buffer_size: int | str = option(
        "Buffer of a rank, written like global_segment_size.",
        unit="bytes",
        default="4gb",
        examples=("4gb",),
    )
    mode: Literal["embedded", "standalone-store"] = option(
        "Whether the engines make up the pool, or somebody else does.",
        default="embedded",
        vllm=Releases(since="0.22"),
        examples=("standalone-store",),
    )
    enable_offload: bool = option(
        "Use the owner's SSD tier.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.22"),
        examples=(True,),
    )
    tenant_id: str | None = option(
        "Tenant of the store.",
        default=None,
        nullable=True,
        default_text="default",
        vllm=Releases(since="0.28"),
        examples=("team-a",),
    )
    values: dict[str, object] = open_keys()
