"""Regular expressions for texts that stand for numbers and switches.

They mean the same to Python, ECMA-262 and Rust: no look-around, no classes beyond ``\\s``.
"""

from __future__ import annotations

__all__ = ["FALSE_WORDS", "FLOAT_TEXT", "INT_TEXT", "SIZE_TEXT", "TRUE_WORDS", "any_case"]

INT_TEXT = r"^\s*[+-]?[0-9]+(_[0-9]+)*\s*$"
FLOAT_TEXT = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
FALSE_WORDS = (
    r"^\s*([Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff]|0|[Nn][Oo][Nn][Ee]|[Nn][Uu][Ll][Ll])\s*$"
)
TRUE_WORDS = r"^\s*([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|1)\s*$"
SIZE_TEXT = r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtTpP]i?)?([bB]|[bB]ytes?)?\s*$"

_ABOVE_ZERO = r"\+?[0_]*[1-9][0-9]*(_[0-9]+)*"
_NOT_BELOW_ZERO = r"(\+?[0-9]+(_[0-9]+)*|-0+(_0+)*)"
_POSITIVE = r"([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)"


def int_text(ge: float | None, le: float | None) -> str:
    """Whole numbers as text, at least ``ge`` (0 or 1, if any) and at most ``le``."""
    if ge is None or ge < 0:
        return INT_TEXT
    if le is None:
        return rf"^\s*{_ABOVE_ZERO if ge > 0 else _NOT_BELOW_ZERO}\s*$"
    least = _between(str(int(ge)), str(int(le)))
    return rf"^\s*\+?[0_]*({'|'.join(least)})\s*$"


def float_text(gt: float | None) -> str:
    """Numbers as text, above ``gt`` (0, if any)."""
    if gt is None:
        return FLOAT_TEXT
    return rf"^\s*\+?{_POSITIVE}([eE][+-]?[0-9]+)?\s*$"


def any_case(word: str) -> str:
    """A word in any mixture of cases."""
    return "".join(
        f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in word
    )


def _between(low: str, high: str) -> list[str]:
    """Alternatives that match the numbers from ``low`` (one digit) to ``high``."""
    digits = len(high)
    found = [f"[{low}-9]"] if digits > 1 else [f"[{low}-{high}]"]
    found += ["[1-9]" + "_?[0-9]" * more for more in range(1, digits - 1)]
    for position in range(digits if digits > 1 else 0):
        first = 1 if position == 0 else 0
        below = int(high[position]) - (position < digits - 1)
        if below >= first:
            head = "_?".join(high[:position])
            step = f"[{first}-{below}]" + "_?[0-9]" * (digits - position - 1)
            found.append("_?".join(part for part in (head, step) if part))
    return found
