"""Text in, data and places out: every file that kvengine reads passes through here."""

from __future__ import annotations

from kvengine.document.document import Document
from kvengine.document.edit import CannotEdit, apply, edits
from kvengine.document.excerpt import excerpt
from kvengine.document.read import MAX_FILE_BYTES, parse, parse_all, read, read_raw
from kvengine.document.text import MAX_DEPTH

__all__ = [
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "CannotEdit",
    "Document",
    "apply",
    "edits",
    "excerpt",
    "parse",
    "parse_all",
    "read",
    "read_raw",
]
