"""What ``explain`` can explain, found in the declarations: tables, connectors and options."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import getdoc
from typing import Any

from attrs import frozen

from kvengine.config.command_line import Flags
from kvengine.config.engine import Config
from kvengine.config.environment import Variables
from kvengine.errors import Path, dotted, show
from kvengine.rules.options import Variant, variant_of
from kvengine.rules.registry import Named, Registry, named
from kvengine.rules.shapes import Field, fields_of

__all__ = [
    "Entry",
    "Table",
    "connectors",
    "entries_at",
    "names",
    "surroundings",
    "tables",
    "tables_named",
]

_FLAG, _ENV = "flag:", "env:"
"""Where flags and environment variables stand, for want of a document."""


@frozen(kw_only=True)
class Table:
    """One table that a user can write: ``name`` is its path, or what its tag has to say.

    ``facts`` is what the registry of such names knows about it, ``today`` its newest name.
    """

    name: str
    path: Path
    model: type
    facts: Named | None = None
    today: str = ""

    @property
    def doc(self) -> str:
        """The first line of what the declaration says about it."""
        return (getdoc(self.model) or "").splitlines()[0]

    @property
    def is_document(self) -> bool:
        """Whether it is part of a document, not a set of flags or variables."""
        return self.path[:1] not in ((_FLAG,), (_ENV,))

    @property
    def is_named(self) -> bool:
        """Whether a name chooses it, as that of a connector does."""
        return self.is_document and self.name != dotted(self.path)

    def place(self, key: str) -> str:
        """Where one of its keys stands, as findings say it."""
        return dotted((*self.path, key)) if self.is_document else key

    def example(self, key: str, value: Any) -> str:
        """One of its keys as somebody writes it."""
        if self.is_document:
            return f"{key} = {show(value)}"
        return f"{key}{'=' if self.path == (_ENV,) else ' '}{shlex.quote(str(value))}"


@frozen(kw_only=True)
class Entry:
    """One option and the tables in which the same declaration stands."""

    field: Field
    tables: tuple[Table, ...]


@cache
def _walked() -> tuple[Table, ...]:
    """Every table, from the outside in; what a class holds is walked once, where it is nearest."""
    found: list[Table] = []
    walked: set[type] = set()
    ahead = deque(
        [
            Table(name="", path=(), model=Config),
            Table(name="flags", path=(_FLAG,), model=Flags),
            Table(name="variables", path=(_ENV,), model=Variables),
        ]
    )
    while ahead:
        table = ahead.popleft()
        found.append(table)
        if table.model not in walked:
            walked.add(table.model)
            ahead += _inside(table)
    return tuple(found)


def _inside(table: Table) -> Iterator[Table]:
    own = variant_of(table.model)
    if own is not None:
        yield from _choices(own, table.path)
    for field in fields_of(table.model).values():
        path = (*table.path, field.name)
        items = field.shape.items.table if field.shape.items else None
        if field.option.variant is not None:
            yield from _choices(field.option.variant, path)
        for inner in (field.shape.table, items):
            if inner is not None:
                yield Table(name=dotted(path), path=path, model=inner)


def _choices(variant: Variant, path: Path) -> Iterator[Table]:
    for classes in (variant.classes, variant.outside):
        for name in classes:
            today = classes.today(name) if isinstance(classes, Registry) else name
            facts = named(classes, name)
            yield Table(name=name, path=path, model=classes[name], facts=facts, today=today)


def tables() -> list[Table]:
    """The tables that have one place, such as ``cache``."""
    known = (table for table in _walked() if table.path and table.is_document)
    return _once(table for table in known if not table.is_named)


def connectors() -> list[Table]:
    """The tables that a name chooses: connectors, specs, tiers."""
    return _once(table for table in _walked() if table.path and table.is_named)


def surroundings() -> list[Table]:
    """The flags and the variables that bear on KV transfer."""
    return [table for table in _walked() if not table.is_document]


def _once(tables: Iterable[Table]) -> list[Table]:
    found: dict[tuple[str, type], Table] = {}
    for table in tables:
        found.setdefault((table.name, table.model), table)
    return [*found.values()]


def tables_named(topic: str) -> list[Table]:
    """The tables that a topic means, whatever its case: a name, or the end of a path."""
    wanted = "." + topic.lower()
    known = (*tables(), *connectors(), *surroundings())
    return [table for table in known if f".{table.name.lower()}".endswith(wanted)]


def entries_at(topic: str) -> list[Entry]:
    """The options that a topic means: a key, the end of a path, a flag with or without dashes."""
    wanted = "." + topic.removeprefix("--")
    found: dict[int, tuple[Field, list[Table]]] = {}
    for table in _walked():
        for field in fields_of(table.model).values():
            whole = "." + table.place(field.name).removeprefix("--")
            if whole.endswith(wanted) and field.shape.table is None:
                found.setdefault(id(field.option), (field, []))[1].append(table)
    return [Entry(field=field, tables=tuple(where)) for field, where in found.values()]


def names() -> list[str]:
    """Every name of a table, a connector or an option."""
    keys = (field.name for table in _walked() for field in fields_of(table.model).values())
    titles = (table.name for table in (*tables(), *connectors(), *surroundings()))
    return [*dict.fromkeys((*titles, *keys))]
