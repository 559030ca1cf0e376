"""The text of a file, and the arithmetic between its characters, bytes and lines."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from attrs import field, frozen

from kvengine.errors import DocumentError, Path, Place, Problem

__all__ = ["MAX_DEPTH", "Fault", "Text", "decode", "refuse"]

MAX_DEPTH = 100
"""Levels of tables and lists in a document; one more is refused."""

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


@frozen
class Text:
    """A decoded file: offsets are characters of ``body``, which starts behind a BOM."""

    name: str
    body: str = field(repr=False)
    skipped_bytes: int = 0

    @cached_property
    def _lines(self) -> list[int]:
        starts = [0]
        at = self.body.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.body.find("\n", at + 1)
        return starts

    @cached_property
    def _is_ascii(self) -> bool:
        return self.body.isascii()

    def byte(self, offset: int) -> int:
        """The byte of the file where the character at ``offset`` starts."""
        if self._is_ascii:
            return self.skipped_bytes + offset
        return self.skipped_bytes + len(self.body[:offset].encode("utf-8"))

    def character(self, byte: int) -> int:
        """The character of ``body`` that holds the byte ``byte`` of the file."""
        if self._is_ascii:
            return byte - self.skipped_bytes
        raw = self.body.encode("utf-8")[: byte - self.skipped_bytes]
        return len(raw.decode("utf-8", errors="ignore"))

    def line(self, offset: int) -> int:
        """The 1-based number of the line that holds the character at ``offset``."""
        return bisect_right(self._lines, offset)

    def line_start(self, line: int) -> int:
        """The offset of the first character of the 1-based ``line``."""
        return self._lines[line - 1]

    def offset(self, line: int, column: int) -> int:
        """The offset of a 1-based line and column, kept inside the text."""
        line = min(max(line, 1), len(self._lines))
        return min(self._lines[line - 1] + max(column, 1) - 1, len(self.body))

    def place(self, start: int, end: int | None = None) -> Place:
        """The place of the characters ``start:end`` (of one character without ``end``)."""
        start = min(max(start, 0), len(self.body))
        end = min(start + 1 if end is None else max(start, end), len(self.body))
        line = self.line(start)
        column = start - self._lines[line - 1] + 1
        return Place(self.name, line, column, self.byte(start), self.byte(end))

    def problem(self, fault: Fault) -> Problem:
        """A fault in this text as a problem with its place."""
        place = self.place(fault.start, fault.end)
        return Problem(fault.code, fault.path, fault.message, fault.hint, place=place)


class Fault(Exception):  # noqa: N818 - becomes a Problem
    """What makes a text unreadable, at the characters ``start:end`` of it."""

    def __init__(
        self,
        code: str,
        message: str,
        start: int = 0,
        end: int | None = None,
        *,
        hint: str = "",
        path: Path = (),
    ) -> None:
        super().__init__(code, message, start, end)
        self.code = code
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.path = path


def refuse(name: str, code: str, message: str, hint: str = "") -> DocumentError:
    """The error about a file as a whole."""
    return DocumentError([Problem(code, (), message, hint, place=Place(name, 1, 1, 0, 0))])


def decode(raw: bytes, name: str) -> Text:
    """The text of a file in UTF-8, with or without a BOM; anything else is a DocumentError."""
    for bom, encoding in _WIDE_BOMS:
        if raw.startswith(bom):
            raise refuse(name, "syntax", f"is {encoding} text", "save it as UTF-8")
    skipped = len(_BOM) if raw.startswith(_BOM) else 0
    try:
        body = raw[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError([_undecodable(raw, skipped, error.start, name)]) from None
    text = Text(name, body, skipped)
    if not body.strip():
        raise refuse(name, "syntax", "is empty")
    if "\0" in body:
        fault = Fault("syntax", "holds a NUL character", body.index("\0"), hint="this is no text")
        raise DocumentError([text.problem(fault)])
    return text


def _undecodable(raw: bytes, skipped: int, start: int, name: str) -> Problem:
    at = skipped + start
    before = Text(name, raw[skipped:at].decode("utf-8"), skipped)
    end = len(before.body)
    utf16 = b"\0" in raw[:4]
    hint = "this looks like UTF-16 without a byte order mark; " if utf16 else ""
    message = f"is not UTF-8: byte 0x{raw[at]:02x} at offset {at}"
    return Problem("syntax", (), message, hint + "save it as UTF-8", place=before.place(end, end))
