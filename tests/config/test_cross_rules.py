"""Every cross rule of the facts is a finding: in its releases, and in no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import field, frozen

from kvengine.config.around import check_source
from kvengine.config.connectors.mooncake_store import MooncakeFile
from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import pointer
from kvengine.rules.check import check
from kvengine.rules.releases import KNOWN, release

FACTS = json.loads((Path(__file__).parent.parent / "data/facts/vllm.json").read_text())
EXTRA = "/kv_connector_extra_config"


@frozen(kw_only=True)
class Sample:
    """A config that breaks a rule, and what is said where."""

    code: str
    path: str
    config: dict = field(factory=dict)
    severity: str = "error"
    flags: dict | None = None
    env: dict | None = None
    traits: str | None = None
    since: str = "0.21"
    until: str = "0.34"
    file: dict | None = None


def offloading(**extra):
    extra = {"cpu_bytes_to_use": 8 << 30, **extra}
    return connector("OffloadingConnector", **extra)


def tiering(*tiers, **extra):
    return offloading(spec_name="TieringOffloadingSpec", secondary_tiers=[*tiers], **extra)


def connector(name, role="kv_both", **extra):
    return {"kv_connector": name, "kv_role": role, "kv_connector_extra_config": extra}


def multi(*children):
    return connector("MultiConnector", connectors=[*children])


FS = {"type": "fs", "root_dir": "/kv"}
P2P = {"type": "p2p", "host": "10.0.0.1"}
KVCR = {"type": "kvcr", "router_capabilities": ["a"], "control_ports": [7000]}
NIXL = connector("NixlConnector")
EMA = {"backpressure_cls": "EMABackpressureDetector"}
STEP5 = connector("MooncakeConnector")
MOONCAKE_MODE = {"mode": "standalone-store", "global_segment_size": "4gb"}

RULES = {
    "block_size_vs_blocks_per_chunk": Sample(
        config=offloading(block_size=16, blocks_per_chunk=2),
        code="exclusive",
        path=f"{EXTRA}/blocks_per_chunk",
        since="0.26",
    ),
    "block_size_needs_uniform_groups": Sample(
        config=offloading(block_size=256),
        traits="mixed-blocks",
        code="geometry",
        path=f"{EXTRA}/block_size",
    ),
    "block_size_multiple": Sample(
        config=offloading(block_size=100),
        flags={"--block-size": "16"},
        code="geometry",
        path=f"{EXTRA}/block_size",
    ),
    "store_threshold_tiering": Sample(
        config=tiering(FS, store_threshold=2),
        code="conflict",
        path=f"{EXTRA}/store_threshold",
        since="0.22",
    ),
    "secondary_tiers_spec": Sample(
        config=offloading(secondary_tiers=[FS]),
        code="ignored",
        severity="warning",
        path=f"{EXTRA}/secondary_tiers",
    ),
    "spec_module": Sample(
        config=offloading(spec_name="MySpec"), code="choice", path=f"{EXTRA}/spec_name"
    ),
    "policy_module": Sample(
        config=offloading(eviction_policy="mine"), code="choice", path=f"{EXTRA}/eviction_policy"
    ),
    "tier_module": Sample(
        config=tiering({"type": "mine"}),
        code="choice",
        path=f"{EXTRA}/secondary_tiers/0/type",
        since="0.22",
    ),
    "bp_cls": Sample(
        config=tiering({**FS, "backpressure": {}}),
        code="missing",
        path=f"{EXTRA}/secondary_tiers/0/backpressure/backpressure_cls",
        since="0.31",
    ),
    "bp_p2p": Sample(
        config=tiering(P2P, backpressure=EMA),
        code="conflict",
        path=f"{EXTRA}/backpressure",
        since="0.31",
    ),
    "bp_water": Sample(
        config=tiering({**FS, "backpressure": {**EMA, "low_water_s": 2, "high_water_s": 1}}),
        code="range",
        path=f"{EXTRA}/secondary_tiers/0/backpressure/low_water_s",
        since="0.31",
    ),
    "kvcr_031": Sample(
        config=tiering(KVCR),
        code="known-issue",
        path=f"{EXTRA}/secondary_tiers/0/type",
        since="0.31",
        until="0.32",
    ),
    "kvcr_pair": Sample(
        config=tiering({**KVCR, "compatibility_digest": "a"}),
        code="missing",
        path=f"{EXTRA}/secondary_tiers/0/kvcr_service_socket_path",
        since="0.22",
    ),
    "kvcr_events": Sample(
        config=tiering({**KVCR, "secondary_g2_slots": 8}),
        flags={"--kv-events-config": '{"enable_kv_cache_events": true}'},
        code="requires",
        path=f"{EXTRA}/self_describing_kv_events",
        since="0.30",
    ),
    "kvcr_g2": Sample(
        config=tiering(
            {
                **KVCR,
                "secondary_g2_slots": 8,
                "kvcr_service_socket_path": "/s",
                "compatibility_digest": "a",
            }
        ),
        code="ignored",
        severity="warning",
        path=f"{EXTRA}/secondary_tiers/0/secondary_g2_slots",
        since="0.22",
    ),
    "p2p_hashseed": Sample(
        config=tiering(P2P),
        env={},
        code="missing",
        path="env:PYTHONHASHSEED",
        since="0.27",
        until="0.29",
    ),
    "canonical_spec": Sample(
        config=offloading(canonical_layout=True),
        code="ignored",
        severity="warning",
        path=f"{EXTRA}/canonical_layout",
        since="0.28",
    ),
    "canonical_xlayer": Sample(
        config=tiering(FS, canonical_layout=True, enable_cross_layers_blocks=True),
        code="conflict",
        severity="warning",
        path=f"{EXTRA}/canonical_layout",
        since="0.28",
        until="0.29",
    ),
    "simple_per_rank": Sample(
        config=connector(
            "SimpleCPUOffloadConnector", cpu_bytes_to_use=1 << 30, cpu_bytes_to_use_per_rank=1 << 30
        ),
        code="overridden",
        severity="warning",
        path=f"{EXTRA}/cpu_bytes_to_use",
    ),
    "simple_disk": Sample(
        config=connector("SimpleCPUOffloadConnector", kv_offload_backend="disk"),
        code="missing",
        path=f"{EXTRA}/disk_path",
        since="0.28",
    ),
    "simple_prefix": Sample(
        config=connector("SimpleCPUOffloadConnector"),
        flags={"--no-enable-prefix-caching": True},
        code="requires",
        severity="warning",
        path="flag:--enable-prefix-caching",
    ),
    "simple_num_blocks": Sample(
        config=connector("SimpleCPUOffloadConnector", num_cpu_blocks=1 << 20),
        code="capacity",
        severity="info",
        path=f"{EXTRA}/num_cpu_blocks",
        since="0.33",
    ),
    "sync_load_worker": Sample(
        config=offloading(
            sync_load_budget_bytes=1, spec_name="MySpec", spec_module_path="my.module"
        ),
        code="requires",
        severity="warning",
        path=f"{EXTRA}/sync_load_budget_bytes",
        since="0.33",
    ),
    "tier_poll": Sample(
        config=tiering(FS, tier_poll_interval_s=1),
        code="ignored",
        severity="info",
        path=f"{EXTRA}/tier_poll_interval_s",
        since="0.33",
    ),
    "sleep_mode": Sample(
        config=connector("MoRIIOConnector", http_port=1),
        flags={"--enable-sleep-mode": True},
        code="conflict",
        path="flag:--enable-sleep-mode",
        since="0.33",
    ),
    "umbp_module": Sample(
        config=connector("UMBPStoreConnector"), code="connector", path="/kv_connector"
    ),
    "umbp_async": Sample(
        config={
            **connector("UMBPStoreConnector", load_async=False),
            "kv_connector_module_path": "vllm.distributed.kv_transfer.kv_connector.v1.umbp",
        },
        traits="hybrid",
        code="overridden",
        severity="warning",
        path=f"{EXTRA}/load_async",
        since="0.33",
    ),
    "step5_connectors": Sample(
        config=STEP5, traits="step5", code="conflict", path="/kv_connector", since="0.33"
    ),
    "moriio_write_window": Sample(
        config=connector("MoRIIOConnector", http_port=1),
        flags={},
        traits="window",
        code="requires",
        path=f"{EXTRA}/read_mode",
        since="0.30",
    ),
    "nixl_threads": Sample(
        config=connector("NixlConnector", backends=["GDS"], num_threads=8),
        code="ignored",
        severity="warning",
        path=f"{EXTRA}/num_threads",
    ),
    "nixl_pcp": Sample(
        config=NIXL,
        flags={"--prefill-context-parallel-size": "2"},
        code="conflict",
        path="/kv_role",
        since="0.30",
    ),
    "nixl_xlayer": Sample(
        config=connector("NixlConnector", enable_cross_layers_blocks=True),
        env={"VLLM_KV_CACHE_LAYOUT": "NHD"},
        code="ignored",
        severity="warning",
        path=f"{EXTRA}/enable_cross_layers_blocks",
        until="0.29",
    ),
    "core_xlayer_groups": Sample(
        config=offloading(enable_cross_layers_blocks=True),
        traits="",
        code="ignored",
        severity="info",
        path=f"{EXTRA}/enable_cross_layers_blocks",
        since="0.24",
        until="0.29",
    ),
    "mooncake_store_tp_xlayer": Sample(
        config=connector(
            "MooncakeStoreConnector", enable_cross_layers_blocks=True, store_tp_size=8
        ),
        code="conflict",
        severity="warning",
        path=f"{EXTRA}/enable_cross_layers_blocks",
        since="0.30",
    ),
    "mooncake_lcm": Sample(
        config=connector(
            "MooncakeStoreConnector",
            enable_store_tp_lcm=True,
            prefill_tp_sizes=[2],
            store_tp_size=8,
        ),
        code="overridden",
        severity="warning",
        path=f"{EXTRA}/store_tp_size",
        since="0.30",
    ),
    "mooncake_pool": Sample(
        config=connector("MooncakeStoreConnector", custom_mem_pool="nvlink"),
        flags={"--enable-sleep-mode": True},
        code="conflict",
        path=f"{EXTRA}/custom_mem_pool",
        since="0.31",
    ),
    "mooncake_capacity": Sample(
        config=connector("MooncakeStoreConnector", role="kv_consumer", enable_lookup=False),
        code="known-issue",
        severity="info",
        path=f"{EXTRA}/enable_lookup",
        since="0.27",
    ),
    "mooncake_mode": Sample(
        file=MOONCAKE_MODE, code="range", path="/global_segment_size", since="0.22"
    ),
    "mooncake_env": Sample(
        config=connector("MooncakeStoreConnector"),
        env={},
        code="missing",
        path="env:MOONCAKE_CONFIG_PATH",
    ),
    "p2pnccl_http": Sample(
        config=connector("P2pNcclConnector", proxy_ip="10.0.0.1", proxy_port="1"),
        code="missing",
        path=f"{EXTRA}/http_port",
        until="0.24",
    ),
    "hisparse_one": Sample(
        config=multi(
            connector("HiSparseConnector", host_pool_gib=1),
            connector("HiSparseConnector", host_pool_gib=1),
        ),
        code="conflict",
        path=f"{EXTRA}/connectors/1/kv_connector",
        since="0.30",
    ),
    "hisparse_engine": Sample(
        config=connector("HiSparseConnector", host_pool_gib=1),
        flags={"--pipeline-parallel-size": "2"},
        code="conflict",
        path="flag:--pipeline-parallel-size",
    ),
    "multi_layout": Sample(
        config=multi(connector("ExampleHiddenStatesConnector"), offloading()),
        code="layout",
        path=f"{EXTRA}/connectors/1/kv_connector",
        since="0.22",
    ),
    "multi_engine_id": Sample(
        config=multi({**NIXL, "engine_id": "a"}),
        code="conflict",
        path=f"{EXTRA}/connectors/0/engine_id",
    ),
    "multi_hma": Sample(
        config=multi(NIXL, connector("LMCacheConnectorV1")),
        flags={"--no-disable-hybrid-kv-cache-manager": True},
        code="conflict",
        path=f"{EXTRA}/connectors/1/kv_connector",
    ),
    "role_required": Sample(
        config={"kv_connector": "NixlConnector"}, code="missing", path="/kv_role"
    ),
    "expandable": Sample(
        config=NIXL,
        flags={},
        env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        code="conflict",
        path="env:PYTORCH_CUDA_ALLOC_CONF",
    ),
    "hma_off_021": Sample(
        config=NIXL,
        flags={},
        traits="hybrid",
        code="known-issue",
        severity="warning",
        path="/kv_connector",
        until="0.22",
    ),
    "hma_explicit": Sample(
        config=connector("FlexKVConnectorV1"),
        flags={"--no-disable-hybrid-kv-cache-manager": True},
        code="conflict",
        path="/kv_connector",
    ),
    "example_hs_chunked": Sample(
        config=connector("ExampleHiddenStatesConnector"),
        flags={},
        code="conflict",
        path="flag:--enable-chunked-prefill",
        since="0.22",
        until="0.24",
    ),
    "lmcache_layerwise": Sample(
        config=connector("LMCacheConnectorV1", use_layerwise=True),
        code="overridden",
        severity="info",
        path=f"{EXTRA}/use_layerwise",
    ),
    "routed_experts": Sample(
        config=NIXL,
        flags={"--enable-return-routed-experts": True},
        code="conflict",
        path="flag:--enable-return-routed-experts",
        since="0.22",
    ),
    "replayssm": Sample(
        config=NIXL,
        flags={"--use-replayssm": True},
        code="conflict",
        path="flag:--use-replayssm",
        since="0.27",
    ),
    "nixl_dcp": Sample(
        config=NIXL,
        flags={"--decode-context-parallel-size": "2"},
        code="conflict",
        path="flag:--decode-context-parallel-size",
        since="0.29",
    ),
    "kv_offloading_overwrites": Sample(
        config=NIXL,
        flags={"--kv-offloading-size": "16"},
        code="overridden",
        path="/kv_connector",
    ),
    "layout_env_vs_connector": Sample(
        config=NIXL,
        env={"VLLM_KV_CACHE_LAYOUT": "NHD"},
        code="overridden",
        severity="warning",
        path="env:VLLM_KV_CACHE_LAYOUT",
    ),
    "tiering_self_describing": Sample(
        config=tiering(FS, self_describing_kv_events=True),
        code="conflict",
        path=f"{EXTRA}/self_describing_kv_events",
        since="0.24",
        until="0.27",
    ),
    "tiering_one_group": Sample(
        config=tiering(),
        traits="hybrid",
        code="known-issue",
        path=f"{EXTRA}/spec_name",
        since="0.22",
        until="0.23",
    ),
    "nixl_push_dcp": Sample(
        config=connector("NixlPushConnector"),
        flags={"--decode-context-parallel-size": "2"},
        code="conflict",
        path="flag:--decode-context-parallel-size",
        since="0.29",
    ),
    "cli_dotted_vs_json": Sample(
        config={"kv_role": "kv_both"},
        flags={"--kv-transfer-config": "{}", "--kv-transfer-config.kv_role": "kv_both"},
        code="overridden",
        path="flag:--kv-transfer-config",
    ),
}


def findings(sample, wanted):
    if sample.file is not None:
        return check(MooncakeFile, sample.file, mode="release", release=wanted)
    traits = None if sample.traits is None else frozenset(sample.traits.split())
    return [
        *check(KVTransferConfig, sample.config, mode="release", release=wanted),
        *check_source(
            sample.config, release=wanted, flags=sample.flags, env=sample.env, traits=traits
        ),
    ]


def test_every_cross_rule_has_a_sample():
    """None is left out."""
    assert {*RULES} == {entry["id"] for entry in FACTS["cross_rules"]}


@pytest.mark.parametrize("name", RULES)
def test_a_cross_rule_is_found_in_its_releases_only(name):
    """The code, the place and the severity, release by release."""
    sample = RULES[name]
    wanted = {
        str(known) for known in KNOWN if release(sample.since) <= known < release(sample.until)
    }

    found = {
        str(known)
        for known in KNOWN
        for problem in findings(sample, known)
        if (problem.code, pointer(problem.path), problem.severity)
        == (sample.code, sample.path, sample.severity)
    }

    assert found == wanted
