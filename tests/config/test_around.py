"""Flags, environment, model and peer around a transfer config."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvengine.config.advisories import advisories, meets
from kvengine.config.around import check_source
from kvengine.config.connectors import CONNECTORS, OUTSIDE
from kvengine.config.flags import effective, flag, is_on
from kvengine.config.load import examine
from kvengine.config.pairs import Engine, check_pair
from kvengine.config.traits import traits_of_config, traits_of_name
from kvengine.document import parse
from kvengine.errors import pointer
from kvengine.rules.codes import CODES
from kvengine.rules.releases import KNOWN, release

NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
TRAITS = {
    "hybrid", "window", "mamba", "mla", "sparse", "mixed-blocks", "scratch-group", "nhd-only",
    "step5",
}  # fmt: skip


def said(config, wanted="0.28", **around):
    found = check_source(config, release=release(wanted), **around)
    return [(p.severity, p.code, pointer(p.path), p.message) for p in found]


def test_a_config_alone_is_judged_without_its_surroundings():
    """Nothing is missing from an environment that nobody knows."""
    tier = {"type": "p2p", "host": "10.0.0.1"}
    extra = {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [tier]}
    config = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra}

    assert said(config) == []
    assert said(config, env={}) == [
        (
            "error",
            "missing",
            "env:PYTHONHASHSEED",
            "is required by the p2p tier of 0.27 and 0.28",
        )
    ]


@pytest.mark.parametrize(
    ("env", "wanted", "finding"),
    [
        (
            {"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "480"},
            "0.22",
            ("warning", "unread", "is not read by vLLM 0.22 (read before 0.22)"),
        ),
        (
            {"VLLM_KV_CACHE_LAYOUT": "BLHNC"},
            "0.28",
            ("error", "choice", 'is "BLHNC", a layout of 0.29 and later'),
        ),
        (
            {"VLLM_USE_SIMPLE_KV_OFFLOAD": "true"},
            "0.28",
            ("error", "type", 'is "true", which int() refuses'),
        ),
        (
            {"VLLM_NIXL_SIDE_CHANNEL_PORT": "70000"},
            "0.28",
            ("error", "range", "must be at most 65535, not 70000"),
        ),
        (
            {"LMCACHE_FORCE_SKIP_SAVE": "false"},
            "0.28",
            ("error", "coerced", 'is the text "false", which bool() reads as true'),
        ),
        (
            {"VLLM_USE_PACKED_HMA_KV_CACHE": "1"},
            "0.28",
            ("warning", "deprecated", "is read by no release of vLLM"),
        ),
    ],
)
def test_a_variable_is_judged_by_what_the_release_makes_of_it(env, wanted, finding):
    """Its releases, its choices, its type."""
    (name,) = env
    severity, code, message = finding

    assert said(None, wanted, env=env) == [(severity, code, f"env:{name}", message)]


@pytest.mark.parametrize("env", [{"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}, {"PATH": "/bin"}, {}])
def test_a_right_variable_is_not_mentioned(env):
    """Nor is one that has nothing to do with KV transfer."""
    assert said(None, env=env) == []


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        ({"--block-size": "16"}, "--block-size", "16"),
        ({"--block_size": "16"}, "--block-size", "16"),
        ({}, "--block-size", None),
    ],
)
def test_a_flag_is_found_in_either_spelling(flags, name, value):
    """Dashes or underscores."""
    assert flag(flags, name) == value


@pytest.mark.parametrize(
    ("flags", "on"),
    [
        ({"--enable-x": True}, True),
        ({"--enable-x": "false"}, False),
        ({"--no-enable-x": True}, False),
        ({}, None),
    ],
)
def test_a_switch_is_on_off_or_not_given(flags, on):
    """A negated flag is off."""
    assert is_on(flags, "--enable-x") is on


SIZE = {"--kv-offloading-size": "2"}
LMCACHE = {**SIZE, "--kv-offloading-backend": "lmcache"}


@pytest.mark.parametrize(
    ("flags", "env", "wanted", "name", "extra"),
    [
        (SIZE, {}, "0.28", "OffloadingConnector", {"x": 1, "cpu_bytes_to_use": 2 << 30}),
        (
            SIZE,
            {"VLLM_USE_SIMPLE_KV_OFFLOAD": "1"},
            "0.28",
            "SimpleCPUOffloadConnector",
            {"x": 1, "cpu_bytes_to_use": 2 << 30},
        ),
        (LMCACHE, {}, "0.22", "LMCacheConnectorV1", {"lmcache.local_cpu": True}),
        (LMCACHE, {}, "0.23", "LMCacheMPConnector", {"x": 1}),
        ({}, {}, "0.28", "NixlConnector", {"x": 1}),
    ],
)
def test_the_short_flags_become_a_transfer_config(flags, env, wanted, name, extra):
    """As the release makes it, over what was given."""
    given = {**NIXL, "kv_connector_extra_config": {"x": 1}}

    ends_up = effective(given, flags, env, release(wanted))

    assert ends_up["kv_connector"] == name
    assert ends_up["kv_connector_extra_config"] == extra
    assert effective(None, {}, {}, release(wanted)) is None


def pair(one, other, **around):
    found = check_pair(Engine(config=one), Engine(config=other, **around))
    return [(p.severity, p.code, pointer(p.path)) for p in found]


PRODUCER = {**NIXL, "kv_role": "kv_producer"}
CONSUMER = {**NIXL, "kv_role": "kv_consumer"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (PRODUCER, CONSUMER, []),
        (PRODUCER, PRODUCER, [("error", "conflict", "/kv_role")]),
        (
            PRODUCER,
            {**CONSUMER, "kv_connector": "MooncakeConnector"},
            [("error", "conflict", "/kv_connector")],
        ),
        (
            {**PRODUCER, "engine_id": "a"},
            {**CONSUMER, "engine_id": "a"},
            [("error", "conflict", "/engine_id")],
        ),
        (
            PRODUCER,
            {**CONSUMER, "kv_connector_extra_config": {"kv_lease_duration": 60}},
            [("warning", "conflict", "/kv_connector_extra_config/kv_lease_duration")],
        ),
        (
            {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [NIXL]}},
            {**CONSUMER, "kv_connector": "NixlPullConnector"},
            [],
        ),
    ],
)
def test_two_engines_agree_where_they_must(one, other, expected):
    """Roles, connectors, ids and keys that both sides read."""
    assert pair(one, other) == expected


def test_engines_of_one_machine_share_its_ports():
    """Two NIXL handshakes cannot listen on one port."""
    engines = [
        Engine(config=PRODUCER, host="a", env={"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}),
        Engine(config=CONSUMER, host="a"),
    ]

    assert [str(p) for p in check_pair(*engines)] == [
        "env:VLLM_NIXL_SIDE_CHANNEL_PORT: is 5600 for two engines of one machine [conflict]\n"
        "  hint: give each its own port"
    ]


def test_advisories_are_well_formed():
    """Ids are unique; codes, connectors, traits, places and links are real ones."""
    every = advisories()
    names = {*CONNECTORS, *OUTSIDE}

    assert len({one.id for one in every}) == len(every) > 80
    for one in every:
        assert one.code in CODES, one.id
        assert {*one.connectors, *one.children} <= names, one.id
        assert {trait.lstrip("!") for trait in one.traits} <= TRAITS, one.id
        assert re.fullmatch(r"(field|key|tier|flag|env):[\w-]*", one.at), one.id
        assert not one.link or one.link.startswith("https://"), one.id
        assert any(known in one.vllm for known in KNOWN) or one.until, one.id
        assert not one.says.endswith("."), one.id


@pytest.mark.parametrize(
    ("value", "wanted", "met"),
    [
        (1, "given", True),
        (None, "absent", True),
        ("2", ">1", True),
        ("x", ">1", False),
        (3, "<4", True),
        (True, "on", True),
        ("false", "not on", True),
        ("mtp", "~mtp|eagle", True),
        ("a", ["a", "b"], True),
        ([], [[]], True),
        (False, False, True),
        (None, False, False),
        ("a", "a", True),
    ],
)
def test_a_condition_of_an_advisory_is_met_or_not(value, wanted, met):
    """The small language of advisories.toml."""
    assert meets(value, wanted) is met


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", {"hybrid", "window", "mla", "sparse", "mixed-blocks"}),
        ("openai/gpt-oss-20b", {"hybrid", "window"}),
        ("meta-llama/Llama-3.1-8B-Instruct", set()),
        ("Qwen/Qwen3-Next-80B-A3B", {"hybrid", "mamba"}),
        ("my-finetune", None),
    ],
)
def test_a_model_is_known_by_its_name(name, traits):
    """Or it is not, and then nothing is said about it."""
    found = traits_of_name(name)

    assert (found if found is None else {*found}) == traits


def test_a_model_is_known_by_its_config():
    """Layer types, states, latents and indices."""
    config = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128}
    mamba = {"text_config": {"layer_types": ["linear_attention", "full_attention"]}}

    assert traits_of_config(config) == {"hybrid", "window"}
    assert traits_of_config(mamba) == {"hybrid", "mamba"}
    assert traits_of_config({"kv_lora_rank": 512, "index_topk": 2048}) == {"mla", "sparse"}
    assert traits_of_config({"model_type": "llama"}) == frozenset()
    assert traits_of_config({}) is None


def test_models_of_the_planner_have_traits():
    """Whoever has layers of several kinds is a hybrid."""
    folder = Path(__file__).parent.parent / "data/models"
    for file in sorted(folder.glob("*.json")):
        config = json.loads(file.read_text())["config"]
        traits = traits_of_config(config)
        if file.stem.startswith(("gpt-oss", "gemma-3-", "qwen3-next")):
            assert "hybrid" in (traits or ()), file.stem
        if file.stem.startswith(("llama-3", "mistral", "mixtral")):
            assert not traits, file.stem


def test_advice_never_forbids_a_config():
    """A Mamba hybrid of 0.27 without prefix caching cannot offload, and is planned all the same."""
    document = {
        "schema": 2,
        "vllm": "0.27",
        "model": {"config": {"model_type": "jamba"}},
        "kv_transfer": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 1 << 30},
        },
    }
    checked = examine(parse(json.dumps(document).encode(), name="kv.json", form="json"))

    assert [problem.code for problem in checked.errors] == ["requires"]
    assert checked.config is not None
    assert checked.config.vllm == "0.27"
