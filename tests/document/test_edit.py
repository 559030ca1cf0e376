"""Edits: the data is exactly what was asked for, and everything else stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document import CannotEdit, apply, edits, parse, parse_all
from kvengine.document.changes import changed, same
from kvengine.errors import Drop, Edit, Move, Put
from tests.document.strategies import (
    KEYS,
    SCALARS,
    changes,
    json_texts,
    toml_texts,
    values,
    yaml_texts,
)


def edited(name, text, *wanted):
    """The text after the changes."""
    document = parse(text.encode(), name=name)
    return apply(document.raw, edits(document, wanted)).decode()


EXTRA = ("kv_transfer", "kv_connector_extra_config")

TOML = """\
# about
schema = 1   # old

[environment]
# the switch
VLLM_USE_PACKED_HMA_KV_CACHE = "1"  # packed

[kv_transfer]
kv_connector = 'OffloadingConnector'
kv_role = "kv_both" # both

[kv_transfer.kv_connector_extra_config]
block_size = 64   # tokens
tiers = [
  { type = "fs" },  # disk
  { type = "x" },
]
"""

TOML_CASES = [
    ([Put(("schema",), 2)], [("schema = 1 ", "schema = 2 ")]),
    ([Put(("kv_transfer", "kv_connector"), "A")], [("'OffloadingConnector'", "'A'")]),
    (
        [Drop(("environment",))],
        [(TOML[TOML.index("[env") : TOML.index("[kv_transfer]")], "")],
    ),
    (
        [Drop(("environment", "VLLM_USE_PACKED_HMA_KV_CACHE"))],
        [('VLLM_USE_PACKED_HMA_KV_CACHE = "1"  # packed\n', "")],
    ),
    (
        [Put((*EXTRA, "enable_cross_layers_blocks"), True)],
        [('x" },\n]\n', 'x" },\n]\nenable_cross_layers_blocks = true\n')],
    ),
    (
        [Move((*EXTRA, "block_size"), (*EXTRA, "blocks_per_chunk"))],
        [("block_size", "blocks_per_chunk")],
    ),
    (
        [Move((*EXTRA, "block_size"), ("kv_transfer", "block_size"))],
        [("block_size = 64   # tokens\n", ""), ("# both\n", "# both\nblock_size = 64\n")],
    ),
    (
        [Move(("environment",), ("kv_transfer", "env"))],
        [("[environment]", "[kv_transfer.env]")],
    ),
    ([Put((*EXTRA, "tiers", 0, "path"), "/x")], [('"fs" }', '"fs", path = "/x" }')]),
    ([Put((*EXTRA, "tiers", 2), {"type": "y"})], [('"x" },\n', '"x" },\n  { type = "y" },\n')]),
    ([Drop((*EXTRA, "tiers", 0))], [('  { type = "fs" },  # disk\n', "")]),
    (
        [Put(("cache", "memory"), "40 GiB"), Put(("cache", "x y"), [1, {"a": 0.5}])],
        [("},\n]\n", '},\n]\n\n[cache]\nmemory = "40 GiB"\n"x y" = [1, { a = 0.5 }]\n')],
    ),
    (
        [Put(("x-notes", "deep", "er"), 1)],
        [("},\n]\n", "},\n]\n\n[x-notes.deep]\ner = 1\n")],
    ),
    ([Put(("vllm",), "0.28")], [("# old\n", '# old\nvllm = "0.28"\n')]),
]


@pytest.mark.parametrize(("wanted", "replaced"), TOML_CASES)
def test_toml_keeps_all_but_what_changes(wanted, replaced):
    """Comments, order, quotes and blank lines of TOML stay."""
    expected = TOML
    for old, new in replaced:
        assert expected.count(old) >= 1
        expected = new.join(expected.rsplit(old, 1))

    assert edited("k.toml", TOML, *wanted) == expected


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ("a.b.c = 1\n", Put(("a", "b", "d"), 2), "a.b.c = 1\na.b.d = 2\n"),
        ("a.b = 1 # c\n", Drop(("a", "b")), "a = {} # c\n"),
        ("[a.b]\nc = 1\n", Drop(("a", "b")), "[a]\n"),
        ("[a.b]\nc = 1\n", Put(("a", "x"), 1), "[a.b]\nc = 1\n\n[a]\nx = 1\n"),
        ("[a]\n", Put(("b",), 1), "b = 1\n\n[a]\n"),
        ("#:schema x\n\n# of a\n[a]", Put(("b",), 1), "#:schema x\n\nb = 1\n\n# of a\n[a]"),
        ("a = 1", Put(("b", "c"), 1), "a = 1\n\n[b]\nc = 1\n"),
        ("a = 1\r\n", Put(("b",), "x"), 'a = 1\r\nb = "x"\r\n'),
        ("[[a]]\nb = 1\n[[a]]\nb = 2\n", Drop(("a", 0)), "[[a]]\nb = 2\n"),
        ("[[a]]\nb = 1\n", Drop(("a", 0)), "a = []\n"),
        (
            "[[a]]\nb = 1\n",
            Put(("a", 1), {"b": {"c": 2}}),
            "[[a]]\nb = 1\n\n[[a]]\n\n[a.b]\nc = 2\n",
        ),
        (
            "[[a]]\nb = 1\n\n[[a]]\nb = 2\n",
            Put(("a", 0, "c", "d"), 3),
            "[[a]]\nb = 1\n\n[a.c]\nd = 3\n\n[[a]]\nb = 2\n",
        ),
        ("a = {b.c = 1}\n", Put(("a", "b", "d"), 2), "a = { b = { c = 1, d = 2 } }\n"),
        ("a = 'x' # c\n", Put(("a",), "it's"), 'a = "it\'s" # c\n'),
        ("[a]\nb = 1\n[c]\n", Put(("a",), 5), "a = 5\n\n[c]\n"),
    ],
)
def test_toml_in_its_corners(text, change, expected):
    """Dotted keys, implicit tables, arrays of tables, no line break at the end."""
    assert edited("k.toml", text, change) == expected


YAML = """\
# top
spec:
  # about args
  args:
  - --foo   # the foo
  - name: x
    value: "1"  # v
  - {a: 1, b: [1, 2]}   # flow
  text: |
    hello

  last:
