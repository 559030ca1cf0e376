"""Every wrong value gets its own clear message."""

from __future__ import annotations

import pytest

from kvengine.config.load import examine
from kvengine.document import parse


def findings(text, form="json", vllm="0.28"):
    """Severity and whole text of every problem of a document."""
    checked = examine(parse(text.encode(), name="kv.json", form=form), vllm=vllm)
    return [(problem.severity, str(problem)) for problem in checked.problems]


def bare(extra):
    return (
        '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",\n'
        ' "kv_connector_extra_config": {"cpu_bytes_to_use": 1000000000,\n'
        f"  {extra}}}}}"
    )


def engine(extra):
    return (
        'schema = 2\n[kv_transfer]\nkv_connector = "OffloadingConnector"\nkv_role = "kv_both"\n'
        f"[kv_transfer.kv_connector_extra_config]\ncpu_bytes_to_use = 1000000000\n{extra}\n"
    )


WHERE = "kv.json:3:3: kv_connector_extra_config"
ENGINE = "kv.json:7:1: kv_transfer.kv_connector_extra_config"


@pytest.mark.parametrize("key", ["blocks_per_chunk", "block_size"])
@pytest.mark.parametrize(
    ("value", "severity", "text"),
    [
        ('"4"', "info", 'is the text "4", read as a number [coerced]\n  hint: write 4'),
        ("4.0", "info", "is 4.0, read as 4 [coerced]\n  hint: write 4"),
        ("4.5", "warning", "is 4.5, cut to 4 [coerced]\n  hint: write 4"),
        ("true", "warning", "is true, read as 1 [coerced]\n  hint: write 1"),
        ("0", "error", "must be at least 1, not 0 [range]"),
        ("-1", "error", "must be at least 1, not -1 [range]"),
        ('"0"', "error", "must be at least 1, not 0 [range]"),
        ("false", "error", "must be at least 1, not 0 [range]"),
    ],
)
def test_a_chunk_size_in_a_bare_config_is_judged_by_what_vllm_reads(key, value, severity, text):
    """int() repairs some values and changes the meaning of others."""
    assert findings(bare(f'"{key}": {value}')) == [(severity, f"{WHERE}.{key}: {text}")]


@pytest.mark.parametrize("key", ["blocks_per_chunk", "block_size"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"4"', 'must be a whole number, not the text "4" [type]\n  hint: write 4'),
        ("4.0", "must be a whole number, not 4.0 [type]\n  hint: write 4"),
        ("0", "must be at least 1, not 0 [range]"),
        ("-1", "must be at least 1, not -1 [range]"),
    ],
)
def test_a_chunk_size_in_an_engine_document_has_the_right_type(key, value, text):
    """Engine documents are strict."""
    assert findings(engine(f"{key} = {value}"), "toml") == [("error", f"{ENGINE}.{key}: {text}")]


def test_true_is_no_number_in_an_engine_document():
    """And there is no certain fix for it."""
    assert findings(engine("blocks_per_chunk = true"), "toml") == [
        (
            "error",
            f"{ENGINE}.blocks_per_chunk: must be a whole number, not true [type]\n"
            "  hint: write for example 8",
        )
    ]


def test_the_two_chunk_sizes_exclude_each_other():
    """The second one is the problem."""
    assert findings(bare('"block_size": 64, "blocks_per_chunk": 2')) == [
        (
            "error",
            "kv.json:3:21: kv_connector_extra_config.blocks_per_chunk: cannot be combined with"
            " 'block_size' [exclusive]\n"
            "  hint: both set how much one chunk holds, block_size in tokens and"
            " blocks_per_chunk in blocks; only blocks_per_chunk fits groups of different block"
            " sizes",
        )
    ]


def test_a_null_chunk_size_counts_as_not_given():
    """vLLM treats it as absent."""
    assert findings(bare('"block_size": null, "blocks_per_chunk": 2')) == []


def test_a_connector_needs_a_role():
    """vLLM refuses to start without."""
    assert findings('{"kv_connector": "OffloadingConnector",\n "kv_connector_extra_config":'
                    ' {"cpu_bytes_to_use": 1}}') == [
        (
            "error",
            "kv.json:1:1: kv_role: is required with 'kv_connector' [missing]\n"
            "  hint: vLLM refuses a connector without a role; choose kv_producer, kv_consumer or"
            " kv_both",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "severity", "text"),
    [
        ('"true"', "info", 'is the text "true", read as true [coerced]\n  hint: write true'),
        (
            '"false"',
            "error",
            'is the text "false", which bool() reads as true [coerced]\n'
            "  hint: write false if that is meant, true otherwise",
        ),
        ("0", "info", "is 0, read as false [coerced]\n  hint: write false"),
    ],
)
def test_a_text_boolean_is_judged_by_what_bool_makes_of_it(value, severity, text):
    """Read as meant: info. Read the other way round: error."""
    assert findings(bare(f'"offload_prompt_only": {value}')) == [
        (severity, f"{WHERE}.offload_prompt_only: {text}")
    ]


