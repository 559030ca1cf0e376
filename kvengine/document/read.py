"""Files and bytes to Documents; whatever is wrong with them is one clear problem."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path as FilePath
from typing import Any

from attrs import evolve

from kvengine.document.depth import check_values
from kvengine.document.document import Document, Form
from kvengine.document.text import Fault, Text, decode, refuse
from kvengine.document.tree import Node, walk
from kvengine.errors import DocumentError, Path
from kvengine.units import format_bytes

__all__ = ["MAX_FILE_BYTES", "parse", "parse_all", "read", "read_raw"]

MAX_FILE_BYTES = 16 << 20
"""The largest file that is read, in bytes."""

_FORMS: dict[str, Form] = {
    ".toml": "toml",
    ".json": "json",
    ".jsonc": "json",
    ".json5": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
_JSON_OBJECT = re.compile(r'\s*\{\s*(?:["}]|\Z)')
_TOML_LINE = re.compile(
    r"""^[ \t]*(?:\[\[?[\w."' -]+\]\]?[ \t]*(?:\#.*)?\r?$|[\w."'-]+[ \t]*=)""", re.MULTILINE
)


def read(path: str | os.PathLike[str]) -> Document:
    """The document in the file at ``path``; ``"-"`` is standard input.

    Raises DocumentError, with one problem, when it cannot be read as TOML, JSON or YAML.
    """
    raw, name = read_raw(path)
    return parse(raw, name=name)


def read_raw(path: str | os.PathLike[str]) -> tuple[bytes, str]:
    """The bytes of a file (at most ``MAX_FILE_BYTES``) and its name as problems show it."""
    name = os.fspath(path)
    if name == "-":
        return _limited(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "<stdin>"), "<stdin>"
    try:
        with FilePath(name).open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > MAX_FILE_BYTES:
                raise _too_large(name, f"is {format_bytes(status.st_size)}")
            return _limited(file.read(MAX_FILE_BYTES + 1), name), name
    except FileNotFoundError:
        raise refuse(name, "syntax", "does not exist") from None
    except IsADirectoryError:
        raise refuse(name, "syntax", "is a directory, not a file") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise refuse(name, "syntax", f"cannot be read: {reason}") from None


def _limited(raw: bytes, name: str) -> bytes:
    if len(raw) > MAX_FILE_BYTES:
        raise _too_large(name, f"has more than {format_bytes(MAX_FILE_BYTES)}")
    return raw


def _too_large(name: str, size: str) -> DocumentError:
    limit = format_bytes(MAX_FILE_BYTES)
    return refuse(name, "limit", size, f"files of up to {limit} are read")


def parse(raw: bytes, *, name: str, form: Form | None = None) -> Document:
    """The one document that ``raw`` holds.

    Without ``form``, the extension of ``name`` decides, else the content. Raises
    DocumentError, with one problem, also for a YAML stream of several documents.
    """
    found = parse_all(raw, name=name, form=form)
    if len(found) == 1:
        return found[0]
    message = f"holds {len(found)} YAML documents where one is expected"
    second = found[1].text.problem(Fault("syntax", message, found[1].tree.start))
    raise DocumentError([second])


def parse_all(
    raw: bytes, *, name: str, form: Form | None = None, strict: bool = True
) -> list[Document]:
    """Every document that ``raw`` holds: one, or those of a YAML stream that are not empty.

    Not ``strict``, YAML keys that are no text are taken as their text, and unknown tags are
    passed over: the way to look into files that are somebody else's.
    """
    text = decode(_limited(raw, name), name)
    form = form or _FORMS.get(os.path.splitext(name)[1].lower())  # noqa: PTH122
    try:
        if form is not None:
            return _load(text, raw, form, strict)
        return _load_any(text, raw, strict)
    except Fault as fault:
        raise DocumentError([text.problem(fault)]) from None


def _load_any(text: Text, raw: bytes, strict: bool) -> list[Document]:
    """The documents in the first form that makes a table or a list of the text."""
    forms: list[Form] = ["toml", "yaml"]
    if text.body.lstrip()[:1] in ("{", "["):
        forms.insert(0, "json")
    if _JSON_OBJECT.match(text.body):
        forms = ["json"]
    faults: dict[str, Fault] = {}
    found: list[Document] = []
    for form in forms:
        try:
            found = _load(text, raw, form, strict)
            if any(isinstance(document.data, (dict, list)) for document in found):
                return found
        except Fault as fault:
            if fault.code != "syntax":
                raise
            faults[form] = fault
    likely = "toml" if _TOML_LINE.search(text.body) else "yaml"
    if found and likely == "yaml":
        return found
    raise faults[likely if likely in faults else "json"]


def _load(text: Text, raw: bytes, form: Form, strict: bool) -> list[Document]:
    if form == "yaml":
        from kvengine.document.yaml import load_all

        return [
            _document(text, raw, form, one.data, one.notes, one.index, one.tree)
            for one in load_all(text.body, strict=strict)
        ]
    if form == "json":
        from kvengine.document.json import load
    else:
        from kvengine.document.toml import load
    return [_document(text, raw, form, load(text.body))]


def _document(
    text: Text,
    raw: bytes,
    form: Form,
    data: Any,
    notes: tuple[Fault, ...] = (),
    index: int = 0,
    tree: Node | None = None,
) -> Document:
    """The document, unless it holds a value that no config can."""
    warnings = tuple(evolve(text.problem(note), severity="warning") for note in notes)
    document = Document(
        name=text.name, form=form, raw=raw, data=data, notes=warnings, index=index, tree_made=tree
    )
    path = check_values(data)
    if path is not None:
        way = [*walk(document.tree, path)]
        node = way[-1].node if way else document.tree
        message = "holds half of a surrogate pair, which is no text"
        if isinstance(_at(data, path), float):
            message = f"is {_at(data, path)}, which is no finite number"
        fault = Fault("syntax", message, node.start, node.end, path=path)
        raise DocumentError([text.problem(fault)])
    return document


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else data[step]
    return data
