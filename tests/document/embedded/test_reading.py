"""The value of --kv-transfer-config, read as vLLM reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document.embedded.arguments import read_arguments
from kvengine.document.embedded.reading import read_dotted, read_object
from kvengine.document.embedded.strand import Strand
from kvengine.document.embedded.words import split_words


def read(text):
    """The data, what is wrong as (message, offset), and what is not known."""
    reading = read_object(Strand.of(text))
    faults = [(fault.message, fault.start) for fault in reading.faults]
    return reading.data, faults, [(path, hole.name) for path, hole in reading.unresolved]


VALID = [
    ('{"a": 1, "b": [true, null, "x"]}', {"a": 1, "b": [True, None, "x"]}),
    ('{"a": 8G, "b": 1.5g, "c": -2k}', {"a": 8 << 30, "b": 1_500_000_000, "c": -2000}),
    (
        '{"a":1K,"b":1m,"c":1M,"d":2t,"e":2T}',
        {"a": 1024, "b": 10**6, "c": 1 << 20, "d": 2 * 10**12, "e": 2 << 40},
    ),
    ('{"a": "8G", "b 8G": "x, 9k,"}', {"a": "8G", "b 8G": "x, 9k,"}),
    ("  {}\n", {}),
    ('{"a": 5e9}', {"a": 5e9}),
]


@pytest.mark.parametrize(("text", "data"), VALID)
def test_valid_texts_are_read_with_their_suffixes(text, data):
    """Small letters count in 1000, large ones in 1024, in quotes nothing is counted."""
    assert read(text) == (data, [], [])


EMPTY = "which vLLM takes for no KV transfer at all, without a message"

BROKEN = [
    ('{"a": 8GB}', None, [('has "8GB", which is no JSON number', 6)]),
    ('{"a": 1.5G}', None, [('has "1.5G", which is no JSON number', 6)]),
    ("{a:1,b:{c:d}}", None, [("has lost its double quotes to the shell", 0)]),
    (
        r"{\"a\":{\"b\":1}}",
        {"a": {"b": 1}},
        [("reaches vLLM with backslashes before its quotes", 1)],
    ),
    ("'{\"a\":1}'", {"a": 1}, [("reaches vLLM with the quotes ' around it", 0)]),
    ('{"a":1,}', {"a": 1}, [("has a trailing comma before '}', which JSON does not allow", 6)]),
    (
        '{"a":1, # c\n "b":[2,],"a":3}',
        {"a": 3, "b": [2]},
        [
            ("has a comment, which JSON does not allow", 8),
            ("has a trailing comma before ']', which JSON does not allow", 19),
            ('gives the key "a" twice', 22),
        ],
    ),
    ("[1]", None, [("is [1], not an object", 0)]),
    ('{"a":1e999}', None, [("is no number, or no text, that can be held", 0)]),
    ("", None, [(f"is empty, {EMPTY}", 0)]),
    ("None", None, [(f"is the word None, {EMPTY}", 0)]),
]


@pytest.mark.parametrize(("text", "data", "faults"), BROKEN)
def test_broken_texts_are_told_why_and_read_on_where_that_is_safe(text, data, faults):
    """The reason is named, not only what the parser stumbled over."""
    assert read(text) == (data, faults, [])


UNKNOWN = [
    (
        '{"a": <bytes>, "b": "<IP>"}',
        {"a": "<bytes>", "b": "<IP>"},
        [(("a",), "<bytes>"), (("b",), "<IP>")],
    ),
    (
        '{"a": [{{ .V }}, "x{{y}}"]}',
        {"a": ["{{ .V }}", "x{{y}}"]},
        [(("a", 0), "{{ .V }}"), (("a", 1), "{{y}}")],
    ),
    ('{"a": ...}', {"a": "..."}, [(("a",), "...")]),
]


@pytest.mark.parametrize(("text", "data", "unknown"), UNKNOWN)
def test_placeholders_are_kept_as_text_and_said(text, data, unknown):
    """With or without quotes around them."""
    assert read(text) == (data, [], unknown)


@pytest.mark.parametrize("text", ['{"a":1,...}', '{..."a":1}', '{...,"a":1}', '{"a":1 , ... }'])
def test_a_gap_is_left_out_and_makes_the_whole_unknown(text):
    """``...`` between entries, as in documentation."""
    data, faults, unknown = read(text)

    assert data == {"a": 1}
    assert [message for message, _ in faults] == ["still has a gap"]
    assert unknown == [((), "...")]


def dotted(text):
    """The config of the dotted flags in a command line."""
    reading = read_dotted(read_arguments(split_words(Strand.of(text))).dotted)
    return reading.data, [fault.message for fault in reading.faults]


DOTTED = [
    (
        "--kv-transfer-config.kv_role kv_both --kv_transfer_config.x=1",
        {"kv_role": "kv_both", "x": 1},
    ),
    (
        "--kv-transfer-config.a.b.c 8G --kv-transfer-config.a.d=false",
        {"a": {"b": {"c": 8 << 30}, "d": False}},
    ),
    ("--kv-transfer-config.a False --kv-transfer-config.b=[1,2]", {"a": "False", "b": [1, 2]}),
    ("--kv-transfer-config.a+ x,y --kv-transfer-config.a+ z", {"a": ["x", "y", "z"]}),
    ("--kv-transfer-config.a 1 --kv-transfer-config.a 2", {"a": 2}),
    ("--kv-transfer-config.a {} --kv-transfer-config.a.b 2", {"a": {"b": 2}}),
]


@pytest.mark.parametrize(("text", "data"), DOTTED)
def test_dotted_flags_nest_at_every_dot(text, data):
    """Values are JSON, or a number with a suffix, or else text; + appends texts to a list."""
    assert dotted(text) == (data, [])


def test_a_dotted_flag_without_value_is_a_fault():
    """What comes next is another flag."""
    flags = "--kv-transfer-config.a --kv-transfer-config.b 1"

    assert dotted(flags) == ({"b": 1}, ["--kv-transfer-config.a has no value"])


ARGUMENTS = [
    ("vllm serve m --a-b c --d=e", {"--a-b": "c", "--d": "e"}, "m", True),
    ("python -m vllm.entrypoints.openai.api_server --model m", {"--model": "m"}, "m", True),
    (
        "serve --enforce-eager m --x -1 --no-y z",
        {"--enforce-eager": True, "--x": "-1", "--no-y": True},
        None,
        False,
    ),
    ("x --a 1 --a 2 --b_c", {"--a": "2", "--b-c": True}, None, False),
    ("/usr/bin/vllm serve --a", {"--a": True}, None, True),
]


@pytest.mark.parametrize(("text", "flags", "model", "is_vllm"), ARGUMENTS)
def test_flags_are_read_as_vllm_reads_them(text, flags, model, is_vllm):
    """Underscores are dashes, a later flag wins, switches take no value."""
    found = read_arguments(split_words(Strand.of(text)))

    assert found.values == flags
    assert (found.model.text if found.model else None) == model
    assert found.is_vllm == is_vllm


@given(st.text("{}[]:,\"'\\ \n#/.<>$aK8e-", max_size=40))
def test_any_text_is_read_without_a_traceback(text):
    """Faults and holes stay inside the text."""
    reading = read_object(Strand.of(text))

    for fault in reading.faults:
        assert 0 <= fault.start <= (fault.end or fault.start) <= len(text)
    for _, hole in reading.unresolved:
        assert 0 <= hole.start <= hole.end <= len(text)
