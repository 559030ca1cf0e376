"""The line that a problem is about, with a mark under the key."""

from __future__ import annotations

import unicodedata

from kvengine.document.document import Document
from kvengine.errors import Place, masked

__all__ = ["excerpt"]

_WIDTH = 96
"""Characters of a line that are shown at most."""

_WITH_SECRETS = 4096
"""Characters on both sides of what is shown that may tell a secret in it."""

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def excerpt(document: Document, place: Place) -> str:
    """The source line of ``place`` and, below it, carets under the range.

    A long line is cut to a window around the mark, tabs stay tabs on both lines, secrets are
    starred, and characters that could steer a terminal are shown as symbols::

          7 | host_blocks = 64
            | ^^^^^^^^^^^
    """
    text = document.text
    line_start = text.line_start(place.line)
    line_end = text.body.find("\n", line_start)
    line = text.body[line_start : len(text.body) if line_end < 0 else line_end].rstrip("\r")
    start = min(place.column - 1, len(line))
    end = min(max(text.character(place.end) - line_start, start + 1), max(len(line), start + 1))
    first = max(0, min(start - _WIDTH // 4, len(line) - _WIDTH))
    last = min(len(line), first + _WIDTH)
    head, tail = "…" if first else "", "…" if last < len(line) else ""
    around = max(0, first - _WITH_SECRETS)
    safe = masked(line[around : last + _WITH_SECRETS])[first - around : last - around]
    shown = "".join(map(_visible, safe))
    indent = " " * len(head) + "".join(
        "\t" if char == "\t" else " " * _columns(char) for char in line[first:start]
    )
    marked = sum(map(_columns, line[start : min(end, last)]))
    number = f"{place.line:>4}"
    return f"{number} | {head}{shown}{tail}\n{' ' * len(number)} | {indent}{'^' * max(marked, 1)}"


def _visible(char: str) -> str:
    if char == "\t" or unicodedata.category(char) not in _INVISIBLE:
        return char
    if char < " ":
        return chr(0x2400 + ord(char))
    return "\u2421" if char == "\x7f" else "\ufffd"


def _columns(char: str) -> int:
    """The columns that a terminal gives a character."""
    if char != "\t" and unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
