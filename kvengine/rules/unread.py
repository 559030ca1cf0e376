"""Keys that nothing reads where they stand: another's, misplaced, misspelt, or simply unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from attrs import Factory, define

from kvengine.document.changes import has
from kvengine.errors import Drop, Fix, Move, Path, Problem, dotted, show
from kvengine.rules.families import keys_of, owners, owns
from kvengine.rules.judge import nearest
from kvengine.rules.options import OWN_KEYS, Variant, is_open, own_keys_of, refuses, variant_of
from kvengine.rules.shapes import fields_of
from kvengine.rules.tables import Table, tables

__all__ = ["Homes", "unread"]


@define
class Homes:
    """Where a document, or any document of the model, could hold a key; found when asked."""

    model: type
    data: Mapping[str, Any]
    mode: str
    _here: dict[str, list[Path]] = Factory(dict)
    _guesses: int = 100

    def here(self, key: str) -> list[Path]:
        """The tables of this document that declare ``key``, given or not."""
        if not self._here:
            self._walk(self.model, self.data, (), 0)
        return self._here.get(key, [])

    def _walk(self, model: type, data: Any, path: Path, depth: int) -> None:
        for table in tables(model, data if isinstance(data, Mapping) else {}, None, path):
            for field in fields_of(table.model).values():
                if not table.spelled(field, self.mode):
                    continue
                self._here.setdefault(field.name, []).append(table.path)
                missing = field.name not in table.data and depth < 4
                variant = field.option.variant
                inner = field.shape.table if variant is None else variant.choose(table.data)
                if missing and inner is not None and not is_open(inner):
                    self._walk(inner, {}, (*table.path, field.name), depth + 1)

    def anywhere(self, key: str) -> str:
        """In words, a table that could declare ``key`` although this document has none such."""
        if key not in _keys_below(self.model):
            return ""
        return next((text for text in _declared(self.model, key, set())), "")

    def nearest(self, word: str, known: Collection[str]) -> str:
        """The known word that ``word`` was probably meant to be; a document gets so many only."""
        self._guesses -= 1
        return nearest(word, known) if self._guesses >= 0 else ""


@cache
def _keys_below(model: type) -> frozenset[str]:
    """Every key that some table below ``model`` declares."""
    found: set[str] = set()
    left, seen = [model], {model}
    while left:
        model = left.pop()
        variant = variant_of(model)
        below = [] if variant is None else [variant.otherwise, *variant.classes.values()]
        for field in fields_of(model).values():
            found.add(field.name)
            items = field.shape.items
            below += [one for one in (field.shape.table, items and items.table) if one]
            if field.option.variant is not None:
                below += [field.option.variant.otherwise, *field.option.variant.classes.values()]
        left += [one for one in below if one not in seen]
        seen.update(below)
    return frozenset(found)


def _declared(model: type, key: str, seen: set[type]) -> list[str]:
    """The kinds of tagged tables below ``model`` that declare ``key``."""
    if model in seen:
        return []
    seen.add(model)
    variant = variant_of(model)
    if variant is not None:
        found = _of(variant, key)
        inner = [variant.otherwise, *variant.classes.values()]
        return found or [text for one in inner for text in _declared(one, key, seen)]
    for field in fields_of(model).values():
        items = field.shape.items
        below: list[type] = [one for one in (field.shape.table, items and items.table) if one]
        if field.option.variant is not None:
            found = _of(field.option.variant, key)
            if found:
                return found
            below += field.option.variant.classes.values()
        for one in below:
            found = _declared(one, key, seen)
            if found:
                return found
            if variant_of(one) is None and key in fields_of(one):
                return [f"{field.name} of another table"]
    return []


def _of(variant: Variant, key: str) -> list[str]:
    whose = f" of {variant.origin}" if variant.origin else ""
    whose += f" (with {variant.within})" if variant.within else ""
    return [f"a {variant.kind} {name}{whose}" for name in owners(variant, key)[:1]]


def unread(key: str, table: Table, homes: Homes) -> Problem | None:
    """The problem of a key that the table's class does not declare; None for the user's own."""
    if owns(table.model, key):
        return None
    at = (*table.path, key)
    declared = fields_of(table.model)
    if key in declared:
        since = declared[key].option.spelled_since
        hint = f"set schema = {since}, or let kvengine migrate rewrite the document"
        return Problem("unknown", at, f"needs a document of schema {since}", hint)
    return _of_another(key, table) or _misplaced(key, table, homes) or _unknown(key, table, homes)


def _of_another(key: str, table: Table) -> Problem | None:
    """A key of another connector, spec or tier."""
    at = (*table.path, key)
    fix = Fix("remove it", (Drop(at),), safe=False)
    for depth, (variant, holder, _) in reversed([*enumerate(table.chosen)]):
        names = owners(variant, key)
        if not names:
            continue
        whose = " and ".join(names[:3]) + (" and others" if len(names) > 3 else "")
        mine = holder.get(variant.tag, variant.default)
        if refuses(table.model):
            says = f"belongs to a {variant.kind} {whose}; {mine} refuses it"
            return Problem("misplaced", at, says, fix=fix)
        if depth > 0:
            wanted = " or ".join(map(show, names))
            says = f"has no effect unless {variant.tag} is {wanted}"
            return Problem("ignored", at, says, f"{mine} does not read it", "warning", fix)
        says = f"is a key of {whose}, not read by {mine}"
        return Problem("unread", at, says, "", "warning", fix)
    return None


def _misplaced(key: str, table: Table, homes: Homes) -> Problem | None:
    at = (*table.path, key)
    elsewhere = [home for home in homes.here(key) if home != table.path]
    if elsewhere:
        home = elsewhere[0]
        where = dotted(home) or "the top level"
        move = Fix(f"move it to {where}", (Move(at, (*home, key)),), safe=len(elsewhere) == 1)
        taken = has(homes.data, (*home, key))
        says = f"belongs to {where}, nothing reads it here"
        return Problem("misplaced", at, says, fix=None if taken else move)
    anywhere = homes.anywhere(key)
    if anywhere:
        return Problem("misplaced", at, f"belongs to {anywhere}, nothing reads it here")
    return None


def _unknown(key: str, table: Table, homes: Homes) -> Problem:
    at = (*table.path, key)
    likely = homes.nearest(key, fields_of(table.model))
    if likely:
        taken = likely in table.data
        rename = Fix(f"rename it {likely}", (Move(at, (*table.path, likely)),), safe=False)
        hint = f"did you mean {likely!r}?"
        return Problem("unknown", at, "is no option", hint, fix=None if taken else rename)
    foreign = table.chosen and homes.nearest(key, keys_of(table.chosen[0][0]))
    drop = Fix("remove it", (Drop(at),), safe=False)
    hint = "keys of your own begin with x-" if OWN_KEYS in own_keys_of(table.model) else ""
    if foreign:
        names = " and ".join(owners(table.chosen[0][0], foreign)[:3])
        hint = f"{foreign!r} is a key of {names}"
    return Problem("unknown", at, "is no option", hint, fix=drop)
