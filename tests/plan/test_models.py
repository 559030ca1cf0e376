"""config.json -> layers: found by architecture or model_type, wrapped or not, whole or broken."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kvengine.config.engine import Speculative
from kvengine.errors import PlanError
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Plan
from tests.plan.engines import engine, hf_config, outcome, transfer
from tests.plan.rows import DATA

MODELS = sorted(path.stem for path in (DATA / "models").glob("*.json"))
HAND = (
    "\n  hint: describe the layers by hand: one [[model.layers]] table per run of layers, with"
    " kind (full, window, chunked, mla or state), count, heads, head_size and, where it applies,"
    " window"
)


def refusal(config):
    with pytest.raises(PlanError) as caught:
        make_plan(config)
    return str(caught.value)


def of(config, vllm="0.28"):
    return engine(model={"config": config}, vllm=vllm)


def test_an_unknown_architecture_says_what_was_looked_for():
    """Both names, and how to describe the layers by hand."""
    config = {**hf_config("llama-3.1-8b"), "architectures": ["NovelLM"], "model_type": "novel"}

    assert refusal(of(config)) == (
        "model.config describes no architecture that we know: not"
        ' "NovelLM" of architectures nor "novel" of model_type [choice]' + HAND
    )


def test_a_config_without_any_name_says_so():
    """Neither ``architectures`` nor ``model_type``."""
    assert refusal(of({"hidden_size": 4096})) == (
        "model.config describes no architecture that we know: it has no architectures and no"
        " model_type [choice]" + HAND
    )


def test_a_missing_field_is_named():
    """What the planner reads and does not find."""
    config = hf_config("llama-3.1-8b")
    del config["num_hidden_layers"]

    assert refusal(of(config)) == (
        "model.config.num_hidden_layers is missing [missing]\n"
        "  hint: the planner reads it from the model's config.json"
    )


def test_a_field_of_another_type_is_named():
    """Text where a number belongs."""
    config = {**hf_config("llama-3.1-8b"), "num_key_value_heads": "8"}

    assert refusal(of(config)) == (
        "model.config.num_key_value_heads must be a whole number up to 1099511627776,"
        ' not "8" [type]\n'
        "  hint: the planner reads it from the model's config.json"
    )


def test_absurd_numbers_of_layers_are_refused():
    """No plan takes all memory of the machine that plans."""
    config = {**hf_config("llama-3.1-8b"), "num_hidden_layers": 10**9}

    assert refusal(of(config)) == (
        "model.config.num_hidden_layers says 1000000000 layers, more than 10000 [limit]\n"
        "  hint: the planner reads it from the model's config.json"
    )


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b-it", "deepseek-v3.2", "gpt-oss-20b"])
def test_model_type_decides_where_there_are_no_architectures(name):
    """A config without ``architectures`` plans the same."""
    config = hf_config(name)
    nameless = {key: value for key, value in config.items() if key != "architectures"}

    assert make_plan(of(nameless)) == make_plan(of(config))


def test_a_multimodal_wrapper_has_the_caches_of_its_language_model():
    """Only the layers' names tell of the wrapper."""
    config = hf_config("llama-3.1-8b")
    wrapped = {"architectures": ["NovelVLForConditionalGeneration"], "text_config": config}

    inside, alone = make_plan(of(wrapped)), make_plan(of(config))
    assert inside.num_blocks == alone.num_blocks
    assert inside.groups[0].layers[0] == "language_model.model.layers.0.self_attn.attn"


@pytest.mark.parametrize("vllm", ["0.24", "0.28", "0.33"])
def test_every_model_of_the_test_data_plans(vllm):
    """With memory enough, and a short request."""
    for name in MODELS:
        plan = make_plan(
            engine(
                name,
                vllm,
                model={"max_model_len": 512},
                dtype="fp8" if name.startswith("deepseek-v4") else "auto",
                kv_transfer=transfer(),
            )
        )
        assert plan.num_blocks > 0, name


VALUES = st.sampled_from(
    [None, 0, -1, 1, 3, 1.5, 10**12, True, "x", "full_attention", [], [0], [None], ["x"], {}]
)


@st.composite
def broken(draw):
    """A config.json with some fields gone or changed, here or in its nested parts."""
    config = hf_config(draw(st.sampled_from(MODELS)))
    for _ in range(draw(st.integers(1, 3))):
        table = config
        while True:
            keys = sorted(table)
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(table[key], dict) and draw(st.booleans()):
                table[key] = table = dict(table[key])
                continue
            if draw(st.booleans()):
                table[key] = draw(VALUES)
            else:
                del table[key]
            break
    return config


