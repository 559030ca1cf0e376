"""Edits inside quoted texts: the config changes, its quoting and everything else stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document import CannotEdit, apply
from kvengine.document.changes import changed, same
from kvengine.document.embedded import find
from kvengine.errors import Drop, Move, Put
from tests.document.embedded.samples import SAMPLES

ODD = 'it\'s $5 "q" \\ x'
EXTRA = "kv_connector_extra_config"


def edited(name, text, index, *changes):
    """The text after changes to one config, and what is then found in it."""
    raw = text.encode()
    after = apply(raw, find(raw, name=name)[index].edits(changes))
    return after.decode(), find(after, name=name)


WRITTEN = [
    ("a.sh", """x '{"a":1,"b":"y"}'""", """x '{"a":1,"b":"y","z":"it'\\''s $5 \\"q\\" \\\\ x"}'"""),
    ("a.sh", r'''x "{\"a\":1}"''', r'''x "{\"a\":1,\"z\":\"it's \$5 \\\"q\\\" \\\\ x\"}"'''),
    ("a.sh", r"""x {\"a\":1}""", r"""x {\"a\":1,\"z\":\"it\'s\ \$5\ \\\"q\\\"\ \\\\\ x\"}"""),
    ("a.yaml", """k: '{"a":1}'""", """k: '{"a":1,"z":"it''s $5 \\"q\\" \\\\ x"}'"""),
    ("a.yaml", r'''k: "{\"a\":1}"''', r'''k: "{\"a\":1,\"z\":\"it's $5 \\\"q\\\" \\\\ x\"}"'''),
    ("a.yaml", 'k: |\n  {"a": 1}', 'k: |\n  {"a": 1, "z": "it\'s $5 \\"q\\" \\\\ x"}'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), WRITTEN)
def test_a_value_is_quoted_as_the_text_around_it(name, before, after):
    """For every kind of quotes, however odd the value."""
    flag = {"a.sh": "--kv-transfer-config ", "a.yaml": "kv-transfer-config: "}[name]
    before = before.replace("k: ", flag) if name == "a.yaml" else before.replace("x ", flag, 1)
    after = after.replace("k: ", flag) if name == "a.yaml" else after.replace("x ", flag, 1)

    assert edited(name, before, 0, Put(("z",), ODD))[0] == after


CHANGES = [
    Put(("kv_role",), "kv_consumer"),
    Put(("kv_rank",), 3),
    Put((EXTRA, "a key"), ODD),
    Drop(("kv_role",)),
    Move(("kv_role",), (EXTRA, "kv_role")),
]
BY_HAND = {("serve.py", 0), ("serve.py", 1), ("<stdin>", 0)}
EDITABLE = [
    (name, source.index)
    for name, text in SAMPLES.items()
    for source in find(text.encode(), name=name)
    if source.data is not None and source.origin != "engine"
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("name", "index"), EDITABLE)
def test_every_sample_can_be_edited_without_touching_its_other_configs(name, index, change):
    """Manifests, scripts, heredocs, programs; dotted flags and calls are changed by hand."""
    text = SAMPLES[name]
    before = find(text.encode(), name=name)
    if (name, index) in BY_HAND or (name == "apply.sh" and change.path == ("kv_role",)):
        with pytest.raises(CannotEdit):
            before[index].edits([change])
        return
    after, sources = edited(name, text, index, change)

    assert same(sources[index].data, changed(before[index].data, change))
    assert abs(len(after) - len(text)) < 140


def test_a_variable_is_taken_out_of_a_manifest():
    """As the fix of a variable that nobody reads asks for."""
    change = Drop(("env:VLLM_USE_PACKED_HMA_KV_CACHE",))
    text, sources = edited("compose.yaml", SAMPLES["compose.yaml"], 1, change)

    assert "environment: {}" in text
    assert sources[1].env == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("--kv-transfer-config '{\"a\":1,}'", "its JSON must be mended first"),
        ("--kv-transfer-config.a 1", "the config is not written as one text"),
        ("--kv-offloading-size 1", "there is no config that could be changed"),
        ("A='{\"a\": 1}'; vllm serve --kv-transfer-config $A", "its JSON must be mended first"),
        ("A='{\"a\":1}'; vllm --kv-transfer-config $A", "its quoting does not allow the change"),
    ],
)
def test_what_cannot_be_edited_says_why(text, reason):
    """A config cut in words by an unquoted variable cannot grow a blank."""
    (source,) = find(text.encode(), name="a.sh")[:1]
    with pytest.raises(CannotEdit) as caught:
        source.edits([Put(("a",), "x y")])

    assert caught.value.reason == reason


KEYS = st.sampled_from(["kv_role", "x", "a key", "é", "kv_connector_extra_config"])
VALUES = st.one_of(
    st.text(max_size=8), st.integers(), st.booleans(), st.lists(st.text(max_size=3), max_size=2)
)


@given(
    sample=st.sampled_from(EDITABLE),
    change=st.builds(lambda key, value: Put((key,), value), KEYS, VALUES)
    | st.builds(lambda key: Drop((key,)), KEYS),
)
def test_an_edit_is_exact_or_refused(sample, change):
    """Whatever the value: the file then holds the changed config, all others as before."""
    name, index = sample
    raw = SAMPLES[name].encode()
    before = find(raw, name=name)
    try:
        made = before[index].edits([change])
    except CannotEdit:
        return
    after = find(apply(raw, made), name=name)

    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        wanted = changed(old.data, change) if old.index == index else old.data
        assert same(new.data, wanted)
