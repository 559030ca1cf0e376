"""Values as YAML text, spelled so that YAML 1.1 and 1.2 read them alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

__all__ = ["YamlDialect", "block", "inline", "scalar"]

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@-]*(?: [A-Za-z0-9_./+@-]+)*")
_READ_OTHERWISE = re.compile(r"(?i:true|false|null|yes|no|on|off|y|n|nan|inf)")
_SPECIAL = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


@frozen
class YamlDialect:
    """YAML between brackets; ``quoted`` writes every text in double quotes, as JSON does."""

    quoted: bool = False
    comment: str = "#"
    comma: str = ", "

    def key(self, name: str) -> str:
        """The key and its colon."""
        return scalar(name, '"' if self.quoted else "") + ": "

    def value(self, value: Any, indent: str | None, unit: str) -> str:
        """The value on one line."""
        return inline(value, '"' if self.quoted else "")


def inline(value: Any, quote: str = "") -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{scalar(key, quote)}: {inline(item, quote)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item, quote) for item in value) + "]"
    return scalar(value, quote)


def block(value: Any, unit: str) -> list[str]:
    """The lines of a table or list that is not empty, without indentation of its own."""
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            first, *rest = block(item, unit) if _spreads(item) else [inline(item)]
            lines += ["- " + first, *("  " + line for line in rest)]
        return lines
    for key, item in value.items():
        if _spreads(item):
            lines += [scalar(key) + ":", *(unit + line for line in block(item, unit))]
        else:
            lines.append(f"{scalar(key)}: {inline(item)}")
    return lines


def _spreads(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, (dict, list)) and item for item in value)
    return isinstance(value, dict) and bool(value)


def scalar(value: bool | int | float | str | None, quote: str = "") -> str:
    """A value that holds no others; text plain where that is safe, else in quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, int):
        return str(value)
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not quote and _PLAIN.fullmatch(value) and not _READ_OTHERWISE.fullmatch(value):
        return value
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(char: str) -> str:
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
