"""Where each key and each value stands: the same small tree for every form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from attrs import Factory, define

from kvengine.errors import Path

__all__ = ["Entry", "Node", "reach", "walk"]


@define(eq=False)
class Node:
    """One value: the characters ``start:end``, and what it holds.

    ``style`` is how it is written: ``"flow"`` (braces and brackets), ``"block"`` (YAML by
    indentation), ``"tables"`` (TOML headers and dotted keys: entries may stand anywhere), or
    for a scalar the quote (``'"'``, ``"'"``, ``'\"""'``, ``"'''"``, ``"|"``, ``">"``, ``""``).
    ``content`` is where the value starts behind YAML's anchor and tag.
    """

    kind: Literal["map", "list", "scalar"]
    start: int
    end: int
    style: str
    entries: list[Entry] = Factory(list)
    content: int = -1
    named: dict[str | int, Entry] = Factory(dict)

    @property
    def content_start(self) -> int:
        """Where the value itself starts, behind YAML's anchor and tag."""
        return self.start if self.content < 0 else self.content

    def add(self, entry: Entry) -> None:
        """Hold one entry more."""
        self.entries.append(entry)
        self.named[entry.key] = entry

    def entry(self, key: str | int) -> Entry | None:
        """The entry at ``key``, or None."""
        return self.named.get(key)


@define(eq=False)
class Entry:
    """A key (or list index) with its value.

    ``start:end`` are the characters of the key; for a list item, of the item. ``shared`` says
    that the value is written elsewhere: by a YAML alias (that ends at ``written_end``), or
    merged in with ``<<``.
    """

    key: str | int
    start: int
    end: int
    node: Node
    shared: Literal["", "alias", "merge"] = ""
    written_end: int = -1


def walk(root: Node, path: Path) -> Iterator[Entry]:
    """The entries on the way from the root to ``path``, as far as it exists."""
    node = root
    for step in path:
        entry = node.entry(step)
        if entry is None:
            return
        yield entry
        node = entry.node


def reach(root: Node, path: Path) -> tuple[list[Entry], Path]:
    """The entries on the way to ``path`` as far as it exists, and the rest of the path."""
    way = list(walk(root, path))
    return way, path[len(way) :]
