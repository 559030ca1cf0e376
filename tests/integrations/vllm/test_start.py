"""What happens at start: the checker's findings, the plan, the note, the identity."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvengine import ConfigError
from kvengine.config.connectors.offloading import KVEngineOffloadingSpec
from kvengine.config.tiers.own import DiskOptions
from kvengine.integrations.vllm.findings import checked_config
from kvengine.integrations.vllm.identity import identity_of, warn_of_random_hashes
from kvengine.integrations.vllm.note import Note, read_note, take_note
from kvengine.integrations.vllm.planned import plan_of, stage_of
from kvengine.rules.releases import Release
from kvengine.rules.shapes import fields_of
from kvengine.runtime.policies import POLICIES

MODELS = Path(__file__).parents[2] / "data" / "models"
EXTRA = {
    "spec_name": "KVEngineOffloadingSpec",
    "spec_module_path": "kvengine.integrations.vllm",
    "cpu_bytes_to_use": 1 << 30,
    "blocks_per_chunk": 4,
}


def engine(model="llama-3.1-8b", **more):
    """The parts of vLLM's resolved configuration that the integration reads."""
    entry = json.loads((MODELS / f"{model}.json").read_text())
    described = {"architectures": entry["architectures"], **entry["config"]}
    return SimpleNamespace(
        model_config=SimpleNamespace(
            model=model,
            revision=None,
            hf_config=SimpleNamespace(to_dict=lambda: described),
            max_model_len=8192,
            dtype="torch.bfloat16",
            quantization=None,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=more.get("tp", 1),
            pipeline_parallel_size=more.get("pp", 1),
            decode_context_parallel_size=1,
        ),
        cache_config=SimpleNamespace(
            block_size=16, cache_dtype="auto", prefix_caching_hash_algo="sha256"
        ),
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config=EXTRA),
    )


def test_a_good_config_has_no_findings(caplog):
    """The example of the documentation, for every release that the integration fits."""
    caplog.set_level(logging.INFO)
    for minor in range(26, 34):
        options = checked_config(EXTRA, Release(0, minor))

        assert options.cpu_bytes_to_use == EXTRA["cpu_bytes_to_use"]
    assert caplog.messages == []


def test_options_are_values_of_their_declaration():
    """As vLLM reads them, with defaults; a class derived from the spec has the same options."""
    extra = {
        **EXTRA,
        "spec_name": "Derived",
        "cpu_bytes_to_use": "4096",
        "secondary_tiers": [{"type": "fs", "root_dir": "/kv", "locality": "REMOTE"}],
    }
    options = checked_config(extra, Release(0, 32))

    assert (options.cpu_bytes_to_use, options.eviction_policy) == (4096, "lru")
    assert options.store_threshold == 0
    assert options.secondary_tiers == (DiskOptions(root_dir="/kv", locality="REMOTE"),)


@pytest.mark.parametrize(
    "extra",
    [
        {"cpu_bytes_to_use": "${BYTES}"},
        {"secondary_tiers": [{"type": "fs", "root_dir": "${HOME}/kv"}]},
        {"secondary_tiers": [{"type": "fs", "root_dir": "/kv", "n_read_threads": "$N"}]},
    ],
)
def test_a_variable_that_nobody_filled_in_stops_the_start(extra):
    """A document may have one; by the time of the start its value stands there."""
    with pytest.raises(ConfigError, match="known only when the variable is"):
        checked_config({**EXTRA, **extra}, Release(0, 32))


def test_a_key_that_nothing_reads_stops_no_start(caplog):
    """It is another connector's, or a derived spec's own."""
    with caplog.at_level(logging.WARNING):
        checked_config({**EXTRA, "lazy_offload": True}, Release(0, 32))
    assert "not read by OffloadingConnector" in caplog.text

    derived = {**EXTRA, "spec_name": "Derived", "spec_module_path": "mine", "my_own": 3}
    assert checked_config(derived, Release(0, 32)).cpu_bytes_to_use == 1 << 30


def test_every_eviction_policy_that_is_declared_exists():
    """And no other: what the check takes, the host pool takes."""
    declared = fields_of(KVEngineOffloadingSpec)["eviction_policy"].shape.choices

    assert sorted(declared) == sorted(POLICIES)


def test_an_error_stops_the_start_with_our_text(caplog):
    """Every finding is logged; the exception has the errors."""
    wrong = {**EXTRA, "cpu_byte_to_use": 1, "secondary_tiers": [{"type": "fs"}]}
    del wrong["cpu_bytes_to_use"]
    with pytest.raises(ConfigError) as caught, caplog.at_level(logging.INFO):
        checked_config(wrong, Release(0, 32))

    text = str(caught.value)
    assert "kv_connector_extra_config.cpu_byte_to_use" in text
    assert "kv_connector_extra_config.secondary_tiers[0]" in text
    assert len(caplog.messages) >= len(caught.value.problems)
    assert all(message.startswith("kvengine check: ") for message in caplog.messages)


