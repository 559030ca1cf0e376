"""Edits of YAML: lines in block style, entries between brackets in flow style."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvengine.document.changes import CannotEdit
from kvengine.document.draft import Splice, line_end, line_start, newline_of, next_line
from kvengine.document.flow import insert, last_end, remove, unit_of
from kvengine.document.render_yaml import YamlDialect, block, inline, scalar
from kvengine.document.tree import Entry, Node, reach
from kvengine.document.write_json import wrapped
from kvengine.errors import Path

__all__ = ["YamlWriter"]


class YamlWriter:
    """Edits that leave anchors, aliases and merged keys to the person who wrote them."""

    def put(
        self, body: str, tree: Node, path: Path, value: Any, text: str | None
    ) -> Iterator[list[Splice]]:
        """Replace the value, or add a line or a flow entry with what is missing around it."""
        way, rest = reach(tree, path)
        _refuse_shared(way[:-1] if not rest else way, path)
        if not rest and way[-1].shared == "merge":
            way, rest = way[:-1], path[-1:]
        if not rest or (way and way[-1].node.kind == "scalar"):
            parent = way[-2].node if len(way) > 1 else tree
            shown = text if not rest and text and not text.startswith("\n") else None
            yield from _replace(body, parent, way[-1], wrapped(rest, value), shown)
            _refuse_anchored(body, way, path)
            return
        node = way[-1].node if way else tree
        name = rest[0] if isinstance(rest[0], str) else None
        value = wrapped(rest[1:], value)
        text = text if len(rest) == 1 else None
        if node.style == "flow":
            if text is not None and "\n" not in text:
                yield insert(body, node, name, value, _dialect(body, node), text)
            yield insert(body, node, name, value, _dialect(body, node))
        else:
            yield _add_lines(body, node, name, value, text)
        _refuse_anchored(body, way, path)

    def drop(self, body: str, tree: Node, path: Path) -> Iterator[list[Splice]]:
        """Take out the lines or the flow entry."""
        way, _ = reach(tree, path)
        _refuse_shared(way[:-1], path)
        entry = way[-1]
        if entry.shared == "merge":
            raise CannotEdit(path, "is merged in from another mapping")
        parent = way[-2].node if len(way) > 1 else tree
        if parent.style == "flow":
            yield remove(body, parent, entry, YamlDialect())
        elif len(parent.entries) > 1:
            yield _drop_lines(body, parent, entry)
        else:
            empty = "{}" if parent.kind == "map" else "[]"
            if len(way) > 1:
                above = way[-3].node if len(way) > 2 else tree
                yield from _replace(body, above, way[-2], None, empty)
            else:
                yield [Splice(parent.content_start, parent.end, empty)]
            yield _drop_lines(body, parent, entry)
        _refuse_anchored(body, way, path)

    def rename(self, body: str, tree: Node, path: Path, to: Path) -> Iterator[list[Splice]]:
        """Replace the key."""
        way, _ = reach(tree, path)
        if path[:-1] != to[:-1] or any(entry.shared for entry in way[:-1]):
            return
        entry = way[-1]
        if entry.shared == "merge" or not isinstance(to[-1], str) or isinstance(path[-1], int):
            return
        quote = body[entry.start]
        for style in (quote if quote in "\"'" else "", '"'):
            yield [Splice(entry.start, entry.end, scalar(to[-1], style))]

    def source(self, body: str, tree: Node, path: Path) -> str | None:
        """The value as written; block style as lines, behind a line break."""
        way, _ = reach(tree, path)
        entry = way[-1]
        if any(entry.shared for entry in way) or entry.node.start == entry.node.end:
            return None
        text = body[entry.node.start : entry.node.end]
        if entry.node.style != "block":
            return text if "\n" not in text else None
        if entry.node.content_start > entry.node.start:
            return None
        column = _column(body, entry.node.start)
        lines = (" " * column + text).split("\n")
        if any(line[:column].strip() for line in lines):
            return None
        return "\n" + "\n".join(line[column:].rstrip("\r") for line in lines)


def _refuse_shared(way: list[Entry], path: Path) -> None:
    if any(entry.shared for entry in way):
        raise CannotEdit(path, "is written elsewhere and comes in by a YAML alias or merge")


def _refuse_anchored(body: str, way: list[Entry], path: Path) -> None:
    """Say why nothing worked, when the place has an anchor that others refer to."""
    if any("&" in body[entry.node.start : entry.node.content_start] for entry in way):
        raise CannotEdit(path, "has a YAML anchor, by which other places share it")


def _dialect(body: str, node: Node) -> YamlDialect:
    quoted = node.entries and node.kind == "map" and body[node.entries[0].start] == '"'
    return YamlDialect(quoted=bool(quoted))


def _column(body: str, at: int) -> int:
    return at - line_start(body, at)


def _own(node: Node) -> list[Entry]:
    return [entry for entry in node.entries if entry.shared != "merge"]


def _value_range(body: str, entry: Entry) -> tuple[int, int]:
    if entry.shared == "alias":
        return body.rindex("*", 0, entry.written_end), entry.written_end
    return entry.node.start, entry.node.end


def _replace(
    body: str, parent: Node, entry: Entry, value: Any, text: str | None
) -> Iterator[list[Splice]]:
    """Put another value in the place of the one that stands there."""
    start, end = _value_range(body, entry)
    quote = entry.node.style if entry.node.style in ('"', "'") else ""
    if parent.style == "flow":
        dialect = _dialect(body, parent)
        shown = text or inline(value, quote or ('"' if dialect.quoted else ""))
        space = " " if start == end and body[start - 1] == ":" else ""
        yield [Splice(start, end, space + shown)]
        return
    spread = isinstance(value, (dict, list)) and bool(value) and entry.node.style != "flow"
    if spread and text is None:
        yield _replace_by_block(body, entry, value, start, end)
    shown = text or inline(value, quote)
    anchor = body.index(":", entry.end) + 1 if parent.kind == "map" else start
    if line_end(body, anchor) >= start:
        space = " " if body[start - 1] in ":-" else ""
        yield [Splice(start, end, space + shown)]
        return
    yield [
        Splice(anchor, anchor, " " + shown),
        Splice(line_start(body, start), next_line(body, end), ""),
    ]


def _replace_by_block(body: str, entry: Entry, value: Any, start: int, end: int) -> list[Splice]:
    newline, unit = newline_of(body), unit_of(body)
    if isinstance(entry.key, int):
        lines = block(value, unit)
        space = " " if body[start - 1] == "-" else ""
        indent = " " * (_column(body, start) + len(space))
        return [Splice(start, end, space + (newline + indent).join(lines))]
    colon = body.index(":", entry.end) + 1
    indent = " " * _column(body, entry.start) + unit
    lines = [indent + line for line in block(value, unit)]
    if line_end(body, colon) >= start:
        return [Splice(colon, end, newline + newline.join(lines))]
    return [Splice(line_start(body, start), end, newline.join(lines))]


def _add_lines(
    body: str, node: Node, name: str | None, value: Any, text: str | None
) -> list[Splice]:
    """A new entry below the last one of a block collection."""
    newline, unit = newline_of(body), unit_of(body)
    indent = " " * _column(body, node.content_start)
    stop = _below(body, node)
    shown = text if text is not None else inline(value)
    lines = text[1:].split("\n") if text and text.startswith("\n") else None
    if text is None and isinstance(value, (dict, list)) and value:
        lines = block(value, unit)
    if name is None:
        first, *rest = lines or [shown]
        lines = ["- " + first, *("  " + line for line in rest)]
    elif lines:
        lines = [scalar(name) + ":", *(unit + line if line else line for line in lines)]
    else:
        lines = [f"{scalar(name)}: {shown}"]
    added = newline.join(indent + line if line else line for line in lines)
    if stop and body[stop - 1] == "\n":
        return [Splice(stop, stop, added + newline)]
    return [Splice(stop, stop, newline + added)]


def _below(body: str, node: Node) -> int:
    """Where a line below a block collection starts; the end of the file may lack a break."""
    return next_line(body, _kept_end(body, node, node.end))


def _kept_end(body: str, node: Node, end: int) -> int:
    """``end``, behind the blank lines that a block scalar such as ``|+`` keeps."""
    last = node
    while last.entries:
        last = max(_own(last) or last.entries, key=last_end).node
        if last.end > end:
            return end
    header = body[last.content_start : line_end(body, last.content_start)] if last.style else ""
    if last.style in ("|", ">") and "+" in header.partition("#")[0]:
        while body[next_line(body, end) : line_end(body, next_line(body, end))].strip() == "":
            if next_line(body, end) == len(body):
                break
            end = next_line(body, end)
    return end


def _drop_lines(body: str, parent: Node, entry: Entry) -> list[Splice]:
    start = entry.start
    if parent.kind == "list":
        start = len(body[:start].rstrip()) - 1
        if body[start] != "-" or start < parent.start:
            raise CannotEdit((), "a comment stands between the dash and its item")
    end = _kept_end(body, entry.node, last_end(entry))
    if not body[line_start(body, start) : start].strip():
        return [Splice(line_start(body, start), next_line(body, end), "")]
    own = _own(parent)
    index = next(number for number, one in enumerate(own) if one is entry)
    if index + 1 < len(own) and "#" not in body[end : own[index + 1].start]:
        following = own[index + 1].start
        if parent.kind == "list":
            following = len(body[:following].rstrip()) - 1
        return [Splice(start, following, "")]
    return [Splice(start, line_end(body, end), "")]
