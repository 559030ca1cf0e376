"""Environment variables that bear on KV transfer, and what their texts mean."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from kvengine.config.engine import PACKED_VARIABLE
from kvengine.rules.conditions import In, Matches
from kvengine.rules.options import Deprecated, open_keys, option
from kvengine.rules.readings import FloatCall, IntCall, Truth
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import NEVER, Releases

__all__ = ["Variables"]

_MORIIO = Releases(until="0.23")
_STORE = Releases(since="0.22")
_P2P_LIMITS = Releases(since="0.32")
_SIX_LAYOUTS = ("LBNHC", "LBHNC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
_PORT: dict[str, Any] = {"unit": "port", "ge": 0, "le": 65535}
_SLEEP = Releases(since="0.33")
_SLEEP_TEXT = (
    "A setting of the Mooncake library; vLLM looks at its presence only, to refuse sleep mode with"
    " MooncakeConnector."
)


@rules(
    Fault(
        at=In("VLLM_KV_CACHE_LAYOUT", _SIX_LAYOUTS),
        says="is {value}, a layout of 0.29 and later",
        because="write NHD or HND",
        code="choice",
        vllm=Releases(until="0.29"),
    ),
    Fault(
        at=Matches("VLLM_MORIIO_TRANSFER_TIMEOUT_S", "."),
        says="is a fallback that the engine warns about",
        because="use recv_abort_timeout of the extra config",
        code="deprecated",
        severity="warning",
        vllm=Releases(since="0.31"),
    ),
    *(
        Fault(
            at=Matches(name, "^['\"].*['\"]$"),
            says="holds its own quotes, {value}",
            because="in a list of NAME=value entries quotes are part of the value",
            code="syntax",
            severity="warning",
        )
        for name in ("LMCACHE_CONFIG_FILE", "MOONCAKE_CONFIG_PATH")
    ),
)
@frozen(kw_only=True, slots=False)
class Variables:
    """Variables that vLLM, or a library it hands KV cache to, reads."""

    VLLM_KV_CACHE_LAYOUT: Literal[
        "NHD", "HND", "LBNHC", "LBHNC", "LHBNC", "BLHNC", "BLNHC", "BHLNC"
    ] = option(
        "Physical order of layer, block, head, token and content; it wins over what the connector"
        " asks for. NHD and HND are LBNHC and LBHNC from 0.29 on.",
        default=None,
        examples=("HND",),
    )
    VLLM_USE_SIMPLE_KV_OFFLOAD: bool = option(
        "Makes --kv-offloading-backend native mean SimpleCPUOffloadConnector. Whole numbers only:"
        " true and false raise.",
        default=0,
        reading=IntCall(),
        examples=("1",),
    )
    VLLM_KV_OFFLOAD_MAX_BATCH_DESCRIPTORS: int = option(
        "Descriptors of one batched copy of SimpleCPUOffloadConnector; 0: the platform's default.",
        default=0,
        reading=IntCall(),
        vllm=Releases(since="0.29"),
        examples=("0",),
    )
    VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: bool = option(
        "Block hashes in KV events as 64-bit numbers instead of bytes.",
        default=1,
        reading=IntCall(),
        examples=("0",),
    )
    VLLM_NIXL_SIDE_CHANNEL_HOST: str = option(
        "Address of the NIXL handshake; peers on other machines must reach it.",
        default="localhost",
        examples=("10.0.0.2",),
    )
    VLLM_NIXL_SIDE_CHANNEL_PORT: int = option(
        "Base port of the NIXL handshake; the data-parallel index is added.",
        default=5600,
        reading=IntCall(),
        examples=("5600",),
        **_PORT,
    )
    VLLM_NIXL_ABORT_REQUEST_TIMEOUT: int = option(
        "How long blocks that nobody reads are kept.",
        unit="seconds",
        default=480,
        reading=IntCall(),
        vllm=Releases(until="0.22"),
        instead="kv_lease_duration of the extra config",
        examples=("480",),
    )
    VLLM_P2P_SIDE_CHANNEL_HOST: str = option(
        "Default host of the p2p tier.",
        default="localhost",
        vllm=Releases(since="0.26"),
        examples=("10.0.0.2",),
    )
    VLLM_P2P_SIDE_CHANNEL_PORT: int = option(
        "Default base port of the p2p tier.",
        default=5710,
        reading=IntCall(),
        vllm=Releases(since="0.26"),
        examples=("5710",),
        **_PORT,
    )
    VLLM_P2P_MAX_PEERS: int = option(
        "Peer sessions at most.",
        unit="peers",
        default=128,
        reading=IntCall(),
        vllm=_P2P_LIMITS,
        examples=("128",),
    )
    VLLM_P2P_HANDSHAKE_TIMEOUT_S: float = option(
        "Deadline of a peer's handshake.",
        unit="seconds",
        default=30,
        reading=FloatCall(),
        vllm=_P2P_LIMITS,
        examples=("30",),
    )
    VLLM_P2P_IDLE_TIMEOUT_S: float = option(
        "Idle peers are dropped after it, near the limit only; 0: never.",
        unit="seconds",
        default=300,
        reading=FloatCall(),
        vllm=_P2P_LIMITS,
        examples=("300",),
    )
    VLLM_MOONCAKE_BOOTSTRAP_PORT: int = option(
        "Port of MooncakeConnector's bootstrap server.",
        default=8998,
        reading=IntCall(),
        examples=("8998",),
        **_PORT,
    )
    VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT: int = option(
        "When MooncakeConnector gives a request up.",
        unit="seconds",
        default=480,
        reading=IntCall(),
        examples=("480",),
    )
    VLLM_MOONCAKE_CONNECTOR_TIMEOUT: float = option(
        "Deadline of registering with the bootstrap server.",
        unit="seconds",
        default=30.0,
        reading=FloatCall(),
        vllm=Releases(since="0.31"),
        examples=("30",),
    )
    VLLM_MOONCAKE_STORE_TIER_LOG: bool = option(
        "Log how much store reads take from memory and from disk.",
        default=0,
        reading=IntCall(),
        vllm=_STORE,
        examples=("1",),
    )
    VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO: float = option(
        "Share of the owner's staging buffer that one read fills.",
        default=0.9,
        reading=FloatCall(),
        vllm=_STORE,
        examples=("0.9",),
    )
    VLLM_MOONCAKE_LOAD_RECV_THREADS: int = option(
        "Threads of a rank that load.",
        unit="threads",
        default=1,
        reading=IntCall(),
        vllm=Releases(since="0.25"),
        examples=("1",),
    )
    MOONCAKE_PREFERRED_SEGMENT: str = option(
        "Default of preferred_segment.", default=None, vllm=_STORE, examples=("10.0.0.1:12345",)
    )
    MOONCAKE_REQUESTER_LOCAL_HOSTNAME: str = option(
        "Host name used towards Mooncake.", default=None, vllm=_STORE, examples=("10.0.0.2",)
    )
    MOONCAKE_CONFIG_PATH: str = option(
        "JSON file of the Mooncake store; MooncakeStoreConnector needs it.",
        default=None,
        examples=("/etc/mooncake.json",),
    )
    VLLM_RPC_BASE_PATH: str = option(
        "Directory of sockets, among them that of Mooncake store look-ups.",
        default=None,
        default_text="the directory for temporary files",
        examples=("/tmp",),
    )
    VLLM_MORIIO_CONNECTOR_READ_MODE: str = option(
        "MoRIIO's read mode.",
        default="0",
        vllm=_MORIIO,
        instead="read_mode of the extra config",
        examples=("1",),
    )
    VLLM_MORIIO_QP_PER_TRANSFER: int = option(
        "Queue pairs per transfer.",
        default=1,
        reading=IntCall(),
        vllm=_MORIIO,
        instead="qp_per_transfer of the extra config",
        examples=("1",),
    )
    VLLM_MORIIO_POST_BATCH_SIZE: int = option(
        "Requests posted together.",
        default=-1,
        reading=IntCall(),
        vllm=_MORIIO,
        instead="post_batch_size of the extra config",
        examples=("-1",),
    )
    VLLM_MORIIO_NUM_WORKERS: int = option(
        "Workers of the engine.",
        default=1,
        reading=IntCall(),
        vllm=_MORIIO,
        instead="num_workers of the extra config",
        examples=("1",),
    )
    VLLM_MORIIO_TRANSFER_TIMEOUT_S: float = option(
        "When MoRIIO gives a receive up; from 0.31 a fallback for recv_abort_timeout.",
        unit="seconds",
        default=120,
        reading=FloatCall(),
        vllm=Releases(since="0.28"),
        examples=("120",),
    )
    LMCACHE_CONFIG_FILE: str = option(
        "LMCache's configuration file.", default=None, examples=("/etc/lmcache.yaml",)
    )
    LMCACHE_FORCE_SKIP_SAVE: bool = option(
        "LMCache's adapter never stores. Any text switches it on, 0 and false too.",
        default="",
        reading=Truth(),
        examples=("1",),
    )
    LMCACHE_USE_UPSTREAM_MP: bool = option(
        "Use vLLM's own LMCacheMPConnector even where the lmcache package brings one. Any text"
        " switches it on.",
        default="",
        reading=Truth(),
        vllm=_STORE,
        examples=("1",),
    )
    LMCACHE_MAX_LOCAL_CPU_SIZE: float = option(
        "Host memory of LMCache, in GB, for each rank.",
        unit="GB",
        default=5,
        reading=FloatCall(),
        examples=("50",),
    )
    LMCACHE_EXTRA_CONFIG: str = option(
        "Further settings of LMCache, as JSON.", default=None, examples=('{"use_odirect": true}',)
    )
    PYTHONHASHSEED: str = option(
        "Seed of block hashes. Engines that share chunks need the same, and up to 0.28 (from 0.29"
        " with xxhash) it must be set.",
        default=None,
        examples=("0",),
    )
    VLLM_PREFIX_CACHE_RETENTION_INTERVAL: int = option(
        "How far apart checkpoints of sliding windows are kept.",
        default=None,
        reading=IntCall(),
        vllm=Releases(since="0.23", until="0.30"),
        instead="--prefix-cache-retention-interval",
        examples=("4096",),
    )
    VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE: bool = option(
        "0 turns the hybrid KV manager off for chunked local attention.",
        default=1,
        reading=IntCall(),
        examples=("0",),
    )
    VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT: bool = option(
        "Another KV cache layout on ROCm.", default=0, reading=IntCall(), examples=("1",)
    )
    VLLM_SSM_CONV_STATE_LAYOUT: str = option(
        "Order of the convolution states of Mamba layers; NIXL needs DS.",
        default=None,
        examples=("DS",),
    )
    PYTORCH_CUDA_ALLOC_CONF: str = option(
        "PyTorch's allocator; expandable_segments:True conflicts with every connector.",
        default=None,
        examples=("expandable_segments:False",),
    )
    MC_FORCE_MNNVL: str = option(_SLEEP_TEXT, default=None, vllm=_SLEEP, examples=("1",))
    MC_INTRANODE_NVLINK: str = option(_SLEEP_TEXT, default=None, vllm=_SLEEP, examples=("1",))
    MC_USE_TENT: str = option(_SLEEP_TEXT, default=None, vllm=_SLEEP, examples=("1",))
    MC_USE_TEV1: str = option(_SLEEP_TEXT, default=None, vllm=_SLEEP, examples=("1",))
    VLLM_USE_PACKED_HMA_KV_CACHE: str = option(
        "Asked for the packed layout between two releases; none reads it.",
        default=None,
        vllm=NEVER,
        examples=("1",),
        deprecated=Deprecated(use="kv_connector_extra_config.enable_cross_layers_blocks"),
    )
    values: dict[str, str] = open_keys()


assert PACKED_VARIABLE in Variables.__annotations__
