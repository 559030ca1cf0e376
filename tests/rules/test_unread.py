"""Keys that nothing reads where they stand."""

from __future__ import annotations

import pytest

from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import dotted
from kvengine.rules.check import check
from kvengine.rules.releases import release

OFFLOAD = {"cpu_bytes_to_use": 1 << 30}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
EXTRA = "kv_connector_extra_config"


def config(name="OffloadingConnector", /, root=None, **extra):
    base = {"kv_connector": name, "kv_role": "kv_both", **(root or {})}
    return {**base, EXTRA: {**OFFLOAD, **extra} if name == "OffloadingConnector" else extra}


def findings(data, wanted="0.28"):
    found = check(KVTransferConfig, data, mode="release", release=release(wanted))
    return [(p.severity, p.code, dotted(p.path), p.message, p.hint) for p in found]


TIER = {"spec_name": "TieringOffloadingSpec"}
CHILD = config()

CASES = [
    (
        config(cpu_bytes=1),
        "error",
        "unknown",
        f"{EXTRA}.cpu_bytes",
        "is no option",
        "did you mean 'cpu_bytes_to_use'?",
    ),
    (
        config(qqq=1),
        "error",
        "unknown",
        f"{EXTRA}.qqq",
        "is no option",
        "keys of your own begin with x-",
    ),
    (
        config(lazy_offlod=True),
        "error",
        "unknown",
        f"{EXTRA}.lazy_offlod",
        "is no option",
        "'lazy_offload' is a key of SimpleCPUOffloadConnector",
    ),
    (
        config(lazy_offload=True),
        "warning",
        "unread",
        f"{EXTRA}.lazy_offload",
        "is a key of SimpleCPUOffloadConnector, not read by OffloadingConnector",
        "",
    ),
    (
        config(secondary_tiers=[]),
        "warning",
        "ignored",
        f"{EXTRA}.secondary_tiers",
        'has no effect unless spec_name is "TieringOffloadingSpec" or "KVEngineOffloadingSpec"',
        "CPUOffloadingSpec does not read it",
    ),
    (
        config(kv_role="kv_both"),
        "error",
        "misplaced",
        f"{EXTRA}.kv_role",
        "belongs to the top level, nothing reads it here",
        "",
    ),
    (
        config(root={"block_size": 16}),
        "error",
        "misplaced",
        "block_size",
        f"belongs to {EXTRA}, nothing reads it here",
        "",
    ),
    (
        config(root_dir="/kv"),
        "error",
        "misplaced",
        f"{EXTRA}.root_dir",
        "belongs to a tier fs, nothing reads it here",
        "",
    ),
    (
        config(**TIER, secondary_tiers=[{"type": "fs", "root_dir": "/kv", "port": 1}]),
        "error",
        "misplaced",
        f"{EXTRA}.secondary_tiers[0].port",
        "belongs to a tier p2p; fs refuses it",
        "",
    ),
    (
        config(**TIER, secondary_tiers=[{"type": "p2p", "root_dir": "/kv"}]),
        "warning",
        "unread",
        f"{EXTRA}.secondary_tiers[0].root_dir",
        "is a key of fs, not read by p2p",
        "",
    ),
    (
        config(**TIER, secondary_tiers=[{"type": "fs", "root_dir": "/kv", "backpressure": {}}]),
        "error",
        "unread",
        f"{EXTRA}.secondary_tiers[0].backpressure",
        "is refused by vLLM 0.28 (accepted since 0.31)",
        "",
    ),
    (
        config("MultiConnector", connectors=[NIXL, CHILD], cpu_bytes_to_use=1),
        "error",
        "misplaced",
        f"{EXTRA}.cpu_bytes_to_use",
        f"belongs to connectors[1].{EXTRA}, nothing reads it here",
        "children inherit nothing",
    ),
    (
        config("MultiConnector", connectors=[NIXL], cpu_bytes_to_use=1),
        "warning",
        "unread",
        f"{EXTRA}.cpu_bytes_to_use",
        "is a key of OffloadingConnector and SimpleCPUOffloadConnector, not read by MultiConnector",
        "",
    ),
    (
        config("MooncakeStoreConnector", mooncake_config_path="/m.json"),
        "error",
        "misplaced",
        f"{EXTRA}.mooncake_config_path",
        "belongs to the environment, as MOONCAKE_CONFIG_PATH, nothing reads it here",
        "no release reads the path of the file here",
    ),
    (
        config(root={"$schema": "x"}),
        "error",
        "unknown",
        "$schema",
        "is no option",
        "",
    ),
]


@pytest.mark.parametrize(("data", "severity", "code", "path", "message", "hint"), CASES)
def test_each_key_is_told_whose_it_is(data, severity, code, path, message, hint):
    """One finding, at the key, that says where it belongs or what it was meant to be."""
    assert findings(data) == [(severity, code, path, message, hint)]


def test_own_keys_and_those_of_an_open_table_pass():
    """x- keys, keys that begin with lmcache., and everything under a module of one's own."""
    assert findings(config(**{"x-team": 1})) == []
    assert findings(config("LMCacheConnectorV1", **{"lmcache.chunk_size": 256})) == []
    own = {"kv_connector_module_path": "my.module"}
    assert [f[:2] for f in findings(config("Mine", root=own, anything=1))] == [
        ("info", "unchecked")
    ]
