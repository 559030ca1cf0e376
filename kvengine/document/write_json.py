"""Edits of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kvengine.document.draft import Splice, indent_of
from kvengine.document.flow import JsonDialect, insert, reindented, remove, unit_of
from kvengine.document.tree import Node, reach
from kvengine.errors import Path

__all__ = ["JsonWriter"]

_BLANKS = re.compile(r'"(?:[^"\\]|\\.)*"|(\s)')


def _dialect(body: str, tree: Node) -> JsonDialect:
    """Compact, if the text has several tokens and no blank between any of them."""
    blanks = any(match[1] for match in _BLANKS.finditer(body, tree.start, tree.end))
    return JsonDialect(compact=bool(tree.entries) and not blanks)


class JsonWriter:
    """Keys and values replaced, entries added at the end of their object or list."""

    def put(
        self, body: str, tree: Node, path: Path, value: Any, text: str | None
    ) -> Iterator[list[Splice]]:
        """Replace the value, or add the entry with what is missing around it."""
        way, rest = reach(tree, path)
        dialect = _dialect(body, tree)
        if not rest or (way and way[-1].node.kind == "scalar"):
            node = way[-1].node
            value, text = wrapped(rest, value), text if not rest else None
            spread = "\n" in body[tree.start : tree.end]
            indent = indent_of(body, way[-1].start) if spread else None
            shown = text or dialect.value(value, indent, unit_of(body))
            yield [Splice(node.start, node.end, shown)]
            return
        node = way[-1].node if way else tree
        name = rest[0] if isinstance(rest[0], str) else None
        if len(rest) == 1 and text is not None:
            entry_indent = indent_of(body, node.entries[-1].start) if node.entries else ""
            shown = reindented(text, entry_indent)
            yield insert(body, node, name, value, dialect, shown)
        yield insert(body, node, name, wrapped(rest[1:], value), dialect)

    def drop(self, body: str, tree: Node, path: Path) -> Iterator[list[Splice]]:
        """Take the entry out, with its comma."""
        way, _ = reach(tree, path)
        parent = way[-2].node if len(way) > 1 else tree
        yield remove(body, parent, way[-1], JsonDialect())

    def rename(self, body: str, tree: Node, path: Path, to: Path) -> Iterator[list[Splice]]:
        """Replace the key."""
        if path[:-1] == to[:-1] and isinstance(path[-1], str) and isinstance(to[-1], str):
            entry = reach(tree, path)[0][-1]
            yield [Splice(entry.start, entry.end, json.dumps(to[-1], ensure_ascii=False))]

    def source(self, body: str, tree: Node, path: Path) -> str | None:
        """The value as it is written, without the indentation of its lines."""
        entry = reach(tree, path)[0][-1]
        text = body[entry.node.start : entry.node.end]
        return reindented(text, "", indent_of(body, entry.start))


def wrapped(path: Path, value: Any) -> Any:
    """The value inside the tables that ``path`` leads through."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value
