"""Text in, data and places out: every file that kvengine reads passes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvengine.document.document import Document
from kvengine.document.excerpt import excerpt
from kvengine.document.read import MAX_FILE_BYTES, parse, parse_all, read, read_raw
from kvengine.document.text import MAX_DEPTH

if TYPE_CHECKING:
    from kvengine.document.edit import CannotEdit, apply, edits

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


def __getattr__(name: str) -> Any:
    """Import what edits files only when somebody edits: most documents are only read."""
    if name in ("CannotEdit", "apply", "edits"):
        from kvengine.document import edit

        return getattr(edit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
