"""Changes to data written back into the text, which keeps every byte that they do not touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from attrs import frozen

from kvengine.document.changes import CannotEdit, Change, at, changed, copied, has, same
from kvengine.document.document import Document, Form
from kvengine.document.draft import Draft, Splice
from kvengine.document.text import Fault
from kvengine.document.tree import Node
from kvengine.errors import Drop, Edit, Move, Path, Put

__all__ = ["CannotEdit", "apply", "edits"]


class Writer(Protocol):
    """How one form is edited: each method gives ways to do it, the best one first."""

    def put(
        self, body: str, tree: Node, path: Path, value: Any, text: str | None
    ) -> Iterator[list[Splice]]:
        """Ways to make ``path`` hold ``value``; ``text`` is how the value was written before."""

    def drop(self, body: str, tree: Node, path: Path) -> Iterator[list[Splice]]:
        """Ways to take ``path`` out."""

    def rename(self, body: str, tree: Node, path: Path, to: Path) -> Iterator[list[Splice]]:
        """Ways to give what stands at ``path`` the name ``to`` and leave it where it is."""

    def source(self, body: str, tree: Node, path: Path) -> str | None:
        """The text of the value at ``path``, if it can stand elsewhere as well."""


def edits(document: Document, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The changes, one after another, as edits of the file.

    Edits are in order, do not overlap, and count bytes of the file as it is now. Once applied,
    the file parses to exactly the changed data; where that cannot be done, CannotEdit says why.
    """
    state = _State(document.form, Draft(document.text.body), document.index, document.data)
    for change in changes:
        state = state.after(change)
    text = document.text
    return tuple(
        Edit(text.byte(splice.start), text.byte(splice.end), splice.text)
        for splice in state.draft.replacements(text.body)
    )


def apply(raw: bytes, edits: Iterable[Edit]) -> bytes:
    """The file with the edits made; they must not overlap."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    parts, done = [], 0
    for edit in ordered:
        if edit.start < done:
            raise ValueError("edits overlap")
        parts += [raw[done : edit.start], edit.text.encode("utf-8")]
        done = edit.end
    return b"".join([*parts, raw[done:]])


@frozen
class _State:
    """A text, and the data that it holds, on the way through the changes."""

    form: Form
    draft: Draft
    index: int
    data: Any

    def after(self, change: Change) -> _State:
        wanted = changed(self.data, change)
        if isinstance(change, Move):
            return self._moved(change)
        if same(wanted, self.data):
            return self
        if isinstance(change, Drop):
            return self._first(change, self._writer.drop(*self._parsed, change.path))
        return self._put(change, None)

    def _put(self, change: Put, text: str | None) -> _State:
        ways = self._writer.put(*self._parsed, change.path, copied(change.value), text)
        return self._first(change, ways)

    def _moved(self, move: Move) -> _State:
        siblings = move.path[:-1] == move.to[:-1] and isinstance(move.to[-1], str)
        if siblings and move.path != move.to and has(self.data, move.to):
            return self.after(Drop(move.to)).after(move)
        try:
            return self._first(move, self._writer.rename(*self._parsed, move.path, move.to))
        except CannotEdit:
            put = Put(move.to, at(self.data, move.path))
            text = self._writer.source(*self._parsed, move.path)
            dropped = self.after(Drop(move.path))
        if text is not None:
            try:
                return dropped._put(put, text)
            except CannotEdit:
                pass
        return dropped._put(put, None)

    @property
    def _writer(self) -> Writer:
        if self.form == "json":
            from kvengine.document.write_json import JsonWriter

            return JsonWriter()
        if self.form == "toml":
            from kvengine.document.write_toml import TomlWriter

            return TomlWriter()
        from kvengine.document.write_yaml import YamlWriter

        return YamlWriter()

    @property
    def _parsed(self) -> tuple[str, Node]:
        try:
            return self.draft.body, _parsed(self.form, self.draft.body)[self.index][1]
        except Fault as fault:
            raise CannotEdit((), f"the file {fault.message}") from None

    def _first(self, change: Change, ways: Iterator[list[Splice]]) -> _State:
        """The state after the first way that makes the data what the change wants."""
        wanted = changed(self.data, change)
        others = {
            index: data
            for index, (data, _) in _parsed(self.form, self.draft.body).items()
            if index != self.index
        }
        reason = "its place in the file does not allow the change without rewriting more"
        try:
            for splices in ways:
                draft = self.draft.spliced(splices)
                if draft is not None and _holds(self.form, draft.body, self.index, wanted, others):
                    return _State(self.form, draft, self.index, wanted)
        except CannotEdit as error:
            reason = error.reason
        raise CannotEdit(change.path, reason)


def _parsed(form: Form, body: str) -> dict[int, tuple[Any, Node]]:
    """The data and trees of the documents in the text, by their number."""
    if form == "yaml":
        from kvengine.document.yaml import load_all

        return {one.index: (one.data, one.tree) for one in load_all(body, strict=False)}
    if form == "json":
        from kvengine.document.json import load, scan

        return {0: (load(body), scan(body))}
    from kvengine.document.toml import load as load_toml
    from kvengine.document.toml import scan_tree

    return {0: (load_toml(body), scan_tree(body))}


def _holds(form: Form, body: str, index: int, wanted: Any, others: dict[int, Any]) -> bool:
    if not body.strip():
        return False
    try:
        found = _parsed(form, body)
    except Fault:
        return False
    if index not in found or found.keys() - {index} != others.keys():
        return False
    return same(found[index][0], wanted) and all(
        same(found[number][0], data) for number, data in others.items()
    )
