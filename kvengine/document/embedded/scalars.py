"""The text of a YAML or JSON scalar, character by character traced to where it was written."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from kvengine.document.draft import next_line
from kvengine.document.embedded.strand import Context, Hole, Strand
from kvengine.document.tree import Node

__all__ = ["scalar"]

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r\n|.)", re.DOTALL)
_LOW_HALF = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_NAMED = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
    "\n": "",
    "\r\n": "",
}


def scalar(source: Strand, node: Node, value: str, *, form: str) -> Strand:
    """The strand of the scalar at ``node`` of ``source``, whose decoded text is ``value``.

    Folding and indentation are undone by lining the value up with its source: everything but
    white space appears in both, in the same order. Where that fails, the whole scalar stands
    for each character, and nothing in it can be edited.
    """
    start, end = node.content_start, node.end
    style = node.style
    if style in ('"', "'"):
        start, end = start + 1, end - 1
    elif style in ("|", ">"):
        header = source.text.find("\n", start, end)
        start = end if header < 0 else header + 1
        end = next_line(source.text, end)
    units = (
        _escaped(source.text, start, end)
        if style == '"'
        else _plain(source.text, start, end, style)
    )
    layer = f"{form}{style}"
    starts, ends = array("q"), array("q")
    contexts: list[Context] = []
    known: dict[Context, Context] = {}
    origins: list[int] = []
    last_end = start
    unit = next(units, None)
    for char in value:
        while unit is not None and unit[0] == "":
            unit = next(units, None)
        if unit is not None and unit[0] == char and (unit[3] or not char.isspace()):
            first, last = unit[1], unit[2]
            unit = next(units, None)
        elif char.isspace():
            first = last_end
            last = unit[1] if unit is not None else end
            last = min(max(last, first), first + 1)
        else:
            return Strand.written(value, source, node.start, node.end)
        outer_first, outer_last = source.range(first, max(last, first + 1))
        outer = source.contexts[min(first, len(source.contexts) - 1)]
        origins.append(first)
        starts.append(outer_first)
        ends.append(outer_last if last > first else outer_first)
        contexts.append(known.setdefault(outer, (*outer, layer)))
        last_end = last
    if unit is not None and any(rest[0] for rest in (unit, *units)):
        return Strand.written(value, source, node.start, node.end)
    return Strand(value, starts, ends, contexts, tuple(_holes(source, node, origins)))


def _holes(source: Strand, node: Node, origins: list[int]) -> Iterator[Hole]:
    """The holes of the source, where they are in the value."""
    at = bisect_left(source.holes, node.start, key=lambda hole: hole.start)
    for hole in source.holes[at:]:
        if hole.start >= node.end:
            return
        first, last = bisect_left(origins, hole.start), bisect_left(origins, hole.end)
        if first < last:
            yield Hole(first, last, hole.name)


def _plain(text: str, start: int, end: int, style: str) -> Iterator[tuple[str, int, int, bool]]:
    """Characters that are no white space; in single quotes two of those make one."""
    at = start
    while at < end:
        char = text[at]
        width = 2 if style == "'" and char == "'" else 1
        if not char.isspace():
            yield char, at, at + width, False
        at += width


def _escaped(text: str, start: int, end: int) -> Iterator[tuple[str, int, int, bool]]:
    """Characters of a text in double quotes, with its escapes undone."""
    at = start
    while at < end:
        match = _ESCAPE.match(text, at, end)
        if match is None:
            if not text[at].isspace():
                yield text[at], at, at + 1, False
            at += 1
            continue
        code = match[0][1:]
        at = match.end()
        if len(code) > 1 and code[0] in "xuU":
            point = int(code[1:], 16)
            low = _LOW_HALF.match(text, at, end)
            if 0xD800 <= point < 0xDC00 and low is not None:
                point = 0x10000 + ((point - 0xD800) << 10) + int(low[1], 16) - 0xDC00
                at = low.end()
            yield chr(point) if point < 0x110000 else "", match.start(), at, True
        else:
            yield _NAMED.get(code, code), match.start(), at, True
