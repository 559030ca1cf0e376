"""Schema 1 -> schema 2."""

from __future__ import annotations

import pytest

from kvengine.config.engine import Config
from kvengine.config.load import examine
from kvengine.document import parse
from kvengine.rules.migrate import migrate

EXTRA = ("kv_transfer", "kv_connector_extra_config")


def old(variable=None, packed=None, **extra):
    """A document of schema 1 that asks for the packed layout in one way or the other."""
    keys = {"cpu_bytes_to_use": 1 << 30, **extra}
    if packed is not None:
        keys["enable_cross_layers_blocks"] = packed
    transfer = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": keys,
    }
    environment = {"environment": {"VLLM_USE_PACKED_HMA_KV_CACHE": variable}}
    return {"schema": 1, "kv_transfer": transfer, **(environment if variable is not None else {})}


def packed_after(document):
    data = migrate(Config, document).data
    assert data["schema"] == 2
    assert "environment" not in data
    return data["kv_transfer"]["kv_connector_extra_config"].get("enable_cross_layers_blocks")


@pytest.mark.parametrize("text", ["1", "true", "True", "TRUE"])
def test_a_variable_that_is_on_becomes_the_key(text):
    """In any case of its letters."""
    assert packed_after(old(text)) is True


@pytest.mark.parametrize("text", ["0", "false", "False", ""])
def test_a_variable_that_is_off_leaves_the_default(text):
    """Off is what an absent key means."""
    assert packed_after(old(text)) is None


@pytest.mark.parametrize(("text", "packed"), [("1", False), ("0", True), ("1", "False")])
def test_a_key_that_is_given_wins(text, packed):
    """The variable goes without a trace."""
    assert packed_after(old(text, packed)) is (packed is True)


def test_text_booleans_become_booleans():
    """Only where the option is a boolean."""
    data = migrate(Config, old(offload_prompt_only="False", spec_name="CPUOffloadingSpec")).data

    assert data["kv_transfer"]["kv_connector_extra_config"] == {
        "cpu_bytes_to_use": 1 << 30,
        "offload_prompt_only": False,
        "spec_name": "CPUOffloadingSpec",
    }


def test_a_variable_without_a_transfer_config_still_says_what_it_said():
    """The tables that hold the key are made."""
    document = {"schema": 1, "environment": {"VLLM_USE_PACKED_HMA_KV_CACHE": "1"}}

    assert migrate(Config, document).data == {
        "schema": 2,
        "kv_transfer": {"kv_connector_extra_config": {"enable_cross_layers_blocks": True}},
    }


def test_a_document_of_schema_2_comes_back_as_it_is():
    """There is nothing to do."""
    document = {"schema": 2, "environment": {"VLLM_USE_PACKED_HMA_KV_CACHE": "1"}}

    assert migrate(Config, document).data is document


TEXT = """schema = 1
[environment]
VLLM_USE_PACKED_HMA_KV_CACHE = "{variable}"
[kv_transfer]
kv_connector = "OffloadingConnector"
kv_role = "kv_both"
[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 1000
{extra}
"""


def problems(variable, extra=""):
    text = TEXT.format(variable=variable, extra=extra)
    return examine(parse(text.encode(), name="kv.toml"), vllm="0.28").problems


def test_the_variable_is_deprecated_at_its_own_line():
    """A warning that names the key."""
    (found,) = problems("1")

    assert (found.severity, str(found.place)) == ("warning", "kv.toml:3:1")
    assert found.message == (
        "is deprecated, use kv_connector_extra_config.enable_cross_layers_blocks instead"
    )


def test_a_contradiction_between_variable_and_key_is_a_warning():
    """It says which of them wins."""
    found = problems("1", "enable_cross_layers_blocks = false")

    assert [(problem.code, problem.severity) for problem in found] == [
        ("deprecated", "warning"),
        ("conflict", "warning"),
    ]
    assert found[1].message == (
        "says true, but kv_connector_extra_config.enable_cross_layers_blocks says false and wins"
    )


def test_a_variable_that_is_neither_on_nor_off_is_an_error():
    """The accepted words are named."""
    (found,) = [problem for problem in problems("yes") if problem.severity == "error"]

    assert found.message == 'is "yes", neither 1/true nor 0/false/empty'


def test_schema_1_has_no_blocks_per_chunk():
    """It came with schema 2."""
    (found,) = [
        problem for problem in problems("", "blocks_per_chunk = 2") if problem.severity == "error"
    ]

    assert (found.code, found.path[-1]) == ("unknown", "blocks_per_chunk")
    assert found.message == "needs a document of schema 2"
