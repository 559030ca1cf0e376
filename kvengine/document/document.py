"""Document: the data of one file, and where each key of it stands."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from attrs import field, frozen

from kvengine.document.text import Text, decode
from kvengine.document.tree import Node, walk
from kvengine.errors import Path, Place, Problem

__all__ = ["Document", "Form"]

Form = Literal["toml", "json", "yaml"]


@frozen(kw_only=True)
class Document:
    """A file as read: plain Python values, and the bytes they were read from.

    ``data`` holds dict (keys are str), list, str, int, float, bool and None; dates stay the
    text that they were written as. ``raw`` is the whole file, also for one document of a YAML
    stream, so that places and edits count from the start of the file; ``index`` says which
    document of the stream this is. ``notes`` are warnings found while reading.
    """

    name: str
    form: Form
    raw: bytes = field(repr=False)
    data: Any
    notes: tuple[Problem, ...] = ()
    index: int = 0
    tree_made: Node | None = field(default=None, repr=False, eq=False)

    @cached_property
    def text(self) -> Text:
        """The file, decoded."""
        return decode(self.raw, self.name)

    @cached_property
    def tree(self) -> Node:
        """Where every key and value stands; built when first asked for."""
        if self.tree_made is not None:
            return self.tree_made
        if self.form == "json":
            from kvengine.document.json import scan

            return scan(self.text.body)
        from kvengine.document.toml import scan_tree

        return scan_tree(self.text.body)

    def place(self, path: Path, *, key: bool = True) -> Place:
        """Where ``path`` is written: its key, or with ``key=False`` its value.

        A path that does not exist is placed at the nearest ancestor that does.
        """
        way = list(walk(self.tree, path))
        if not way:
            start = max(self.tree.start, 0)
            line_end = self.text.body.find("\n", start)
            end = len(self.text.body) if line_end < 0 else line_end
            return self.text.place(start, min(end, max(self.tree.end, start)))
        last = way[-1]
        if key or len(way) < len(path):
            return self.text.place(last.start, last.end)
        return self.text.place(last.node.start, last.node.end)
