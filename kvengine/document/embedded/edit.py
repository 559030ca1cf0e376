"""Edits of a config inside a quoted text: written back with the same quoting, then verified."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvengine.document.changes import CannotEdit, Change, changed, same
from kvengine.document.document import Document
from kvengine.document.draft import indent_of
from kvengine.document.edit import apply, edits
from kvengine.errors import DocumentError, Drop, Edit, Move, Path, Put

if TYPE_CHECKING:
    from kvengine.document.embedded.reading import Reading
    from kvengine.document.embedded.source import Source

__all__ = ["source_edits"]

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-")


def source_edits(source: Source, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """See :meth:`Source.edits`."""
    outside = [change for change in changes if _head(change.path)]
    inside = [change for change in changes if not _head(change.path)]
    made: tuple[Edit, ...] = ()
    if inside:
        made = _config_edits(source, inside)
    if outside:
        made += _variable_edits(source, outside)
    ordered = tuple(sorted(made, key=lambda edit: (edit.start, edit.end)))
    _verify(source, inside, outside, ordered)
    return ordered


def _head(path: Path) -> str:
    head = str(path[0]) if path else ""
    return head if head.startswith(("flag:", "env:")) else ""


def _config_edits(source: Source, changes: Sequence[Change]) -> tuple[Edit, ...]:
    reading = source.reading
    if source.data is None:
        raise CannotEdit((), "there is no config that could be changed")
    if reading is None:
        if source.document is None:
            raise CannotEdit((), "the config is not written as a text of its own")
        return edits(source.document, [_shifted(change, source.path) for change in changes])
    if reading.faults:
        raise CannotEdit((), "its JSON must be mended first")
    if not reading.strand.text.startswith("{"):
        raise CannotEdit((), "dotted flags and Python are changed by hand")
    inner = Document(
        name=source.name, form="json", raw=reading.strand.text.encode(), data=source.data
    )
    made = edits(inner, changes)
    return tuple(_outer(source, reading, inner, edit) for edit in made)


def _shifted(change: Change, base: Path) -> Change:
    if isinstance(change, Put):
        return Put((*base, *change.path), change.value)
    if isinstance(change, Move):
        return Move((*base, *change.path), (*base, *change.to))
    return Drop((*base, *change.path))


def _outer(source: Source, reading: Reading, inner: Document, edit: Edit) -> Edit:
    """An edit of the JSON text as an edit of the file."""
    strand = reading.strand
    start, end = inner.text.character(edit.start), inner.text.character(edit.end)
    near = range(start, end) if end > start else range(max(start - 1, 0), max(start, 1))
    contexts = {strand.contexts[at] for at in near}
    if len(contexts) != 1 or any("fixed" in context for context in contexts):
        raise CannotEdit((), "a variable or several kinds of quotes are in the way")
    (context,) = contexts
    if any(strand.starts[at + 1] < strand.ends[at] for at in near[:-1]):
        raise CannotEdit((), "its text is put together from several places")
    body = source.text.body
    if end > start:
        first, last = strand.starts[start], strand.ends[end - 1]
    else:
        first = last = strand.ends[start - 1] if start else strand.starts[0]
    text = edit.text
    if "\n" in text:
        text = _indented(text, body, first, strand.text, start)
    for layer in reversed(context):
        text = _QUOTING[layer](text)
    return Edit(source.text.byte(first), source.text.byte(last), text)


def _indented(text: str, body: str, at: int, inner: str, start: int) -> str:
    """The text with its new lines indented as a YAML block scalar around them is."""
    outer_indent = indent_of(body, at)
    inner_indent = indent_of(inner, start)
    extra = outer_indent.removesuffix(inner_indent)
    return text.replace("\n", "\n" + extra)


def _variable_edits(source: Source, changes: Sequence[Change]) -> tuple[Edit, ...]:
    paths: list[Change] = []
    for change in changes:
        name = _head(change.path).removeprefix("env:")
        where = source.env_paths.get(name)
        if not isinstance(change, Drop) or where is None or source.document is None:
            raise CannotEdit(change.path, "is changed by hand")
        paths.append(Drop(where))
    assert source.document is not None
    return edits(source.document, paths)


def _verify(
    source: Source, inside: Sequence[Change], outside: Sequence[Change], made: tuple[Edit, ...]
) -> None:
    """Read the edited file again and compare every config in it."""
    from kvengine.document.embedded.find import find

    wanted = source.data
    for change in inside:
        wanted = changed(wanted, change)
    gone = {_head(change.path).removeprefix("env:") for change in outside}
    before = find(source.raw, name=source.name)
    try:
        after = find(apply(source.raw, made), name=source.name)
    except (DocumentError, ValueError):
        raise CannotEdit((), "the file could not be read afterwards") from None
    if len(before) != len(after):
        raise CannotEdit((), "its quoting does not allow the change")
    for old, new in zip(before, after, strict=True):
        expected = wanted if old.index == source.index else old.data
        flags_same = {**old.flags, "--kv-transfer-config": ""} == {
            **new.flags,
            "--kv-transfer-config": "",
        }
        env_same = {k: v for k, v in old.env.items() if k not in gone} == {
            k: v for k, v in new.env.items() if k not in gone
        }
        mentions = old.index != source.index or not (inside and _mentions_config(old.env))
        if not same(new.data, expected) or not flags_same or (mentions and not env_same):
            raise CannotEdit((), "its quoting does not allow the change")


def _mentions_config(env: object) -> bool:
    return "kv_connector" in str(env)


def _in_double_quotes(text: str) -> str:
    return "".join("\\" + char if char in '\\"$`' else char for char in text)


def _in_single_quotes(text: str) -> str:
    return text.replace("'", "'\\''")


def _unquoted(text: str) -> str:
    if "\n" in text:
        raise CannotEdit((), "a line break cannot be written without quotes")
    return "".join(char if char in _SAFE else "\\" + char for char in text)


def _ansi(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _here(text: str) -> str:
    return "".join("\\" + char if char in "\\$`" else char for char in text)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _on_one_line(text: str) -> str:
    if "\n" in text:
        raise CannotEdit((), "a line break cannot be written there")
    return text


def _yaml_single(text: str) -> str:
    return _on_one_line(text).replace("'", "''")


def _yaml_plain(text: str) -> str:
    if ": " in text or " #" in text:
        raise CannotEdit((), "the text needs quotes in YAML")
    return _on_one_line(text)


def _same(text: str) -> str:
    return text


_QUOTING: dict[str, Callable[[str], str]] = {
    'sh"': _in_double_quotes,
    "sh'": _in_single_quotes,
    "sh": _unquoted,
    "sh$'": _ansi,
    "sh<": _here,
    'json"': _json,
    'yaml"': _json,
    "yaml'": _yaml_single,
    "yaml": _yaml_plain,
    "yaml|": _same,
    "yaml>": _on_one_line,
}