def test_a_key_of_another_release_is_a_warning_that_names_its_successor():
    """It does nothing, but vLLM starts."""
    assert findings(bare('"enable_cross_layers_blocks": true'), vllm="0.32") == [
        (
            "warning",
            f"{WHERE}.enable_cross_layers_blocks: is not read by vLLM 0.32 (read 0.24 up to, not"
            " including, 0.29) [unread]\n"
            "  hint: use cache.layout (VLLM_KV_CACHE_LAYOUT) instead",
        )
    ]


def test_a_field_that_a_release_refuses_is_an_error_there_and_an_info_before():
    """kv_rank was accepted without effect up to 0.31."""
    text = '{"kv_connector": null,\n "kv_rank": 0}'

    assert findings(text, vllm="0.31") == [
        ("info", "kv.json:2:2: kv_rank: has no effect in vLLM 0.31 [unread]")
    ]
    assert findings(text, vllm="0.32") == [
        (
            "error",
            "kv.json:2:2: kv_rank: is refused by vLLM 0.32 (accepted before 0.32) [removed]",
        )
    ]


def test_a_misspelt_key_is_named_with_the_nearest_one():
    """vLLM would ignore it silently."""
    assert findings(bare('"block_per_chunk": 2')) == [
        (
            "error",
            f"{WHERE}.block_per_chunk: is no option [unknown]\n"
            "  hint: did you mean 'blocks_per_chunk'?",
        )
    ]


def test_a_key_at_the_wrong_level_is_told_where_it_belongs():
    """Both ways: from the extra config outwards and from the outside in."""
    text = (
        '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",\n'
        '"blocks_per_chunk": 2,\n'
        '"kv_connector_extra_config": {"cpu_bytes_to_use": 1,\n'
        '"engine_id": "a"}}'
    )

    assert findings(text) == [
        (
            "error",
            "kv.json:2:1: blocks_per_chunk: belongs to kv_connector_extra_config, nothing reads it"
            " here [misplaced]",
        ),
        (
            "error",
            "kv.json:4:1: kv_connector_extra_config.engine_id: belongs to the top level, nothing"
            " reads it here [misplaced]",
        ),
    ]


def test_own_keys_are_the_users_own_where_vllm_lets_them_be():
    """x- keys pass in the extra config and in engine tables, not at a transfer config's root."""
    assert findings(bare('"x-team": "kv"')) == []
    assert findings('{"kv_connector": null,\n "x-team": 1}') == [
        ("error", "kv.json:2:2: x-team: is no option [unknown]")
    ]
    assert findings('schema = 2\nx-team = "kv"\n[cache]\nx-note = 1\n', "toml") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "kv.json:1:1: must be a table of options [type]"),
        ("{}", "kv.json:1:1: is neither an engine document nor a transfer config [missing]"),
        ('{"schema": 3}', "kv.json:1:2: schema: is version 3, newer than we know [choice]"),
        ('{"schema": "2"}', 'kv.json:1:2: schema: must be 1 or 2, not "2" [choice]'),
        ('{"schema": true}', "kv.json:1:2: schema: must be 1 or 2, not true [choice]"),
    ],
)
def test_what_is_no_document_of_ours_is_said(text, message):
    """Recognised by content, never guessed."""
    (found,) = findings(text)

    assert found[1].partition("\n")[0] == message


def test_the_packed_variable_is_deprecated_in_a_document_of_schema_2():
    """It does nothing there; the fix moves it."""
    checked = examine(
        parse(
            b'schema = 2\n[environment]\nVLLM_USE_PACKED_HMA_KV_CACHE = "1"\n',
            name="kv.toml",
        )
    )
    (problem,) = checked.problems

    assert (problem.severity, problem.code) == ("warning", "deprecated")
    assert str(problem).startswith(
        "kv.toml:3:1: environment.VLLM_USE_PACKED_HMA_KV_CACHE: is deprecated, use"
        " kv_connector_extra_config.enable_cross_layers_blocks instead [deprecated]"
    )
    assert checked.config.kv_transfer is None
