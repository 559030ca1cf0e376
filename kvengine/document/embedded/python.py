"""Python programs: calls and tables with literal values; nothing is run or imported."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from typing import Any, Literal, TypeGuard

from attrs import define, field

from kvengine.document.embedded.reading import Reading
from kvengine.document.embedded.scope import TRIGGER, Collector, Scope, looks_like_config
from kvengine.document.embedded.strand import Hole, Strand
from kvengine.document.embedded.sums import parsed, whole_number
from kvengine.document.tree import Entry, Node
from kvengine.errors import Path

__all__ = ["add_python"]

_CONFIG = "kv_transfer_config"
_CLASS = "KVTransferConfig"
_MAX_DEPTH = 90


def add_python(source: Strand, scope: Scope, collector: Collector) -> None:
    """Keep every transfer config that a Python program writes out as literals."""
    tree = parsed(source.text, "exec")
    if tree is not None:
        with contextlib.suppress(RecursionError):
            _Program(source, scope, collector).visit(tree)


class _Program(ast.NodeVisitor):
    def __init__(self, source: Strand, scope: Scope, collector: Collector) -> None:
        self.source = source
        self.scope = scope
        self.collector = collector
        self.line_starts = [0]
        for line in source.text.split("\n"):
            self.line_starts.append(self.line_starts[-1] + len(line) + 1)
        self.lines = source.text.split("\n")

    def span(self, node: Any) -> tuple[int, int]:
        """The characters of a syntax node."""
        return self._offset(node.lineno, node.col_offset), self._offset(
            node.end_lineno, node.end_col_offset
        )

    def _offset(self, line: int, column: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if not text.isascii():
            column = len(text.encode()[:column].decode(errors="ignore"))
        return min(self.line_starts[line - 1] + column, len(self.source.text))

    def visit_Call(self, node: ast.Call) -> None:
        """A call with ``kv_transfer_config=...``, or of ``KVTransferConfig`` itself."""
        name = _name(node.func)
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if name == _CLASS and "kv_connector" in given:
            self._keep(node, {})
            return
        if name == "from_cli" and node.args:
            self._keep(node.args[0], {})
            return
        self._options(given)
        rest = [*node.args, *(value for key, value in given.items() if key != _CONFIG)]
        for child in [node.func, *rest]:
            self.visit(child)

    def visit_Dict(self, node: ast.Dict) -> None:
        """A table with a key ``kv_transfer_config``, or a config itself."""
        pairs = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        if "kv_connector" in pairs:
            self._keep(node, {})
            return
        self._options(pairs)
        for key, value in pairs.items():
            if key.replace("-", "_") != _CONFIG:
                self.visit(value)

    def visit_List(self, node: ast.List) -> None:
        """The words of a command, as ``subprocess`` takes them."""
        words = [item for item in node.elts if _is_text(item)]
        if any(TRIGGER.search(str(word.value)) for word in words):
            strands = [self._text(word) for word in words]
            if self.collector.add_command(strands, self.scope):
                return
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A JSON text that is a config."""
        if isinstance(node.value, str) and looks_like_config(node.value):
            self.collector.add_object(self._text(node), self.scope, weak=True)

    def _options(self, given: dict[str, ast.expr]) -> None:
        names = {key.replace("-", "_"): key for key in given}
        if _CONFIG not in names and "kv_offloading_size" not in names:
            return
        flags: dict[str, str | Literal[True]] = {}
        for name, key in names.items():
            value = given[key]
            if isinstance(value, ast.Constant) and value.value not in (None, False):
                flags["--" + name.replace("_", "-")] = (
                    True if value.value is True else str(value.value)
                )
        self._keep(given[names[_CONFIG]] if _CONFIG in names else None, flags)

    def _keep(self, node: ast.expr | None, flags: dict[str, str | Literal[True]]) -> None:
        if isinstance(node, ast.Call) and _name(node.func) == "dumps" and node.args:
            node = node.args[0]
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            self.collector.add_table(Reading(self.source), self.scope, flags, {"": (0, 1)})
        elif _is_text(node):
            self.collector.add_object(self._text(node), self.scope, flags=flags)
        elif isinstance(node, (ast.Dict, ast.Call)):
            literal = _Literals(self)
            data, tree = literal.made(node, (), 0)
            if not isinstance(data, dict):
                return
            reading = Reading(self.source, data, tree)
            for path, hole in literal.unknown:
                reading.hole(self.source, path, hole)
            span = self.source.range(tree.start, tree.end)
            self.collector.add_table(reading, self.scope, flags, {"": span})

    def _text(self, node: Any) -> Strand:
        """The text of a literal, character by character where it is written plainly."""
        start, end = self.span(node)
        written = self.source.text[start:end]
        value = str(node.value)
        for quote in ('"""', "'''", '"', "'"):
            inside = written[len(quote) : -len(quote)]
            if written == quote + value + quote and "\\" not in inside:
                plain = self.source.cut(start + len(quote), end - len(quote))
                return plain.within("py" + quote[0])
        return Strand.written(value, self.source, start, end)


@define(eq=False)
class _Literals:
    """Literal values with their places; what is no literal is not known."""

    program: _Program
    unknown: list[tuple[Path, Hole]] = field(factory=list)

    def made(self, node: ast.expr, path: Path, depth: int) -> tuple[Any, Node]:
        """The value of an expression and where it stands."""
        start, end = self.program.span(node)
        if depth < _MAX_DEPTH and isinstance(node, (ast.Dict, ast.Call)):
            pairs = list(_pairs(node))
            if pairs or isinstance(node, ast.Dict):
                return self._table(pairs, Node("map", start, end, "flow"), path, depth)
        if depth < _MAX_DEPTH and isinstance(node, (ast.List, ast.Tuple)):
            tree = Node("list", start, end, "flow")
            items: list[Any] = []
            for item in node.elts:
                value, child = self.made(item, (*path, len(items)), depth + 1)
                tree.add(Entry(len(items), child.start, child.end, child))
                items.append(value)
            return items, tree
        scalar = Node("scalar", start, end, "")
        if isinstance(node, ast.Constant) and isinstance(
            node.value, (str, int, float, bool, type(None))
        ):
            return node.value, scalar
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = getattr(node.operand, "value", None)
            if isinstance(value, (int, float)):
                return -value, scalar
        with contextlib.suppress(ValueError, RecursionError):
            return whole_number(node, _no_name), scalar
        written = self.program.source.text[start:end]
        self.unknown.append((path, Hole(start, end, f"`{written[:60]}`")))
        return written, scalar

    def _table(
        self, pairs: list[tuple[str, Any, ast.expr]], tree: Node, path: Path, depth: int
    ) -> tuple[Any, Node]:
        table: dict[str, Any] = {}
        for key, at, item in pairs:
            value, child = self.made(item, (*path, key), depth + 1)
            start, end = self.program.span(at)
            if isinstance(at, ast.keyword):
                end = start + len(key)
            tree.add(Entry(key, start, end, child))
            table[key] = value
        return table, tree


def _pairs(node: ast.expr) -> Iterator[tuple[str, Any, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, key, value
    elif isinstance(node, ast.Call) and _name(node.func) in (_CLASS, "dict"):
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield keyword.arg, keyword, keyword.value


def _no_name(name: str) -> int:
    raise ValueError(name)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(node: Any) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
