"""Edits of a config inside a quoted text: written back with the same quoting, then verified."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvengine.document.changes import CannotEdit, Change, changed, same
from kvengine.document.document import Document
from kvengine.document.draft import indent_of, line_start
from kvengine.document.edit import apply, edits
from kvengine.document.read import parse_all
from kvengine.errors import DocumentError, Drop, Edit, Move, Path, Put

if TYPE_CHECKING:
    from kvengine.document.embedded.reading import Reading
    from kvengine.document.embedded.source import Source
    from kvengine.document.embedded.strand import Strand

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
    raw = reading.strand.text.encode()
    if reading.yaml is not None:
        index, base = reading.yaml
        documents = parse_all(raw, name=source.name, form="yaml", strict=False)
        inner = next(one for one in documents if one.index == index)
        made = edits(inner, [_shifted(change, base) for change in changes])
    elif reading.is_json:
        inner = Document(name=source.name, form="json", raw=raw, data=source.data)
        made = edits(inner, changes)
    else:
        raise CannotEdit((), "the config is not written as one text")
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
    near = range(start, end) if end > start else _beside(reading, start)
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
        first = last = strand.ends[near[0]] if near[0] < start else strand.starts[near[0]]
    text = edit.text
    if start == 0 or strand.text[start - 1] == "\n":
        above = line_start(body, first)
        first = first if body[above:first].strip() else above
        last = max(last, first)
        text = _indented("\n" + text, strand, body)[1:]
    else:
        text = _indented(text, strand, body)
    for layer in reversed(context):
        text = _QUOTING[layer](text)
    return Edit(source.text.byte(first), source.text.byte(last), text)


def _indented(text: str, strand: Strand, body: str) -> str:
    """The text with its new lines indented as the YAML block scalar around them is."""
    if "\n" not in text:
        return text
    first = len(strand.text) - len(strand.text.lstrip())
    outer = indent_of(body, strand.starts[first] if first < len(strand) else 0)
    extra = outer.removesuffix(indent_of(strand.text, first))
    lines = text.split("\n")
    return "\n".join([lines[0], *(extra + line if line else line for line in lines[1:])])


def _beside(reading: Reading, at: int) -> range:
    """The character before ``at``, or the one behind if the first comes from a variable."""
    contexts = reading.strand.contexts
    near = [one for one in (at - 1, at) if 0 <= one < len(contexts)]
    near = [one for one in near if "fixed" not in contexts[one]]
    if not near:
        raise CannotEdit((), "a variable is in the way")
    chosen = min(near, key=lambda one: contexts[one].count("var"))
    return range(chosen, chosen + 1)


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
        env_same = _other_variables(old, gone) == _other_variables(new, gone)
        worse = _errors(new) > _errors(old)
        if not same(new.data, expected) or not flags_same or not env_same or worse:
            raise CannotEdit((), "its quoting does not allow the change")


def _errors(source: Source) -> int:
    return sum(problem.severity == "error" for problem in source.problems)


def _other_variables(source: Source, gone: set[str]) -> dict[str, str]:
    """The variables that must stay as they are: not dropped, and no config themselves."""
    return {
        name: text
        for name, text in source.env.items()
        if name not in gone and "kv_connector" not in text and "kv-transfer" not in text
    }


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


def _python(quote: str) -> Callable[[str], str]:
    def written(text: str) -> str:
        text = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return text.replace("\n", "\\n")

    return written


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
    "py'": _python("'"),
    'py"': _python('"'),
    "var": _same,
}