def test_the_model_that_vllm_serves_is_planned():
    """Rows are those of the model's own config: 32 layers, 8 heads of 128, keys and values."""
    plan = plan_of(engine(), "0.32.0")

    assert plan is not None
    assert [group.row_bytes for group in plan.groups] == [32 * 16 * 8 * 128 * 2 * 2]


def test_a_rank_is_held_to_the_plan_of_its_pipeline_stage(monkeypatch):
    """Ranks are numbered stage by stage; vLLM may be told how many layers each has."""
    monkeypatch.setenv("VLLM_PP_LAYER_PARTITION", "20,12")
    plan = plan_of(engine(tp=2, pp=2), "0.32.0")
    layer_bytes = 16 * 4 * 128 * 2 * 2
    rows = [stage_of(plan, rank, 4).groups[0].row_bytes for rank in range(4)]

    assert rows == [layers * layer_bytes for layers in (20, 20, 12, 12)]
    assert stage_of(None, 0, 4) is None
    whole = plan_of(engine(), "0.32.0")
    assert stage_of(whole, 1, 2) is whole


def test_a_model_that_cannot_be_planned_is_no_error(caplog):
    """vLLM's own sizes are used, and that is said once."""
    strange = engine()
    strange.model_config.hf_config.to_dict = lambda: {"architectures": ["NobodyKnows"]}
    with caplog.at_level(logging.INFO):
        assert plan_of(strange, "0.32.0") is None

    assert len(caplog.messages) == 1
    assert "vLLM's own sizes are used" in caplog.messages[0]
    assert plan_of(strange, "0.32.0", quiet=True) is None
    assert len(caplog.messages) == 1
    assert plan_of(None, "0.32.0") is None


def note(tmp_path=None, **more):
    facts = engine()
    if tmp_path is not None:
        facts.model_config.model = str(tmp_path)
    for name, value in more.items():
        setattr(facts.model_config, name, value)
    return take_note(facts, facts.model_config.model, "bfloat16", "0.32.0+cpu", ("full",))


def test_a_note_survives_the_region(tmp_path):
    """What rank 0 writes is what the scheduler reads."""
    written = note(tmp_path)

    assert read_note(written.text()) == written
    assert written.runner == "vllm 0.32 torch.bfloat16 none"


def test_other_weights_are_another_model(tmp_path):
    """A file of another size, another revision and another config each change the digest."""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"a")
    first = note(tmp_path).model
    assert note(tmp_path).model == first
    weights.write_bytes(b"ab")

    assert note(tmp_path).model != first
    assert len({note().model, note(revision="main").model, first}) == 3


def config(tp=2):
    return SimpleNamespace(
        groups=[SimpleNamespace(tokens_per_block=16, layer_names=("a", "b"))],
        cache=SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=4),
        parallel=SimpleNamespace(tp_size=tp, pp_size=1, pcp_size=1, dcp_size=1),
        kv_cache_layout="LBHNC",
    )


def test_the_identity_names_what_the_bytes_depend_on():
    """Two engines share a tier's chunks only when all of it agrees."""
    same = Note(model="m", cache_dtype="bf16", runner="r", hash_algorithm="h", hash_seed="0")
    base = identity_of(config(), same, [4096], replicated=False)
    others = [
        identity_of(config(tp=4), same, [4096], replicated=False),
        identity_of(config(), same, [8192], replicated=False),
        identity_of(config(), same, [4096], replicated=True),
        *(
            identity_of(config(), Note(**{**vars_of(same), name: "x"}), [4096], replicated=False)
            for name in ("model", "cache_dtype", "runner", "hash_algorithm", "hash_seed")
        ),
    ]

    assert base.digest == identity_of(config(), same, [4096], replicated=False).digest
    assert len({base.digest, *(other.digest for other in others)}) == 1 + len(others)


def vars_of(facts):
    return {**json.loads(facts.text()), "kinds": ()}


@pytest.mark.parametrize(
    ("minor", "algorithm", "seed", "warns"),
    [
        (28, "sha256", None, True),
        (28, "sha256", "0", False),
        (29, "sha256", None, False),
        (29, "xxhash", None, True),
    ],
)
def test_hashes_that_differ_per_process_are_warned_of(minor, algorithm, seed, warns, caplog):
    """Before 0.29 nothing is found after a restart without a fixed seed."""
    found = Note(model="m", cache_dtype="b", runner="r", hash_algorithm=algorithm, hash_seed=seed)
    warn_of_random_hashes(found, Release(0, minor))

    assert bool(caplog.messages) == warns
