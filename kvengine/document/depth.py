"""Nesting, counted before a recursive parser sees the text, and again on what it made."""

from __future__ import annotations

import math
import re
from typing import Any

from kvengine.document.text import MAX_DEPTH, Fault
from kvengine.errors import Path

__all__ = ["MAX_DIGITS", "check_brackets", "check_values", "too_deep", "too_long"]


MAX_DIGITS = 4300
"""Digits of a whole number; more are refused."""


def too_deep(at: int) -> Fault:
    """The fault of a document that nests deeper than ``MAX_DEPTH``."""
    return Fault("limit", f"nests deeper than {MAX_DEPTH} levels", at)


def too_long(start: int, end: int) -> Fault:
    """The fault of a whole number that Python refuses to read, for it takes too long."""
    return Fault("limit", f"holds a number of more than {MAX_DIGITS} digits", start, end)


def check_brackets(body: str, tokens: re.Pattern[str]) -> None:
    """Refuse brackets that nest too deep; ``tokens`` finds brackets, and strings to pass over."""
    if body.count("[") + body.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in tokens.finditer(body):
        first = body[match.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise too_deep(match.start())
        elif first in "]}":
            depth -= 1


def check_values(value: Any, depth: int = 0) -> Path | None:
    """The path of a value that no config can hold: a number that is not finite, half a
    surrogate pair. Raises a Fault when the values nest too deep.
    """
    if isinstance(value, (dict, list)):
        if depth >= MAX_DEPTH:
            raise too_deep(0)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if isinstance(key, str) and not _is_text(key):
                return (key,)
            below = check_values(item, depth + 1)
            if below is not None:
                return (key, *below)
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ()
    return () if isinstance(value, str) and not _is_text(value) else None


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
