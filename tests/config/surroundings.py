"""What surrounds the transfer config of each case, as its form and its context state it.

``release`` where a case names no release of 0.21-0.33: the one of its date. Expectations of form
(``raw``) are tested with the text itself, in ``test_case_texts.py``.
"""

from __future__ import annotations

from attrs import field, frozen


@frozen(kw_only=True)
class Around:
    """Release, flags, environment and the name of the model."""

    release: str
    flags: dict | None = None
    env: dict | None = None
    model: str | None = None
    other: dict | None = None
    """The other engine of a pair: what :class:`kvengine.config.pairs.Engine` takes."""
    here: dict = field(factory=dict)
    """The same for this engine."""


def tp(size):
    return {"--tensor-parallel-size": str(size)}


SEED = {"PYTHONHASHSEED": "0"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
OTHER_107 = {"config": {**NIXL, "kv_role": "kv_consumer"}, "host": "a"}
OTHER_097 = {"config": NIXL, "flags": tp(8), "kv_heads": 8}
OTHER_099 = {"config": NIXL, "flags": tp(4)}

AROUND = {
    "case-001": Around(release="0.21", flags={}, env={}),
    "case-004": Around(
        release="0.26",
        flags={"--block-size": "256", "--no-disable-hybrid-kv-cache-manager": True},
        env={},
        model="DeepSeek-V4-Flash",
    ),
    "case-005": Around(release="0.23", flags={"--enable-prefix-caching": True}),
    "case-006": Around(
        release="0.21", flags=tp(2), env={"LMCACHE_CONFIG_FILE": '"/config/cpu-offload.yaml"'}
    ),
    "case-007": Around(
        release="0.21", env={"LMCACHE_EXTRA_CONFIG": "{use_odirect: True}"}, flags={}
    ),
    "case-009": Around(release="0.24"),
    "case-010": Around(release="0.27", flags={"--enable-cumem-allocator": True}, env=SEED),
    "case-012": Around(release="0.33"),
    "case-013": Around(release="0.33"),
    "case-014": Around(
        release="0.33",
        flags={
            "--kv-transfer-config.kv_connector": "LMCacheMPConnector",
            "--kv-transfer-config.kv_role": "kv_both",
            "--kv-transfer-config.kv_connector_extra_config.lmcache.mp.host": "tcp://lmcache-server",
        },
    ),
    "case-015": Around(release="0.33"),
    "case-017": Around(release="0.21"),
    "case-019": Around(release="0.25"),
    "case-020": Around(release="0.21"),
    "case-022": Around(release="0.21"),
    "case-025": Around(release="0.21"),
    "case-026": Around(release="0.28"),
    "case-027": Around(release="0.21"),
    "case-028": Around(release="0.21"),
    "case-030": Around(release="0.21", flags={"--connector": "nixl"}),
    "case-031": Around(
        release="0.21", flags={"--connector": "nixl", "--disaggregation-mode": "prefill"}
    ),
    "case-034": Around(release="0.24"),
    "case-035": Around(release="0.28"),
    "case-036": Around(release="0.21"),
    "case-038": Around(release="0.21"),
    "case-040": Around(release="0.21"),
    "case-041": Around(release="0.21", flags=tp(2), env={}),
    "case-043": Around(release="0.26", flags=tp(8), model="Nemotron-3-Ultra-550B FP8 (hybrid)"),
    "case-044": Around(
        release="0.25", flags={}, env={"PYTHONHASHSEED": "42"}, model="DeepSeek-V4 fp4"
    ),
    "case-046": Around(release="0.33", env={"PYTHONHASHSEED": "42"}, flags={}),
    "case-047": Around(
        release="0.25",
        flags={"--kv-offloading-size": "$TOTAL_CPU_DRAM_GB", "--kv-offloading-backend": "native"},
        env={"VLLM_USE_SIMPLE_KV_OFFLOAD": "1"},
        model="Kimi-K3",
    ),
    "case-048": Around(
        release="0.33", flags={"--kv-offloading-size": "16", "--kv-offloading-backend": "native"}
    ),
    "case-049": Around(release="0.28", flags={"--data-parallel-size": "4"}, env={}),
    "case-050": Around(release="0.33", flags={"--kv-offloading-size": "64"}),
    "case-051": Around(release="0.26", flags={**tp(4), "--kv-offloading-size": "200"}, env={}),
    "case-053": Around(release="0.21", flags=tp(4)),
    "case-054": Around(
        release="0.21", flags=tp(2), env={"LMCACHE_MAX_LOCAL_CPU_SIZE": "50", **SEED}
    ),
    "case-055": Around(release="0.21", flags=tp(4)),
    "case-057": Around(
        release="0.21",
        flags={},
        env={"LM_CACHE_CHUNK_SIZE": "256", "LM_CACHE_MAX_LOCAL_CACHE_SIZE": "500"},
    ),
    "case-059": Around(release="0.27", flags={**tp(2), "--nnodes": "2"}, env={}),
    "case-061": Around(
        release="0.25",
        flags={**tp(16), "--block-size": "256", "--speculative-config": '{"method":"dspark"}'},
        model="DeepSeek-V4-Pro",
    ),
    "case-062": Around(
        release="0.25", flags={**tp(4), "--block-size": "256"}, model="DeepSeek-V4-Flash"
    ),
    "case-064": Around(release="0.27", flags=tp(2), model="GLM-5.3-Flash"),
    "case-067": Around(release="0.27", flags=tp(8), env={}, model="Kimi-K3 (mamba hybrid)"),
    "case-068": Around(release="0.22", model="Gemma (hybrid)"),
    "case-070": Around(
        release="0.26",
        flags={"--pipeline-parallel-size": "4", "--enable-prefix-caching": True},
        model="GLM-5.2-NVFP4",
    ),
    "case-072": Around(
        release="0.29",
        flags={
            **tp(8),
            "--kv-offloading-size": "500",
            "--kv-offloading-backend": "native",
            "--enable-cumem-allocator": True,
        },
        model="DeepSeek-V4.1-Flash",
    ),
    "case-074": Around(
        release="0.27",
        flags={"--speculative-config": '{"method":"mtp"}', "--kv-offloading-size": "64"},
        model="hybrid GDN model",
    ),
    "case-076": Around(
        release="0.21",
        flags={**tp(2), "--enable-prefix-caching": True, "--block-size": "256"},
        model="DeepSeek-V4-Flash",
    ),
    "case-078": Around(release="0.21", flags={}, model="hybrid (sliding window)"),
    "case-080": Around(release="0.23", flags={}),
    "case-082": Around(release="0.21"),
    "case-083": Around(release="0.28", flags={}, model="hybrid"),
    "case-084": Around(release="0.33"),
    "case-085": Around(
        release="0.28",
        flags={"--kv-offloading-size": "12"},
        env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    "case-087": Around(release="0.21", flags=tp(2), env={}),
    "case-089": Around(release="0.25", flags={}, env={}),
    "case-091": Around(release="0.25", flags={"--revision": "NEW"}),
    "case-093": Around(release="0.27", flags=tp(2)),
    "case-095": Around(release="0.27", flags={**tp(2), "--nnodes": "2"}),
    "case-097": Around(
        release="0.21", flags=tp(16), other=OTHER_097, here={"flags": tp(16), "kv_heads": 8}
    ),
    "case-099": Around(
        release="0.21",
        flags=tp(1),
        other=OTHER_099,
        here={"flags": tp(1), "traits": frozenset({"hybrid", "mamba"})},
    ),
    "case-110": Around(
        release="0.22", flags={}, other={"config": NIXL, "host": "b"}, here={"host": "a"}
    ),
    "case-101": Around(release="0.21", flags={"--pipeline-parallel-size": "2"}),
    "case-102": Around(release="0.24", model="MiniMax-M3"),
    "case-104": Around(release="0.27", flags={}, env={}, model="hybrid (mamba)"),
    "case-107": Around(release="0.21", flags={}, env={}, other=OTHER_107, here={"host": "a"}),
    "case-109": Around(
        release="0.21",
        flags={"--prefix-caching-hash-algo": "builtin", "--block-size": "16"},
        env={"VLLM_NIXL_SIDE_CHANNEL_PORT": "5557", "PYTHONHASHSEED": "42"},
    ),
    "case-111": Around(release="0.21", flags=tp(2), env={}),
    "case-112": Around(release="0.21", flags=tp(2), env={"MOONCAKE_CONFIG_PATH": "m.json"}),
    "case-114": Around(release="0.21", flags={}, env={"MOONCAKE_CONFIG_PATH": "/mooncake.json"}),
    "case-115": Around(release="0.33", flags={}, env={}),
    "case-116": Around(release="0.33", flags={}, env={}),
    "case-117": Around(release="0.33", env=SEED, flags={}),
    "case-118": Around(release="0.33", flags={}),
    "case-123": Around(release="0.33"),
    "case-126": Around(release="0.33"),
}