"""

YAML_CASES = [
    (Put(("spec", "args", 0), "--bar"), "--foo  ", '"--bar"  '),
    (Put(("spec", "args", 1, "value"), "2"), '"1"', '"2"'),
    (Put(("spec", "args", 1, "p"), {"q": 1}), "# v\n", "# v\n    p:\n      q: 1\n"),
    (Put(("spec", "args", 3), "z"), "# flow\n", "# flow\n  - z\n"),
    (Put(("spec", "args", 3), {"a": 1, "b": 2}), "# flow\n", "# flow\n  - a: 1\n    b: 2\n"),
    (Put(("spec", "args", 2, "b", 2), 3), "[1, 2]", "[1, 2, 3]"),
    (Put(("spec", "args", 2, "c"), "no"), "2]}", '2], c: "no"}'),
    (Put(("spec", "last", "x"), [1]), "last:\n", "last:\n    x: [1]\n"),
    (Put(("spec", "text"), "x"), "|\n    hello\n", "x\n"),
    (Put(("more",), {"a": [{"b": 1}]}), "last:\n", "last:\nmore:\n  a:\n    - b: 1\n"),
    (Drop(("spec", "args", 0)), "  - --foo   # the foo\n", ""),
    (Drop(("spec", "args", 1, "name")), "name: x\n    ", ""),
    (Drop(("spec", "args", 1, "value")), '    value: "1"  # v\n', ""),
    (Drop(("spec", "args", 1)), '  - name: x\n    value: "1"  # v\n', ""),
    (Drop(("spec", "args", 2, "a")), "a: 1, ", ""),
    (Drop(("spec", "args", 2, "b")), ", b: [1, 2]", ""),
    (Drop(("spec", "text")), "  text: |\n    hello\n", ""),
    (Move(("spec", "args"), ("spec", "command")), "  args:", "  command:"),
    (Move(("spec", "args", 1, "name"), ("spec", "args", 1, "no")), "name", '"no"'),
]


@pytest.mark.parametrize(("change", "old", "new"), YAML_CASES)
def test_yaml_keeps_all_but_what_changes(change, old, new):
    """Comments, order, quotes and blank lines of YAML stay."""
    assert YAML.count(old) == 1
    assert edited("k.yaml", YAML, change) == YAML.replace(old, new)


def test_yaml_moves_lines_with_their_comments():
    """A block goes to another table as it is, at its new indentation."""
    text = "a:\n    b:\n        c: 1  # one\n\n        d: [2]\n    e: 1\nf:\n    g: 1\n"

    assert edited("k.yaml", text, Move(("a", "b"), ("f", "b"))) == (
        "a:\n    e: 1\nf:\n    g: 1\n    b:\n        c: 1  # one\n\n        d: [2]\n"
    )


SHARED = "a: &a {b: 1}\nc: *a\nd:\n  <<: *a\n"


@pytest.mark.parametrize(
    ("text", "change", "reason"),
    [
        (SHARED, Put(("c", "b"), 2), "is written elsewhere and comes in by a YAML alias or merge"),
        (SHARED, Drop(("d", "b")), "is merged in from another mapping"),
        (SHARED, Put(("a", "b"), 2), "has a YAML anchor, by which other places share it"),
        (SHARED, Drop(("a",)), "has a YAML anchor, by which other places share it"),
        ("a: 1\n", Put(("a", "b"), 2), "a cannot hold it"),
        ("a: [1]\n", Put(("a", 2), 2), "a cannot hold it"),
        ("a: 1\n", Put((), 2), "the document as a whole cannot be replaced"),
        ("a: 1\n", Move(("b",), ("c",)), "does not exist"),
        ("a: {}\n", Move(("a",), ("a", "b")), "cannot be moved into itself"),
    ],
)
def test_what_cannot_be_edited_says_why(text, change, reason):
    """Nothing is written half."""
    with pytest.raises(CannotEdit) as caught:
        edited("k.yaml", text, change)

    assert caught.value.reason == reason


def test_yaml_shared_places_can_still_be_overridden_and_replaced():
    """An own key wins over a merged one; the alias itself is an ordinary value."""
    text = "a: &a {b: 1}\nc:\n  <<: *a\nd: *a\n"

    assert edited("k.yaml", text, Put(("c", "b"), 2)) == text.replace("*a\nd", "*a\n  b: 2\nd")
    assert edited("k.yaml", text, Put(("d",), 2)) == text.replace("d: *a", "d: 2")
    assert edited("k.yaml", text, Drop(("d",))) == text.replace("d: *a\n", "")


JSON = """\
{
    "kv_connector": "OffloadingConnector",
    "kv_connector_extra_config": {
        "block_size": 64,
        "list": [1, 2, 3], "x": {}
    }
}
"""

JSON_CASES = [
    ([Put(("kv_connector",), "A")], [('"OffloadingConnector"', '"A"')]),
    ([Put(("kv_role",), "kv_both")], [("    }\n}", '    },\n    "kv_role": "kv_both"\n}')]),
    ([Drop(("kv_connector",))], [('    "kv_connector": "OffloadingConnector",\n', "")]),
    ([Drop(("kv_connector_extra_config", "x"))], [(', "x": {}', "")]),
    ([Drop(("kv_connector_extra_config", "list"))], [('"list": [1, 2, 3], ', "")]),
    ([Drop(("kv_connector_extra_config", "list", 1))], [("1, 2, 3", "1, 3")]),
    ([Put(("kv_connector_extra_config", "list", 3), None)], [("2, 3]", "2, 3, null]")]),
    (
        [Move(("kv_connector_extra_config", "block_size"), ("block_size",))],
        [('        "block_size": 64,\n', ""), ("    }\n}", '    },\n    "block_size": 64\n}')],
    ),
    (
        [Put(("kv_connector_extra_config", "x", "y"), [1])],
        [('"x": {}', '"x": {\n            "y": [\n                1\n            ]\n        }')],
    ),
    ([Drop(("kv_connector_extra_config",))], [(JSON[JSON.index(',\n    "kv_c') : -3], "")]),
]


@pytest.mark.parametrize(("wanted", "replaced"), JSON_CASES)
def test_json_keeps_all_but_what_changes(wanted, replaced):
    """Order, indentation and line breaks of JSON stay; commas are right."""
    expected = JSON
    for old, new in replaced:
        assert expected.count(old) == 1
        expected = expected.replace(old, new)

    assert edited("k.json", JSON, *wanted) == expected


def test_json_on_one_line_stays_on_one_line():
    """A compact file stays compact."""
    text = '{"a": 1, "b": {"c": 2}}'
    wanted = [Drop(("a",)), Put(("b", "d"), [1]), Move(("b", "c"), ("c",)), Put(("e", "f"), {})]

    assert edited("k.json", text, *wanted) == '{"b": {"d": [1]}, "c": 2, "e": {"f": {}}}'


def test_one_document_of_a_stream_is_edited():
    """The others keep every byte."""
    raw = "a: é\n---\nb: 1\n---\nc: 1\n".encode()
    second = parse_all(raw, name="k.yaml")[1]

    assert edits(second, [Put(("b",), 2)]) == (Edit(13, 14, "2"),)
    assert apply(raw, edits(second, [Drop(("b",))])).decode() == "a: é\n---\n{}\n---\nc: 1\n"


def test_no_change_is_no_edit():
    """What is already so needs no edit; 1 and true are not the same."""
    document = parse(b"a = 1\n", name="k.toml")

    assert edits(document, [Put(("a",), 1), Drop(("b",))]) == ()
    assert edits(document, [Put(("a",), True)]) == (Edit(4, 5, "true"),)


def test_edits_that_overlap_are_refused():
    """Applying checks what it is given."""
    with pytest.raises(ValueError, match="edits overlap"):
        apply(b"abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])


REASONS = (
    "cannot hold it",
    "cannot be moved into itself",
    "does not exist",
    "without rewriting more",
    "null cannot be written in TOML",
)


@pytest.mark.parametrize("texts", [json_texts, yaml_texts, toml_texts])
@given(data=st.data())
def test_edits_make_exactly_the_changed_data(texts, data):
    """For any document and any changes, or else the edit is refused."""
    name = f"k.{texts.__name__.partition('_')[0]}"
    scalars = SCALARS if texts is toml_texts else SCALARS | st.none()
    written = data.draw(st.dictionaries(KEYS, values(scalars), min_size=1, max_size=4))
    document = parse(data.draw(texts(written)).encode(), name=name)
    first = data.draw(changes(document.data, scalars))
    try:
        after = changed(document.data, first)
        second = data.draw(changes(after, scalars))
        after = changed(after, second)
        made = edits(document, [first, second])
    except CannotEdit as error:
        assert error.reason.endswith(REASONS)  # noqa: PT017
    else:
        assert same(parse(apply(document.raw, made), name=name).data, after)


@pytest.mark.parametrize("texts", [json_texts, yaml_texts, toml_texts])
@given(data=st.data())
def test_ordinary_documents_can_always_be_edited(texts, data):
    """With plain names and values, a new key and a new value are never refused."""
    name = f"k.{texts.__name__.partition('_')[0]}"
    keys = st.sampled_from(["a", "b", "kv_role", "x-y"])
    written = data.draw(
        st.dictionaries(
            keys, st.dictionaries(keys, st.integers() | st.text("ab c", max_size=4)), min_size=1
        )
    )
    document = parse(data.draw(texts(written)).encode(), name=name)
    path = (data.draw(st.sampled_from(sorted(written))), data.draw(keys))
    wanted = Put(path, data.draw(st.integers() | st.booleans() | st.text("ab c", max_size=4)))
    made = apply(document.raw, edits(document, [wanted]))

    assert same(parse(made, name=name).data, changed(document.data, wanted))
    assert len(made) - len(document.raw) < 60
