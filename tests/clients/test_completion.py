"""What VS Code's JSON service offers and marks while somebody types."""

from __future__ import annotations

import json

import pytest

from kvengine.config.connectors import CONNECTOR, CONNECTORS
from kvengine.config.tiers import SecondaryTier
from kvengine.rules.options import variant_of
from kvengine.rules.shapes import fields_of
from tests.clients.documents import EXAMPLES, example

TIER = variant_of(SecondaryTier)


def asked(name, text, schema="kv-transfer", ask="completions"):
    """A question at the place of ``|`` in the text."""
    at = text.index("|")
    return {"name": name, "schema": schema, "text": text.replace("|", "", 1), "ask": ask, "at": at}


def typing(connector, **extra):
    """A config in whose extra config somebody opens the quotes of a key."""
    extra = {**extra, "|": 0}
    config = {"kv_connector": connector, "kv_role": "kv_both", "kv_connector_extra_config": extra}
    return json.dumps(config).replace('"|": 0', '"|"')


def declared(model, holder):
    """The keys of the class that ``holder`` chooses, without those it has."""
    inner = variant_of(model)
    if inner is not None:
        return declared(inner.choose(holder), holder)
    return {*fields_of(model)} - {*holder}


def labels(items):
    return {item["label"] for item in items}


def test_every_connector_is_offered_its_own_keys(ask):
    """Those of the class declared for it, alone and as a child of MultiConnector."""
    names = [name for name in CONNECTORS if CONNECTORS.valid(name, None)]
    alone = {name: typing(name) for name in names}
    child = {f"{name}-child": typing("MultiConnector", connectors=[0]) for name in names}
    for name, text in child.items():
        inner = typing(name.removesuffix("-child"))
        child[name] = text.replace("[0]", f"[{inner}]").replace(', "|"}', "}")
    answers = ask("vscode", [asked(name, text) for name, text in {**alone, **child}.items()])
    meant = {name: declared(CONNECTOR.choose({"kv_connector": name}), {}) for name in names}

    assert {name: labels(answers[name]) for name in names} == meant
    assert {name: labels(answers[f"{name}-child"]) for name in names} == meant


def test_every_secondary_tier_is_offered_its_own_keys(ask):
    """Under the spec that has tiers."""
    names = [name for name in TIER.classes if TIER.classes.valid(name, None)]
    tier = typing("OffloadingConnector", spec_name="TieringOffloadingSpec", secondary_tiers=[0])
    tier = tier.replace(', "|"', "")
    texts = {name: tier.replace("[0]", f'[{{"type": "{name}", "|"}}]') for name in names}
    answers = ask("vscode", [asked(name, text) for name, text in texts.items()])

    assert {name: labels(answers[name]) for name in names} == {
        name: declared(SecondaryTier, {"type": name}) for name in names
    }


@pytest.mark.parametrize(("release", "offered"), [("0.25", False), ("0.26", True)])
def test_a_release_is_offered_what_it_reads(ask, release, offered):
    """blocks_per_chunk came with 0.26."""
    question = asked("x", typing("OffloadingConnector"), f"vllm/kv-transfer-{release}")

    assert ("blocks_per_chunk" in labels(ask("vscode", [question])["x"])) is offered


def test_a_completion_shows_its_text_and_writes_its_default(ask):
    """Every key says what it is; a default stands in the snippet."""
    items = ask("vscode", [asked("x", typing("OffloadingConnector"))])["x"]
    spec = next(item for item in items if item["label"] == "spec_name")

    assert [item["label"] for item in items if not item["documentation"].endswith(".")] == []
    assert spec["documentation"] == (
        "The offloading spec: a registered name, or a class of spec_module_path."
    )
    assert spec["inserts"] == '"spec_name": "${1:CPUOffloadingSpec}"'


def test_hovering_shows_unit_default_and_release(ask):
    """The one text that JSON Schema has for all of it."""
    text = typing("OffloadingConnector").replace('"|"', '"blocks_|per_chunk": 4')
    (shown,) = ask("vscode", [asked("x", text, ask="hover")])["x"]

    assert shown.replace("\\", "") == (
        "Blocks of one group that are stored, looked up and moved as one. "
        "Unit: blocks. Default: 1. vLLM: since 0.26."
    )


def marks(ask, driver, text, schema):
    found = ask(driver, [{"name": "x", "schema": schema, "text": text}])["x"]
    return [(problem["line"], problem["message"]) for problem in found]


def test_an_exclusion_is_marked_on_the_second_key(ask):
    """With our text in VS Code, on the same line in YAML."""
    wrong = example(EXAMPLES / "invalid/both-chunk-sizes.toml")
    text = wrong.text()
    line = 1 + [*map(str.strip, text.splitlines())].index('"blocks_per_chunk": 8')

    assert marks(ask, "vscode", text, wrong.schema) == [
        (
            line,
            "cannot be combined with 'block_size': both set how much one chunk holds, block_size "
            "in tokens and blocks_per_chunk in blocks; only blocks_per_chunk fits groups of "
            "different block sizes",
        )
    ]
    assert marks(ask, "yaml", text, wrong.schema) == [
        (line, "Matches a schema that is not allowed.")
    ]


@pytest.mark.parametrize("driver", ["vscode", "yaml"])
def test_a_deprecation_is_marked_on_its_line(ask, driver):
    """It names what to write instead."""
    old = example(EXAMPLES / "valid/schema-1.toml")
    text = old.text()
    line = 1 + next(i for i, part in enumerate(text.splitlines()) if "VLLM_USE_PACKED" in part)

    assert marks(ask, driver, text, old.schema) == [
        (line, "use kv_connector_extra_config.enable_cross_layers_blocks instead")
    ]


@pytest.mark.parametrize("driver", ["vscode", "yaml"])
def test_a_key_given_twice_is_marked(ask, driver):
    """It is about the text, which no schema sees."""
    text = (EXAMPLES / "invalid/duplicate-key.json").read_text()
    message = {"vscode": "Duplicate object key", "yaml": "Map keys must be unique"}[driver]

    assert {said for _, said in marks(ask, driver, text, "kv-transfer")} == {message}
