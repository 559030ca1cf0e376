"""Whole-number arithmetic and sizes with units."""

from __future__ import annotations

import re

__all__ = ["align_up", "ceil_div", "format_bytes", "parse_bytes", "plain_number"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_UNITS |= {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("kmgtp", start=1)}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]i?)?(?:b|bytes?)?\s*", re.IGNORECASE)


def ceil_div(dividend: int, divisor: int) -> int:
    """``dividend / divisor``, rounded up."""
    return -(-dividend // divisor)


def align_up(value: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``value``."""
    return ceil_div(value, multiple) * multiple


def plain_number(value: float) -> str:
    """A number with all its digits, whole ones without a point."""
    return str(int(value)) if value == int(value) else str(value)


def parse_bytes(text: str) -> int:
    """A size as people write it, in bytes: ``"40 GiB"``, ``"1.5GB"``, ``"4096"``.

    Raises ValueError when the text is no size, or no whole number of bytes.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write bytes or a number with KiB, MiB, GiB, ...")
    number, unit = match[1], _UNITS[(match[2] or "").lower()]
    whole, _, fraction = number.partition(".")
    scaled = int(whole + fraction) * unit
    if scaled % 10 ** len(fraction):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(scaled // 10 ** len(fraction))


def format_bytes(count: int) -> str:
    """Bytes for people, at most three digits after the point: ``"40 GiB"``, ``"384 KiB"``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            return f"{size:.3f}".rstrip("0").rstrip(".") + f" {unit}"
        size /= 1024
    raise AssertionError("unreachable")
