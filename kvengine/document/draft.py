"""Splices into a text, kept as replacements in the text that it was at first."""

from __future__ import annotations

import sys
from itertools import pairwise

from attrs import field, frozen

__all__ = ["Draft", "Splice", "indent_of", "line_end", "line_start", "newline_of", "next_line"]


@frozen
class Splice:
    """A replacement of the characters ``start:end`` by ``text``."""

    start: int
    end: int
    text: str


def _merged(body: str, splices: list[Splice]) -> str:
    parts, at = [], 0
    for splice in splices:
        parts += [body[at : splice.start], splice.text]
        at = splice.end
    return "".join([*parts, body[at:]])


@frozen
class Draft:
    """A text in the making: ``pieces`` are ranges of the original, or text put in between."""

    body: str
    pieces: tuple[tuple[int, int] | str, ...] = field()

    @pieces.default
    def _whole(self) -> tuple[tuple[int, int] | str, ...]:
        return ((0, len(self.body)),)

    def spliced(self, splices: list[Splice]) -> Draft | None:
        """The draft after these splices, which are given in its own characters, in any order;
        None if they overlap.
        """
        ordered = sorted(splices, key=lambda splice: (splice.start, splice.end))
        for before, after in pairwise(ordered):
            if before.end > after.start:
                return None
        pieces: list[tuple[int, int] | str] = list(self.pieces)
        for splice in reversed(ordered):
            pieces = [
                *_cut(pieces, 0, splice.start),
                *([splice.text] if splice.text else []),
                *_cut(pieces, splice.end, sys.maxsize),
            ]
        return Draft(_merged(self.body, ordered), tuple(pieces))

    def replacements(self, original: str) -> list[Splice]:
        """What turns the original into this draft, in order and without overlap."""
        found: list[Splice] = []
        at, text = 0, ""
        for piece in [*self.pieces, (len(original), len(original))]:
            if isinstance(piece, str):
                text += piece
                continue
            if text or piece[0] > at:
                found.append(_tight(original, Splice(at, piece[0], text)))
            at, text = piece[1], ""
        return [splice for splice in found if splice.text or splice.end > splice.start]


def _cut(pieces: list[tuple[int, int] | str], start: int, end: int) -> list[tuple[int, int] | str]:
    """The pieces that make up the characters ``start:end`` of the draft."""
    kept: list[tuple[int, int] | str] = []
    at = 0
    for piece in pieces:
        length = len(piece) if isinstance(piece, str) else piece[1] - piece[0]
        first, last = max(start - at, 0), min(end - at, length)
        if first < last:
            if isinstance(piece, str):
                kept.append(piece[first:last])
            else:
                kept.append((piece[0] + first, piece[0] + last))
        at += length
    return kept


def _tight(original: str, splice: Splice) -> Splice:
    """The splice without the characters at its ends that stay the same."""
    old, new = original[splice.start : splice.end], splice.text
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return Splice(splice.start + head, splice.end - tail, new[head : len(new) - tail])


def line_start(body: str, at: int) -> int:
    """The first character of the line that holds ``at``."""
    return body.rfind("\n", 0, at) + 1


def line_end(body: str, at: int) -> int:
    """The end of the line that holds ``at``, before its line break."""
    end = body.find("\n", at)
    end = len(body) if end < 0 else end
    return end - 1 if end > at and body[end - 1] == "\r" else end


def next_line(body: str, at: int) -> int:
    """The first character of the line below the one that holds ``at``."""
    end = body.find("\n", at)
    return len(body) if end < 0 else end + 1


def indent_of(body: str, at: int) -> str:
    """The blanks at the start of the line that holds ``at``."""
    start = line_start(body, at)
    end = start
    while end < len(body) and body[end] in " \t":
        end += 1
    return body[start:end]


def newline_of(body: str) -> str:
    """The line break that the text uses."""
    at = body.find("\n")
    return "\r\n" if at > 0 and body[at - 1] == "\r" else "\n"
