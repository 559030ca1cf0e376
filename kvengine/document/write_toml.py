"""Edits of TOML: lines of sections, headers, and entries of inline tables and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from kvengine.document.changes import at, changed
from kvengine.document.draft import Splice, indent_of, line_start, newline_of, next_line
from kvengine.document.flow import insert, remove
from kvengine.document.render_toml import TomlDialect, dotted_key, inline, section
from kvengine.document.toml import Statement, load, scan
from kvengine.document.tree import Node, reach
from kvengine.document.write_json import wrapped
from kvengine.errors import Drop, Path, Put

__all__ = ["TomlWriter"]

_DIALECT = TomlDialect()


@frozen
class _Located:
    """A statement, the path that it defines, and the path of the section that it stands in.

    ``positions`` says for each part of the key which step of the path it is.
    """

    statement: Statement
    path: Path
    positions: tuple[int, ...]
    section: Path

    @property
    def is_header(self) -> bool:
        return self.statement.node is None

    def under(self, path: Path) -> bool:
        return self.path[: len(path)] == path


def _locate(body: str) -> list[_Located]:
    found: list[_Located] = []
    table: Path = ()
    counts: dict[Path, int] = {}
    for statement in scan(body):
        path: Path = () if statement.node is None else table
        positions: list[int] = []
        for number, key in enumerate(statement.keys, start=1):
            positions.append(len(path))
            path = (*path, key.name)
            if statement.kind == "array" and number == len(statement.keys):
                counts[path] = counts.get(path, -1) + 1
            if statement.node is None and path in counts:
                path = (*path, counts[path])
        if statement.node is None:
            table = path
        found.append(_Located(statement, path, tuple(positions), table))
    return found


class TomlWriter:
    """Edits that keep every statement which a change does not touch."""

    def put(
        self, body: str, tree: Node, path: Path, value: Any, text: str | None
    ) -> Iterator[list[Splice]]:
        """Replace the value, or add a line, a header or an inline entry."""
        lines = _locate(body)
        leaf = _leaf(lines, path)
        if leaf is not None:
            yield from _put_inside(body, leaf, path, value, text)
            return
        gone = [line for line in lines if line.under(path)]
        removal = _removal(body, lines, gone)
        kept = [line for line in lines if line not in gone]
        for added in _added(body, kept, path, value, text):
            yield [*removal, *added]

    def drop(self, body: str, tree: Node, path: Path) -> Iterator[list[Splice]]:
        """Take the line, the sections or the inline entry out."""
        lines = _locate(body)
        leaf = _leaf(lines, path)
        if leaf is not None and leaf.path != path:
            yield from _drop_inside(body, leaf, path)
            return
        gone = [line for line in lines if line.under(path)]
        removal = _removal(body, lines, gone)
        yield removal
        names = tuple(step for step in path[:-1] if isinstance(step, str))
        first = gone[0].statement
        if leaf is not None:
            keys = leaf.statement.keys
            yield (
                [Splice(keys[0].start, leaf.statement.end, _empty(body, leaf))] if keys[1:] else []
            )
        if isinstance(path[-1], int):
            kept = [line for line in lines if line not in gone]
            for added in _added(body, kept, path[:-1], [], None):
                yield [*removal, *added]
        elif names:
            start = line_start(body, first.start)
            header = f"[{dotted_key(names)}]{newline_of(body)}"
            yield [Splice(start, start, header), *removal]

    def rename(self, body: str, tree: Node, path: Path, to: Path) -> Iterator[list[Splice]]:
        """Replace the key wherever it is written, or the start of the headers that hold it."""
        lines = _locate(body)
        leaf = _leaf(lines, path)
        if not isinstance(path[-1], str) or not isinstance(to[-1], str):
            return
        if leaf is not None and leaf.path != path:
            assert leaf.statement.node is not None
            way, _ = reach(leaf.statement.node, path[len(leaf.path) :])
            if path[:-1] == to[:-1]:
                yield [Splice(way[-1].start, way[-1].end, dotted_key((to[-1],)))]
            return
        keys = [
            (line, key)
            for line in lines
            if line.under(path)
            for key, position in zip(line.statement.keys, line.positions, strict=True)
            if position == len(path) - 1
        ]
        if path[:-1] == to[:-1]:
            yield [Splice(key.start, key.end, dotted_key((to[-1],))) for _, key in keys]
        elif all(line.is_header for line, _ in keys):
            names = tuple(step for step in to if isinstance(step, str))
            if len(names) == len(to):
                yield [
                    Splice(line.statement.keys[0].start, key.end, dotted_key(names))
                    for line, key in keys
                ]

    def source(self, body: str, tree: Node, path: Path) -> str | None:
        """The value as written; None for a table under headers."""
        leaf = _leaf(_locate(body), path)
        if leaf is None:
            return None
        node = _node_inside(leaf, path)
        return body[node.start : node.end] if node is not None and node.start >= 0 else None


def _leaf(lines: list[_Located], path: Path) -> _Located | None:
    """The ``key = value`` line that holds ``path``."""
    for line in lines:
        if not line.is_header and path[: len(line.path)] == line.path:
            return line
    return None


def _node_inside(leaf: _Located, path: Path) -> Node | None:
    node = leaf.statement.node
    assert node is not None
    way, rest = reach(node, path[len(leaf.path) :])
    if rest:
        return None
    return way[-1].node if way else node


def _put_inside(
    body: str, leaf: _Located, path: Path, value: Any, text: str | None
) -> Iterator[list[Splice]]:
    node = leaf.statement.node
    assert node is not None
    way, rest = reach(node, path[len(leaf.path) :])
    target = way[-1].node if way else node
    if not rest and target.start >= 0:
        yield [Splice(target.start, target.end, text or inline(value, target.style))]
    elif rest and target.start >= 0 and target.kind != "scalar":
        name = rest[0] if isinstance(rest[0], str) else None
        shown = text if len(rest) == 1 else None
        yield insert(body, target, name, wrapped(rest[1:], value), _DIALECT, shown)
    yield from _rewritten(body, leaf, Put(path, value))


def _drop_inside(body: str, leaf: _Located, path: Path) -> Iterator[list[Splice]]:
    node = leaf.statement.node
    assert node is not None
    way, _ = reach(node, path[len(leaf.path) :])
    parent = way[-2].node if len(way) > 1 else node
    if parent.start >= 0 and way[-1].node.start >= 0:
        yield remove(body, parent, way[-1], _DIALECT)
    yield from _rewritten(body, leaf, Drop(path))


def _rewritten(body: str, leaf: _Located, change: Put | Drop) -> Iterator[list[Splice]]:
    """The whole value of a line written anew, where that loses no comment or line break."""
    node = leaf.statement.node
    assert node is not None
    if "\n" not in body[node.start : node.end]:
        value = at(changed(load(body), change), leaf.path)
        yield [Splice(node.start, node.end, inline(value))]


def _empty(body: str, leaf: _Located) -> str:
    """The line that keeps the table of a dotted key when its last entry goes."""
    keys = leaf.statement.keys
    return body[keys[0].start : keys[-2].end] + " = {}"


def _removal(body: str, lines: list[_Located], gone: list[_Located]) -> list[Splice]:
    """Splices that take out whole lines; what stands between two of them goes along."""
    splices: list[Splice] = []
    previous = -2
    for number, line in enumerate(lines):
        if line not in gone:
            continue
        start = line_start(body, line.statement.start)
        stop = next_line(body, line.statement.end)
        if previous == number - 1 and splices:
            splices[-1] = Splice(splices[-1].start, stop, "")
        else:
            splices.append(Splice(start, stop, ""))
        previous = number
    headers = any(line.is_header for line in gone)
    return [_with_blank_lines(body, splice) if headers else splice for splice in splices]


def _with_blank_lines(body: str, splice: Splice) -> Splice:
    """The splice, so that two runs of blank lines around it become one."""
    start, stop = splice.start, splice.end
    above = line_start(body, start - 1) if start else 0
    if start == 0 or not body[above:start].strip():
        while stop < len(body) and not body[stop : next_line(body, stop)].strip():
            stop = next_line(body, stop)
    if stop == len(body):
        while start and not body[line_start(body, start - 1) : start].strip():
            start = line_start(body, start - 1)
    return Splice(start, stop, "")


def _added(
    body: str, lines: list[_Located], path: Path, value: Any, text: str | None
) -> Iterator[list[Splice]]:
    """Ways to write a path that is not there yet, the nicest one first."""
    depth = max(
        (d for d in range(len(path)) if d == 0 or any(line.under(path[:d]) for line in lines)),
        default=0,
    )
    table, rest = path[:depth], path[depth:]
    names = tuple(step for step in table if isinstance(step, str))
    within = [line for line in lines if line.under(table)]
    if isinstance(rest[0], int):
        if isinstance(value, dict) or len(rest) > 1:
            made = section(names, wrapped(rest[1:], value), array=True)
            yield [_section_after(body, within, made)]
        return
    value = wrapped(rest[1:], value)
    text = text if len(rest) == 1 else None
    name = rest[0]
    if isinstance(value, dict) and value and text is None:
        yield [_section_after(body, within, section((*names, name), value))]
    shown = text or inline(value)
    home = [line for line in lines if line.section == table]
    if home or not table:
        yield [_line_after(body, lines, home, f"{dotted_key((name,))} = {shown}")]
    for line in reversed(within):
        if not line.is_header and len(line.section) < len(table):
            prefix = tuple(str(step) for step in table[len(line.section) :])
            key = dotted_key((*prefix, name))
            yield [_line_after(body, lines, [line], f"{key} = {shown}")]
            break
    if table and not home:
        header = f"[{dotted_key(names)}]"
        yield [_section_after(body, within, [header, f"{dotted_key((name,))} = {shown}"])]


def _section_after(body: str, within: list[_Located], made: list[str]) -> Splice:
    """A section below the last of the lines ``within`` (at the end of the file for none)."""
    newline = newline_of(body)
    stop = next_line(body, within[-1].statement.end) if within else len(body)
    parting = newline if stop and body[stop - 1] != "\n" else ""
    if body[:stop].strip() and not body[:stop].endswith(("\n\n", "\n\r\n")):
        parting += newline
    closing = newline if body[stop:].strip() and body[stop] not in "\r\n" else ""
    return Splice(stop, stop, parting + newline.join(made) + newline + closing)


def _line_after(body: str, lines: list[_Located], home: list[_Located], line: str) -> Splice:
    """A line below the last line of its section, or above the first header."""
    newline = newline_of(body)
    if home:
        last = home[-1]
        indent = indent_of(body, last.statement.start)
        stop = next_line(body, last.statement.end)
        if body[stop - 1] != "\n":
            return Splice(stop, stop, newline + indent + line)
        return Splice(stop, stop, indent + line + newline)
    if not lines:
        parting = "" if not body or body.endswith("\n") else newline
        return Splice(len(body), len(body), parting + line + newline)
    header = line_start(body, lines[0].statement.start)
    top = header
    while top and body[line_start(body, top - 1) : top].lstrip().startswith("#"):
        top = line_start(body, top - 1)
    top = top or header
    return Splice(top, top, line + newline + newline)
