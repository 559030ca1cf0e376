"""Edits inside braces and brackets: JSON, YAML flow collections, TOML arrays and inline tables."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from attrs import frozen

from kvengine.document.changes import CannotEdit
from kvengine.document.draft import Splice, indent_of, line_end, line_start, newline_of, next_line
from kvengine.document.tree import Entry, Node

__all__ = ["Dialect", "JsonDialect", "insert", "last_end", "reindented", "remove", "unit_of"]

_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class Dialect(Protocol):
    """How one form writes keys and values between brackets."""

    @property
    def comment(self) -> str:
        """What starts a comment, or nothing."""

    @property
    def comma(self) -> str:
        """What parts two entries on one line."""

    def key(self, name: str) -> str:
        """The key with what parts it from its value: ``"name": ``."""

    def value(self, value: Any, indent: str | None, unit: str) -> str:
        """A value on one line, or with ``indent`` given, where its first line is indented so."""


@frozen
class JsonDialect:
    """JSON: several lines when the place has several lines; ``compact`` without any blanks."""

    compact: bool = False
    comment: str = ""

    @property
    def comma(self) -> str:
        """What parts two entries on one line."""
        return "," if self.compact else ", "

    def key(self, name: str) -> str:
        """The quoted key and its colon."""
        return json.dumps(name, ensure_ascii=False) + (":" if self.compact else ": ")

    def value(self, value: Any, indent: str | None, unit: str) -> str:
        """The value as JSON."""
        if indent is None:
            colon = ":" if self.compact else ": "
            return json.dumps(value, ensure_ascii=False, separators=(self.comma, colon))
        text = json.dumps(value, ensure_ascii=False, indent=unit)
        return text.replace("\n", "\n" + indent)


def unit_of(body: str) -> str:
    """The blanks of one level of indentation, as the text uses them."""
    match = _INDENT.search(body)
    return match[1] if match and len(match[1]) <= 8 else "  "


def reindented(text: str, indent: str, old: str = "") -> str:
    """The text with ``indent`` in place of ``old`` before every line but the first."""
    first, *rest = text.split("\n")
    moved = [indent + line.removeprefix(old) if line.strip() else line for line in rest]
    return "\n".join([first, *moved])


def insert(
    body: str, node: Node, name: str | None, value: Any, dialect: Dialect, text: str | None = None
) -> list[Splice]:
    """Splices that add an entry at the end of a flow collection; ``text`` is its value as is."""
    key = "" if name is None else dialect.key(name)
    entries = [entry for entry in node.entries if entry.shared != "merge"]
    newline, unit = newline_of(body), unit_of(body)
    if body[node.content_start : node.content_start + 1] not in ("{", "["):
        raise CannotEdit((), "its table is written without brackets")
    if not entries:
        indent = indent_of(body, node.start)
        spread = isinstance(dialect, JsonDialect) and "\n" in body
        inner = indent + unit if spread else None
        shown = text if text is not None else dialect.value(value, inner, unit)
        if body[node.content_start + 1 : node.end - 1].strip():
            raise CannotEdit((), "a comment stands inside the empty brackets")
        opening, closing = body[node.content_start], body[node.end - 1]
        if spread:
            filled = f"{opening}{newline}{inner}{key}{shown}{newline}{indent}{closing}"
        else:
            filled = f"{opening}{key}{shown}{closing}"
        return [Splice(node.content_start, node.end, _lines(filled, newline))]
    last = entries[-1]
    end = last_end(last)
    own_line = _starts_line(body, last)
    inner = indent_of(body, last.start) if own_line else None
    shown = text if text is not None else dialect.value(value, inner, unit)
    added = _lines(key + shown, newline)
    comma = _comma(body, end, dialect)
    if not own_line:
        if comma >= 0:
            return [Splice(comma + 1, comma + 1, dialect.comma[1:] + added)]
        return [Splice(end, end, dialect.comma + added)]
    stop = line_end(body, end if comma < 0 else comma)
    rest = body[(end if comma < 0 else comma + 1) : stop].strip()
    if rest and not (dialect.comment and rest.startswith(dialect.comment)):
        stop = end if comma < 0 else comma + 1
    line = f"{newline}{inner}{added}"
    if comma >= 0:
        return [Splice(stop, stop, line + ",")]
    return [Splice(end, end, ","), Splice(stop, stop, line)]


def _lines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


def remove(body: str, node: Node, entry: Entry, dialect: Dialect) -> list[Splice]:
    """Splices that take an entry out of a flow collection, with its comma and comment."""
    entries = [entry for entry in node.entries if entry.shared != "merge"]
    index = next(i for i, one in enumerate(entries) if one is entry)
    end = last_end(entry)
    comma = _comma(body, end, dialect)
    if len(entries) == 1:
        inside = (
            body[node.content_start + 1 : entry.start] + body[max(end, comma + 1) : node.end - 1]
        )
        if not inside.strip():
            return [Splice(node.content_start + 1, node.end - 1, "")]
    before = entries[index - 1] if index else None
    after = entries[index + 1] if index + 1 < len(entries) else None
    if after is not None and line_end(body, end) > after.start:
        return [Splice(entry.start, after.start, "")]
    if _starts_line(body, entry):
        stop = max(end, comma + 1)
        rest = body[stop : line_end(body, stop)].strip()
        closing = rest[:1] in ("]", "}")
        last = next_line(body, stop) if not closing else stop
        splices = [Splice(line_start(body, entry.start), last, "")]
        if before is not None and after is None and comma < 0:
            parting = _comma(body, last_end(before), dialect)
            splices.append(Splice(parting, parting + 1, ""))
        return splices
    if before is None:
        return [Splice(entry.start, entry.start if after is None else after.start, "")]
    return [Splice(last_end(before), end, "")]


def last_end(entry: Entry) -> int:
    """The end of an entry with its value, which an alias writes elsewhere."""
    if entry.shared:
        return entry.written_end
    return max(entry.end, entry.node.end)


def _starts_line(body: str, entry: Entry) -> bool:
    return not body[line_start(body, entry.start) : entry.start].strip()


def _comma(body: str, at: int, dialect: Dialect) -> int:
    """The comma that follows ``at`` behind white space and comments, or -1."""
    while at < len(body):
        if body[at] == ",":
            return at
        if dialect.comment and body.startswith(dialect.comment, at):
            at = line_end(body, at)
        elif body[at] in " \t\r\n":
            at += 1
        else:
            break
    return -1
