"""TOML: values by tomli, places by a scanner that trusts what tomli has accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from kvengine.document.depth import MAX_DIGITS, check_brackets, too_deep, too_long
from kvengine.document.text import MAX_DEPTH, Fault
from kvengine.document.tree import Entry, Node
from kvengine.errors import show

__all__ = ["Key", "Statement", "load", "scan", "scan_tree"]

_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_STRINGS = (
    ('"""', re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)),
    ("'''", re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}")),
    ('"', re.compile(r'"(?:[^"\\\n]|\\.)*"')),
    ("'", re.compile(r"'[^'\n]*'")),
)
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_PLAIN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+[^\s,\]}#]*|[^\s,\]}#]+")
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*(?:"{3,5})?'
    r"|'''(?:[^']|'{1,2}(?!'))*(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*|[\[\]{}=,.\n]",
    re.DOTALL,
)
_DATE_LIKE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}")
_MANY_DIGITS = re.compile(rf"[0-9][0-9_]{{{MAX_DIGITS},}}")
_TWICE = ("duplicate", "overwrite", "twice", "mutate", "redefine")


@frozen
class Key:
    """One part of a dotted key: its text, and the characters that write it."""

    name: str
    start: int
    end: int


@frozen
class Statement:
    """A statement of a TOML file: ``[header]``, ``[[header]]`` or ``key = value``."""

    kind: str  # "table", "array", "pair"
    keys: tuple[Key, ...]
    start: int
    end: int
    node: Node | None = None


def load(body: str) -> Any:
    """The table that ``body`` writes, dates as their text; a Fault where it is not TOML."""
    import tomli

    check_brackets(body, _TOKEN)
    _check_dots(body)
    try:
        data = tomli.loads(body)
    except tomli.TOMLDecodeError as error:
        raise _fault(body, error) from None
    except ValueError:
        digits = _MANY_DIGITS.search(body)
        raise too_long(*digits.span() if digits else (0, 1)) from None
    if _DATE_LIKE.search(body):
        _write_dates(body, data, scan_tree(body))
    return data


def _check_dots(body: str) -> None:
    """Refuse dotted keys of too many parts: they nest as well."""
    if body.count(".") <= MAX_DEPTH:
        return
    dots = 0
    for match in _TOKEN.finditer(body):
        first = body[match.start()]
        if first == ".":
            dots += 1
            if dots > MAX_DEPTH:
                raise too_deep(match.start())
        elif first in "=\n,{}":
            dots = 0


def _fault(body: str, error: Any) -> Fault:
    text = str(error)
    message = text.rpartition(" (at ")[0] or text
    if any(word in message.lower() for word in _TWICE):
        try:
            scan_tree(body)
        except Fault as twice:
            if twice.code == "duplicate-key":
                return twice
    at = len(body)
    line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
    if line is not None and column is not None:
        starts = [0] + [match.end() for match in re.finditer("\n", body)]
        at = min(starts[line - 1] + column - 1, len(body))
    return Fault("syntax", f"is not TOML: {message[:1].lower()}{message[1:]}", at)


def _write_dates(body: str, value: Any, node: Node) -> None:
    for entry in node.entries:
        item = value[entry.key]
        if isinstance(item, (dict, list)):
            _write_dates(body, item, entry.node)
        elif not isinstance(item, (str, int, float, bool)):
            value[entry.key] = body[entry.node.start : entry.node.end]


def scan(body: str) -> Iterator[Statement]:
    """The statements of a TOML text that tomli accepts, in order."""
    at = _skip(body, 0)
    while at < len(body):
        if body[at] == "[":
            width = 2 if body.startswith("[[", at) else 1
            keys, end = _keys(body, at + width)
            end = _blank(body, end) + width
            yield Statement("array" if width == 2 else "table", keys, at, end)
        else:
            keys, end = _keys(body, at)
            node = _value(body, _blank(body, end + 1))
            end = node.end
            yield Statement("pair", keys, at, end, node)
        at = _skip(body, end)


def _skip(body: str, at: int) -> int:
    match = _GAP.match(body, at)
    assert match is not None
    return match.end()


def _blank(body: str, at: int) -> int:
    match = _BLANK.match(body, at)
    assert match is not None
    return match.end()


