"""What ``explain`` can explain, read off the declarations: tables, connectors and options."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import getdoc
from typing import Any

from attrs import frozen

from kvengine.config.engine import Config
from kvengine.errors import Path, dotted, show
from kvengine.rules.options import Variant, variant_of
from kvengine.rules.readings import AS_IT_IS
from kvengine.rules.registry import Named, Registry, named
from kvengine.rules.relations import Relation, relations_of
from kvengine.rules.releases import ALWAYS, Release
from kvengine.rules.shapes import Field, fields_of

__all__ = ["Entry", "Table", "connectors", "entries_at", "names", "tables", "tables_named"]

_KINDS = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}


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

    def explained(self, release: Release | None) -> Iterator[str]:
        """What it is for and every key of it."""
        where = dotted(self.path)
        yield self.name if self.name == where else f"{self.name} ({where})"
        yield from _wrapped(self.doc)
        yield from self._known(release)
        yield ""
        for field in fields_of(self.model).values():
            unread = release is not None and release not in field.option.vllm
            note = f"  (not in vLLM {release})" if unread else ""
            yield f"  {field.name:<32}{_first_sentence(field.option.doc)}{note}"
        relations = relations_of(self.model)
        yield from [""] * bool(relations)
        for relation in relations:
            yield from _wrapped(relation.as_sentence(), "- ")

    def _known(self, release: Release | None) -> Iterator[str]:
        """In which releases the name means something, and what else it was called."""
        facts = self.facts
        if facts is None:
            return
        if facts.origin:
            yield f"  from: {facts.origin}"
        if facts.vllm != ALWAYS:
            yield f"  vLLM: {facts.vllm}"
        for old in facts.was:
            yield f"  {self.today} was called {old.name}: vLLM {old.vllm}"
        if facts.instead:
            yield from _wrapped(f"instead: {facts.instead}")
        if facts.because:
            yield from _wrapped(f"because: {facts.because}")
        if release is not None and not facts.origin:
            known = facts.spelled_in(release, self.today) == self.name
            yield f"  vLLM {release} {'knows' if known else 'does not know'} the name"


@frozen(kw_only=True)
class Entry:
    """One option and the tables in which the same declaration stands."""

    field: Field
    tables: tuple[Table, ...]

    def explained(self, release: Release | None) -> Iterator[str]:
        """All that the declaration says."""
        option = self.field.option
        yield dotted((*self.tables[0].path, self.field.name))
        yield from _wrapped(option.doc)
        yield ""
        yield from _wrapped(f"value: {_value(self.field)}")
        default = option.default_text or _default(self.field)
        yield "  required" if option.required else f"  default: {default}"
        if option.examples:
            yield f"  example: {self.field.name} = {show(option.examples[0])}"
        if option.reading is not AS_IT_IS:
            yield from _wrapped(f"read as: {option.reading.name}")
        if option.vllm != ALWAYS:
            yield f"  vLLM: {option.vllm}" + f"; otherwise {option.instead}" * bool(option.instead)
        yield from self._about(release)
        named = dict.fromkeys(one.name for one in self.tables if one.name != dotted(one.path))
        if named:
            yield from _wrapped(f"read by: {', '.join(named)}")
        if option.deprecated is not None:
            yield from _wrapped(f"deprecated: use {option.deprecated.use} instead")
        for trap in option.traps:
            yield from _wrapped(f"beware: {trap}")
        for relation in self._relations():
            yield from _wrapped(relation.as_sentence(), "- ")

    def _about(self, release: Release | None) -> Iterator[str]:
        option = self.field.option
        if release is None:
            return
        if release not in option.vllm:
            yield f"  vLLM {release} does not read it"
        elif option.dead is not None and release in option.dead:
            yield f"  vLLM {release} accepts it without effect"
        else:
            yield f"  vLLM {release} reads it"

    def _relations(self) -> Iterator[Relation]:
        """The relations that mention the option, each once."""
        said: set[str] = set()
        for table in self.tables:
            for relation in relations_of(table.model):
                sentence = relation.as_sentence()
                words = sentence.replace(",", " ").replace(":", " ").split()
                if self.field.name in words and sentence not in said:
                    said.add(sentence)
                    yield relation


@cache
def _walked() -> tuple[Table, ...]:
    """Every table, from the outside in; what a class holds is walked once, where it is nearest."""
    found: list[Table] = []
    walked: set[type] = set()
    ahead = deque([Table(name="", path=(), model=Config)])
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
    return _once(table for table in _walked() if table.path and table.name == dotted(table.path))


def connectors() -> list[Table]:
    """The tables that a name chooses: connectors, specs, tiers."""
    return _once(table for table in _walked() if table.path and table.name != dotted(table.path))


def _once(tables: Iterable[Table]) -> list[Table]:
    found: dict[tuple[str, type], Table] = {}
    for table in tables:
        found.setdefault((table.name, table.model), table)
    return [*found.values()]


def tables_named(topic: str) -> list[Table]:
    """The tables that a topic means, whatever its case: a name, or the end of a path."""
    wanted = "." + topic.lower()
    return [one for one in (*tables(), *connectors()) if f".{one.name.lower()}".endswith(wanted)]


def entries_at(topic: str) -> list[Entry]:
    """The options that a topic means: a key, or the end of a dotted path."""
    found: dict[int, tuple[Field, list[Table]]] = {}
    for table in _walked():
        for field in fields_of(table.model).values():
            whole = "." + dotted((*table.path, field.name))
            if whole.endswith("." + topic) and field.shape.table is None:
                found.setdefault(id(field.option), (field, []))[1].append(table)
    return [Entry(field=field, tables=tuple(where)) for field, where in found.values()]


def names() -> list[str]:
    """Every name of a table, a connector or an option."""
    keys = (field.name for table in _walked() for field in fields_of(table.model).values())
    titles = (table.name for table in (*tables(), *connectors()))
    return [*dict.fromkeys((*titles, *keys))]


def _value(field: Field) -> str:
    option, shape = field.option, field.shape
    parts = [_KINDS.get(scalar, "a text") for scalar in shape.scalars]
    parts += [show(choice) for choice in shape.choices]
    parts += ["a table"] * (shape.table is not None or shape.free_table)
    parts += ["a list"] * (shape.items is not None)
    unit = f", in {option.unit}" if option.unit else ""
    bounds = ((", at least", option.ge), (", above", option.gt), (", at most", option.le))
    limits = "".join(f"{says} {bound:g}" for says, bound in bounds if bound is not None)
    return " or ".join(parts) + unit + limits


def _default(field: Field) -> str:
    return "none" if field.default is None else show(field.default)


def _first_sentence(doc: str) -> str:
    head, dot, tail = doc.partition(". ")
    return head.rstrip(".") if dot and tail else doc.rstrip(".")


def _wrapped(text: str, mark: str = "") -> list[str]:
    indent = "  " + " " * len(mark)
    return textwrap.wrap(text, 96, initial_indent="  " + mark, subsequent_indent=indent, **_WHOLE)


_WHOLE: Any = {"break_on_hyphens": False, "break_long_words": False}
