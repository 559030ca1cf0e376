"""Values as TOML text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvengine.document.changes import CannotEdit

__all__ = ["TomlDialect", "dotted_key", "inline", "section"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class TomlDialect:
    """TOML between brackets."""

    comment = "#"
    comma = ", "

    def key(self, name: str) -> str:
        """The key and its equals sign."""
        return dotted_key((name,)) + " = "

    def value(self, value: Any, indent: str | None, unit: str) -> str:
        """The value on one line."""
        return inline(value)


def dotted_key(names: tuple[str, ...]) -> str:
    """Keys joined by dots, each in quotes where it must be."""
    return ".".join(name if _BARE.fullmatch(name) else _text(name) for name in names)


def inline(value: Any, quote: str = "") -> str:
    """A value on one line; CannotEdit for null, which TOML does not have."""
    if value is None:
        raise CannotEdit((), "null cannot be written in TOML")
    if isinstance(value, Mapping):
        pairs = (f"{dotted_key((key,))} = {inline(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        literal = quote == "'" and "'" not in value and value.isprintable()
        return f"'{value}'" if literal else _text(value)
    return repr(value)


def section(names: tuple[str, ...], table: Mapping[str, Any], *, array: bool = False) -> list[str]:
    """The lines of a table under its header, with tables inside it under headers of their own."""
    inner = {key: item for key, item in table.items() if isinstance(item, dict) and item}
    own = [
        f"{dotted_key((key,))} = {inline(item)}" for key, item in table.items() if key not in inner
    ]
    header = dotted_key(names)
    lines = [f"[[{header}]]" if array else f"[{header}]", *own] if own or array or not inner else []
    for key, item in inner.items():
        lines += ["", *section((*names, key), item)] if lines else section((*names, key), item)
    return lines


def _text(value: str) -> str:
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
