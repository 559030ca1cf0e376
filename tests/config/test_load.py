"""From a file, a mapping or a document to a Config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvengine
from kvengine import ConfigError, DocumentError
from kvengine.config.connectors.offloading import CPUOffloadingSpec, OtherSpec
from kvengine.config.load import examine
from kvengine.document import parse

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BARE = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": "1000", "blocks_per_chunk": 4.0},
}


def test_an_engine_document_becomes_values_with_its_model_read_in():
    """Sizes are bytes, the model is its config.json, the connector has its own class."""
    config = kvengine.load(EXAMPLES / "gpt-oss-20b.toml")

    assert config.cache.memory == 40 << 30
    assert config.model.config["architectures"] == ["GptOssForCausalLM"]
    assert config.kv_transfer.kv_connector_extra_config == CPUOffloadingSpec(
        cpu_bytes_to_use=64 << 30, blocks_per_chunk=8, enable_cross_layers_blocks=True
    )


def test_a_bare_config_is_taken_as_vllm_reads_it():
    """Texts of digits are numbers by then."""
    config = kvengine.load(BARE)

    assert config.kv_transfer.kv_connector_extra_config == CPUOffloadingSpec(
        cpu_bytes_to_use=1000, blocks_per_chunk=4
    )


def test_a_module_brings_a_spec_whose_name_vllm_takes_later():
    """Up to 0.21 TieringOffloadingSpec is no name of vLLM's: the module is read, with its keys."""
    extra = {"spec_name": "TieringOffloadingSpec", "spec_module_path": "my.spec", "fan_out": 4}
    bare = {**BARE, "kv_connector_extra_config": extra}

    found = kvengine.load(bare, vllm="0.21").kv_transfer.kv_connector_extra_config

    assert found == OtherSpec(
        spec_name="TieringOffloadingSpec", spec_module_path="my.spec", values={"fan_out": 4}
    )
    with pytest.raises(ConfigError, match=r"fan_out: is no option"):
        kvengine.load(bare, vllm="0.22")


def test_a_key_that_nothing_reads_is_left_out():
    """A warning: the config is one all the same."""
    extra = {**BARE["kv_connector_extra_config"], "lazy_offload": True}

    assert kvengine.load({**BARE, "kv_connector_extra_config": extra}) == kvengine.load(BARE)


def test_a_module_counts_in_releases_that_look_there():
    """Before 0.28 module_path of a tier is not read: p2p is no tier of 0.24."""
    extra = {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 1000,
        "secondary_tiers": [{"type": "p2p", "module_path": "mine"}],
    }
    with pytest.raises(ConfigError, match=r"type: is not in vLLM 0\.24 yet"):
        kvengine.load({**BARE, "kv_connector_extra_config": extra}, vllm="0.24")


def test_the_release_asked_for_goes_before_the_one_in_the_document():
    """And the newest known one stands in where neither says."""
    assert kvengine.load({"schema": 2, "vllm": "0.28.1"}).vllm == "0.28"
    assert kvengine.load({"schema": 2, "vllm": "0.28"}, vllm="0.30").vllm == "0.30"
    assert kvengine.load({"schema": 2}).vllm == "0.33"


def test_keys_of_the_users_own_do_not_reach_the_config():
    """They are for people."""
    assert kvengine.load({"schema": 2, "x-team": "kv", "$schema": "here"}) == kvengine.load(
        {"schema": 2}
    )


def test_every_error_is_reported_together():
    """One run tells all."""
    with pytest.raises(ConfigError) as caught:
        kvengine.load({"schema": 2, "cache": {"memory": True, "tensor": 2}, "vllm": 28})

    assert [problem.code for problem in caught.value.problems] == ["type", "misplaced", "type"]


def test_a_missing_model_file_is_an_error_at_its_line(tmp_path):
    """With the name that was looked for."""
    file = tmp_path / "kv.toml"
    file.write_text('schema = 2\n[model]\nconfig = "nowhere.json"\n')

    with pytest.raises(ConfigError) as caught:
        kvengine.load(file)

    (problem,) = caught.value.problems
    assert str(problem.place) == f"{file}:3:1"
    assert f"names {tmp_path / 'nowhere.json'}, which cannot be used" in problem.message


def test_a_model_file_stands_beside_the_document(tmp_path):
    """Its path is relative to the document, not to the working directory."""
    (tmp_path / "model.json").write_text('{"model_type": "llama"}')
    file = tmp_path / "kv.toml"
    file.write_text('schema = 2\n[model]\nconfig = "model.json"\n')

    assert kvengine.load(file).model.config == {"model_type": "llama"}


def test_what_cannot_be_read_is_a_document_error(tmp_path):
    """It is a ConfigError too, with its one problem."""
    with pytest.raises(DocumentError) as caught:
        kvengine.load(tmp_path)
    assert len(caught.value.problems) == 1

    with pytest.raises(DocumentError, match="is no document"):
        kvengine.load({"schema": {1, 2}})


def test_a_document_with_wrong_chunk_sizes_still_has_a_config_to_plan():
    """The cache can be planned; what is refused is offloading."""
    extra = {"cpu_bytes_to_use": 1000, "blocks_per_chunk": 4, "block_size": 64}
    text = json.dumps({**BARE, "kv_connector_extra_config": extra}).encode()

    checked = examine(parse(text, name="kv.json"))

    assert [problem.code for problem in checked.errors] == ["exclusive"]
    assert checked.config.kv_transfer.kv_connector_extra_config.block_size == 64
