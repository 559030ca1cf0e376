"""Places: every key and value is found where it was written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document import excerpt, parse
from tests.document.strategies import (
    KEYS,
    SCALARS,
    json_texts,
    paths,
    toml_texts,
    values,
    yaml_texts,
)

TOML = """\
schema = 2  # é
[a.b]
c.d = [1, {e = 2}]
"x y" = 1
[[a.q]]
z = 1
[[a.q]]
\tz\t= 2
[a]
late = true
"""

YAML = """\
%YAML 1.1
---
schema: 2   # é
a: &a
  b: {"c": [1, é, {e: 2}]}
  - x
"""

PLACES = [
    ("k.toml", TOML, ("schema",), "1:1", "schema"),
    ("k.toml", TOML, ("a", "b"), "2:4", "b"),
    ("k.toml", TOML, ("a", "b", "c"), "3:1", "c"),
    ("k.toml", TOML, ("a", "b", "c", "d"), "3:3", "d"),
    ("k.toml", TOML, ("a", "b", "c", "d", 1), "3:11", "{e = 2}"),
    ("k.toml", TOML, ("a", "b", "c", "d", 1, "e"), "3:12", "e"),
    ("k.toml", TOML, ("a", "b", "x y"), "4:1", '"x y"'),
    ("k.toml", TOML, ("a", "q"), "5:5", "q"),
    ("k.toml", TOML, ("a", "q", 1), "7:5", "q"),
    ("k.toml", TOML, ("a", "q", 1, "z"), "8:2", "z"),
    ("k.toml", TOML, ("a",), "9:2", "a"),
    ("k.toml", TOML, ("a", "b", "missing"), "2:4", "b"),
    ("k.toml", TOML, ("a", "q", 5, "z"), "5:5", "q"),
    ("k.toml", TOML, (), "1:1", "schema = 2  # é"),
    ("k.toml", TOML, ("missing", "too"), "1:1", "schema = 2  # é"),
    ("k.yaml", "a: é\nb: [x, {é: 1, c: 2}]\n", ("b", 1, "c"), "2:15", "c"),
    ("k.yaml", "x: &x {a: 1}\ny: *x\n", ("y",), "2:1", "y"),
    ("k.yaml", "x: &x {a: 1}\ny: *x\n", ("y", "a"), "1:8", "a"),
    ("k.yaml", "x: &x {a: 1}\ny:\n  <<: *x\n  b: 2\n", ("y", "a"), "1:8", "a"),
    ("k.yaml", "x: &x {a: 1}\ny:\n  <<: *x\n  b: 2\n", ("y", "b"), "4:3", "b"),
    ("k.yaml", "- a: 1\n  b:\n  - 2\n  - c: 3\n", (0, "b", 1, "c"), "4:5", "c"),
    ("k.yaml", "---\n# c\na: 1\n", (), "3:1", "a: 1"),
    ("k.yaml", "? a\n: b: 1\n", ("a", "b"), "2:3", "b"),
    ("k.json", '{\n "é": {"b": [1, {"c\\u0064": 2}]}}', ("é", "b", 1, "cd"), "2:18", '"c\\u0064"'),
    ("k.json", '\ufeff{"a": 1}', ("a",), "1:2", '"a"'),
    ("k.json", '{"a": 1}', ("b",), "1:1", '{"a": 1}'),
]


@pytest.mark.parametrize(("name", "text", "path", "where", "source"), PLACES)
def test_a_key_is_placed_where_it_is_written(name, text, path, where, source):
    """Line and column count from 1 in characters, offsets are bytes."""
    document = parse(text.encode(), name=name)
    place = document.place(path)

    assert str(place) == f"{name}:{where}"
    assert document.raw[place.start : place.end].decode() == source


def test_a_value_is_placed_where_it_is_written():
    """With ``key=False`` the value is meant."""
    for name, text in (("k.toml", TOML), ("k.yaml", "a: {b: {c: {d: [1, {e:   2}]}}}")):
        document = parse(text.encode(), name=name)
        place = document.place(("a", "b", "c", "d", 1, "e"), key=False)
        assert document.raw[place.start : place.end] == b"2"


@pytest.mark.parametrize("texts", [json_texts, yaml_texts, toml_texts])
@given(data=st.data())
def test_every_path_has_its_own_text(texts, data):
    """The text at the place of a key says the key, the text of a scalar says its value."""
    name = f"k.{texts.__name__.partition('_')[0]}"
    written = data.draw(st.dictionaries(KEYS, values(SCALARS), min_size=1, max_size=4))
    document = parse(data.draw(texts(written)).encode(), name=name)

    for path in paths(document.data):
        place, value = document.place(path), document.place(path, key=False)
        assert 0 <= place.start <= place.end <= len(document.raw)
        if path and isinstance(path[-1], str):
            text = document.raw[place.start : place.end]
            assert parse(_as_key(text, name), name=name).data == {path[-1]: 1}
        held = document.data
        for step in path:
            held = held[step]
        if isinstance(held, (bool, int)):
            assert document.raw[value.start : value.end].decode() == json.dumps(held)
        assert excerpt(document, place)


def _as_key(text: bytes, name: str) -> bytes:
    if name == "k.toml":
        return text + b" = 1"
    if name == "k.json":
        return b"{" + text + b": 1}"
    # A plain key of a block may hold what ends one in braces; a key of several lines stands there.
    return b"{? " + text + b" : 1}" if b"\n" in text else b"? " + text + b"\n: 1"
