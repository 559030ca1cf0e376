"""Flags of the engine that bear on KV transfer."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from kvengine.rules.options import open_keys, option
from kvengine.rules.readings import FloatCall
from kvengine.rules.releases import Releases

__all__ = ["Flags"]


@frozen(kw_only=True, slots=False)
class Flags:
    """Flags of ``vllm serve``."""

    kv_transfer_config: str = option(
        "The transfer config as JSON, or field by field with dotted flags, which replace the JSON"
        " as a whole. An empty text and the word None mean no KV transfer.",
        key="--kv-transfer-config",
        default=None,
        examples=('{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',),
        traps=(
            "8G outside quotes is 8 GiB, 8g is 8 000 000 000, 8GB is no JSON",
            "a key with dots in its name cannot be set with a dotted flag",
            "given twice, the last one wins",
        ),
    )
    kv_offloading_size: float = option(
        "Host memory for offloading, all tensor parallel ranks together; it writes a transfer"
        " config.",
        key="--kv-offloading-size",
        unit="GiB",
        gt=0,
        default=None,
        reading=FloatCall(),
        examples=("64",),
        traps=(
            "it overwrites kv_connector, kv_role and cpu_bytes_to_use of a transfer config",
            "0 does not switch it off: vLLM then misses cpu_bytes_to_use",
        ),
    )
    kv_offloading_backend: Literal["native", "lmcache"] = option(
        "What --kv-offloading-size stands for.",
        key="--kv-offloading-backend",
        default="native",
        examples=("native",),
        traps=(
            "VLLM_USE_SIMPLE_KV_OFFLOAD=1 makes native mean SimpleCPUOffloadConnector",
            "from 0.23 on lmcache means a server of its own, which is not told the size",
        ),
    )
    disable_hybrid_kv_cache_manager: str = option(
        "Size every layer as full attention; --no-disable-... keeps groups by force.",
        key="--disable-hybrid-kv-cache-manager",
        default=None,
        examples=("true",),
        traps=("in 0.21 any transfer config switches the hybrid manager off",),
    )
    enable_prefix_caching: str = option(
        "Whether blocks are found again by their content; offloading needs it.",
        key="--enable-prefix-caching",
        default=None,
        default_text="as the release resolves it: off for Mamba hybrids up to 0.27, else on",
        examples=("true",),
    )
    prefix_caching_hash_algo: Literal[
        "builtin", "sha256", "sha256_cbor", "sha256_cbor_64bit", "xxhash", "xxhash_cbor"
    ] = option(
        "How blocks are hashed; engines that share chunks need the same.",
        key="--prefix-caching-hash-algo",
        default="sha256",
        examples=("sha256",),
    )
    prefix_cache_retention_interval: str = option(
        "How far apart checkpoints of sliding windows are kept.",
        key="--prefix-cache-retention-interval",
        default=None,
        vllm=Releases(since="0.29"),
        examples=("4096",),
    )
    values: dict[str, object] = open_keys()