def _keys(body: str, at: int) -> tuple[tuple[Key, ...], int]:
    """The parts of a dotted key, and where the text goes on behind blanks."""
    keys: list[Key] = []
    while True:
        match = _KEY.match(body, _blank(body, at))
        if match is None:
            raise Fault("syntax", "is not TOML: no key here", at)
        keys.append(Key(_key_name(match[0]), match.start(), match.end()))
        at = _blank(body, match.end())
        if body[at : at + 1] != ".":
            return tuple(keys), at
        at += 1


def _key_name(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    if text[0] == '"':
        import tomli

        return str(next(iter(tomli.loads(f"{text} = 0"))))
    return text


def _value(body: str, at: int) -> Node:
    if body.startswith("[", at):
        return _array(body, at)
    if body.startswith("{", at):
        return _inline_table(body, at)
    for quote, pattern in _STRINGS:
        if body.startswith(quote, at):
            match = pattern.match(body, at)
            if match is not None:
                return Node("scalar", at, match.end(), quote)
    match = _PLAIN.match(body, at)
    if match is None:
        raise Fault("syntax", "is not TOML: no value here", at)
    return Node("scalar", at, match.end(), "")


def _array(body: str, start: int) -> Node:
    node = Node("list", start, start, "flow")
    at = _skip(body, start + 1)
    while body[at : at + 1] != "]":
        child = _value(body, at)
        node.add(Entry(len(node.entries), child.start, child.end, child))
        at = _skip(body, child.end)
        if body[at : at + 1] == ",":
            at = _skip(body, at + 1)
    node.end = at + 1
    return node


def _inline_table(body: str, start: int) -> Node:
    node = Node("map", start, start, "flow")
    at = _skip(body, start + 1)
    while body[at : at + 1] != "}":
        keys, end = _keys(body, at)
        child = _value(body, _skip(body, end + 1))
        _insert(node, keys, child)
        at = _skip(body, child.end)
        if body[at : at + 1] == ",":
            at = _skip(body, at + 1)
    node.end = at + 1
    return node


def scan_tree(body: str) -> Node:
    """The statements of a TOML text gathered into one tree; a Fault where a key comes twice."""
    root = Node("map", 0, len(body), "tables")
    table = root
    for statement in scan(body):
        if statement.node is not None:
            _insert(table, statement.keys, statement.node)
        else:
            table = _open(root, statement)
    return root


def _insert(table: Node, keys: tuple[Key, ...], child: Node) -> None:
    for key in keys[:-1]:
        table = _descend(table, key)
    last = keys[-1]
    if table.entry(last.name) is not None:
        raise _twice(last)
    table.add(Entry(last.name, last.start, last.end, child))


def _descend(table: Node, key: Key) -> Node:
    """The table at ``key``, made when it is new; of an array of tables the last."""
    entry = table.entry(key.name)
    if entry is None:
        made = Node("map", -1, -1, "tables")
        table.add(Entry(key.name, key.start, key.end, made))
        return made
    if entry.node.style != "tables":
        raise _twice(key)
    return entry.node.entries[-1].node if entry.node.kind == "list" else entry.node


def _open(root: Node, header: Statement) -> Node:
    """The table that a header opens."""
    table = root
    for key in header.keys[:-1]:
        table = _descend(table, key)
    last = header.keys[-1]
    entry = table.entry(last.name)
    if header.kind == "array":
        if entry is None:
            items = Node("list", header.start, header.end, "tables")
            entry = Entry(last.name, last.start, last.end, items)
            table.add(entry)
        elif entry.node.kind != "list" or entry.node.style != "tables":
            raise _twice(last)
        made = Node("map", header.start, header.end, "tables")
        entry.node.add(Entry(len(entry.node.entries), last.start, last.end, made))
        return made
    made = _descend(table, last)
    entry = table.entry(last.name)
    assert entry is not None
    if made.start >= 0 or entry.node.kind == "list":
        raise _twice(last)
    made.start, made.end = header.start, header.end
    entry.start, entry.end = last.start, last.end
    return made


def _twice(key: Key) -> Fault:
    return Fault("duplicate-key", f"gives the key {show(key.name)} twice", key.start, key.end)
