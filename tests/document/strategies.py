"""Random documents of the three forms, and random changes to them."""

from __future__ import annotations

import json
from typing import Any

import tomlkit
import yaml
from hypothesis import strategies as st

from kvengine.errors import Drop, Move, Path, Put

KEYS = st.one_of(
    st.sampled_from(
        ["a", "b", "kv_role", "block-size", "x y", "no", "1", "é", "a.b", "k\n", '"', ""]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "kv_both",
            "no",
            "1e9",
            "a: b",
            "# c",
            "x\ny",
            "it's",
            "☃",
            "\u2028",
            "{}",
            "- a",
            " x",
            "\x7f",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10),
)
SCALARS = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
)


def values(scalars: st.SearchStrategy[Any] = SCALARS) -> st.SearchStrategy[Any]:
    """A value of a document: scalars in lists and tables."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    )


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Every path of a value, the root included."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*path, index))
    return found


@st.composite
def changes(draw: st.DrawFn, data: Any, scalars: st.SearchStrategy[Any] = SCALARS) -> Any:
    """One change that makes sense for the data."""
    known = paths(data)
    tables = [path for path in known if isinstance(_at(data, path), dict)]
    lists = [path for path in known if isinstance(_at(data, path), list)]
    kind = draw(st.sampled_from(["put", "new", "append", "drop", "move"]))
    if kind == "append" and lists:
        path = draw(st.sampled_from(lists))
        return Put((*path, len(_at(data, path))), draw(values(scalars)))
    if kind == "new" or len(known) == 1:
        path = (*draw(st.sampled_from(tables)), draw(KEYS), *draw(st.lists(KEYS, max_size=1)))
        return Put(path, draw(values(scalars)))
    path = draw(st.sampled_from(known[1:]))
    if kind == "drop":
        return Drop(path)
    if kind == "move":
        outside = [table for table in tables if table[: len(path)] != path]
        return Move(path, (*draw(st.sampled_from(outside)), draw(KEYS)))
    return Put(path, draw(values(scalars)))


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


@st.composite
def json_texts(draw: st.DrawFn, data: Any) -> str:
    """The data as JSON, in some layout."""
    indent = draw(st.sampled_from([None, 2, 4, "\t"]))
    text = json.dumps(data, indent=indent, ensure_ascii=draw(st.booleans()))
    return draw(_line_ends(text + draw(st.sampled_from(["", "\n"]))))


@st.composite
def yaml_texts(draw: st.DrawFn, data: Any) -> str:
    """The data as YAML, in some layout."""
    style = draw(st.sampled_from([False, None, True]))
    text = yaml.safe_dump(data, default_flow_style=style, sort_keys=False, width=60)
    if style is False and draw(st.booleans()):
        text = "# above\n" + text + "# below\n"
    return draw(_line_ends(text))


@st.composite
def toml_texts(draw: st.DrawFn, data: Any) -> str:
    """The data as TOML, in some layout."""
    text = tomlkit.dumps(data)
    if draw(st.booleans()):
        text = "# above\n" + text + "# below\n"
    return text


def _line_ends(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([text, text.replace("\n", "\r\n")])