@pytest.mark.parametrize("value", [[], {}, 5, True])
def test_a_state_dtype_that_is_no_text_is_refused_by_name(value):
    """It decides bytes, so nothing is guessed."""
    config = {**hf_config("qwen3-next-80b-a3b"), "mamba_ssm_dtype": value}
    found = outcome(engine(model={"config": config, "max_model_len": 512}, vllm="0.32"))

    assert "mamba_ssm_dtype must be a text" in found.message


def test_more_layer_types_than_layers_are_refused():
    """Zamba-2 lists its types beside their number."""
    config = {**hf_config("zamba2-7b"), "num_hidden_layers": 20}

    assert refusal(engine(model={"config": config, "max_model_len": 512}, vllm="0.28")) == (
        "model.config puts model.attn.2 in layer 30, counted from 0, but gives the model 20 layers"
        " [geometry]\n  hint: its list of layer types and its number of layers must agree"
    )


@pytest.mark.parametrize("value", ["1,2", False, 0, {"a": 1}])
def test_layers_that_are_no_list_are_refused_by_name(value):
    """Without them Kimi Linear would have no states."""
    config = hf_config("kimi-linear-48b")
    config = {**config, "linear_attn_config": {**config["linear_attn_config"], "kda_layers": value}}
    found = outcome(engine(model={"config": config, "max_model_len": 512}, vllm="0.32"))

    assert "model.config.linear_attn_config.kda_layers must be a list" in found.message


@pytest.mark.parametrize("value", [0, False, None])
def test_no_window_may_be_said_in_many_ways(value):
    """Configs in the wild do."""
    config = {**hf_config("llama-3.1-8b"), "sliding_window": value}
    full = outcome(engine(vllm="0.32"))

    assert outcome(engine(model={"config": config}, vllm="0.32")).groups == full.groups


@settings(max_examples=150)
@given(config=broken(), vllm=st.sampled_from(["0.24", "0.28", "0.33"]))
def test_a_broken_config_is_planned_or_refused(config, vllm):
    """Never anything but a PlanError, and it is about an option."""
    found = outcome(engine(model={"config": config, "max_model_len": 512}, vllm=vllm))

    assert isinstance(found, Plan) or found.path


@pytest.mark.parametrize("vllm", ["0.24", "0.28"])
def test_a_draft_of_latent_windows_behind_another_model_is_refused_up_to_0_28(vllm):
    """Tuples are of DeepSeek-V4's layers only."""
    draft = hf_config("deepseek-v4-flash")
    eagle = Speculative(method="eagle", num_speculative_tokens=2, draft=draft)
    found = outcome(evolve(engine(vllm=vllm), speculative=eagle))

    assert found.message == "no release before 0.29 groups window_mla layers beside full"
    assert found.path == ("speculative", "draft")


@settings(max_examples=100)
@given(draft=broken(), wrapped=st.booleans(), vllm=st.sampled_from(["0.24", "0.33"]))
def test_a_broken_draft_is_planned_or_refused(draft, wrapped, vllm):
    """Like a model: its config.json alone, or beside the name of its architecture."""
    given = {"architecture": "EagleLlamaForCausalLM", "config": draft} if wrapped else draft
    eagle = Speculative(method="eagle", num_speculative_tokens=2, draft=given)
    found = outcome(evolve(engine(vllm=vllm), speculative=eagle))

    assert isinstance(found, Plan) or found.path


@pytest.mark.parametrize(
    ("rope", "says"),
    [
        ({"factor": "x"}, 'rope_scaling.factor must be a number up to 1099511627776, not "x"'),
        (
            {"original_max_position_embeddings": [1]},
            "rope_scaling.original_max_position_embeddings must be a number up to 1099511627776,"
            " not [1]",
        ),
    ],
)
def test_a_nested_field_is_named_with_its_table(rope, says):
    """YaRN scales the context length up to 0.28."""
    config = hf_config("gpt-oss-120b")
    config = {**config, "rope_scaling": {**config["rope_scaling"], **rope}}

    assert refusal(of(config)) == (
        f"model.config.{says} [type]\n  hint: the planner reads it from the model's config.json"
    )
