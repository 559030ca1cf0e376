"""A document and its model -> every problem, each with its path.

Every value is judged by its own option, in that option's words; a test holds the published JSON
Schemas to the same verdict. Only documents of a frozen schema are judged by that schema itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from kvengine.errors import Drop, Fix, Move, Path, Problem, Put, show
from kvengine.rules.deprecation import deprecation
from kvengine.rules.judge import judge, meaning
from kvengine.rules.modes import Mode
from kvengine.rules.names import choices, name_problems
from kvengine.rules.options import is_open, refuses
from kvengine.rules.relations import relations_of
from kvengine.rules.releases import NEWEST, Release
from kvengine.rules.shapes import Field, fields_of
from kvengine.rules.tables import Table, tables
from kvengine.rules.unread import Homes, unread

__all__ = ["check"]


def check(
    model: type,
    data: Any,
    *,
    mode: Mode,
    release: Release | None,
    shape: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Every problem of a document, in no order; paths start at its root.

    ``release`` None stands for any release: what one of them reads is read, and relations are
    those of today. ``shape`` is the frozen schema that judges the document, if there is one.
    """
    if not isinstance(data, Mapping):
        return [Problem("type", (), "must be a table of options")]
    problems: list[Problem] = []
    homes = Homes(model, data, mode)
    if shape is not None:
        from kvengine.rules.frozen import frozen_problems

        problems += frozen_problems(model, data, mode, shape, homes)
    wrong = {problem.path for problem in problems}
    for table in tables(model, data, release):
        for problem in _said(table, data, mode, release, homes, shape is None):
            if problem.path not in wrong:
                problems.append(problem)
                if problem.severity == "error":
                    wrong.add(problem.path)
    return problems


def _said(
    table: Table, root: Any, mode: Mode, release: Release | None, homes: Homes, shaped: bool
) -> Iterator[Problem]:
    """Everything there is to say of one table: its relations, its names, its keys, its values."""
    given = _as_read(table, mode, release)
    for relation in relations_of(table.model):
        if (release or NEWEST) in relation.vllm:
            for problem in relation.violations(given):
                yield _inside(problem, table.path)
    for choice in choices(table):
        yield from name_problems(choice, mode, release)
    if shaped:
        yield from _shape(table, mode, release, homes)
    for field, value in table.fields():
        yield from _field_said(field, value, table, root, mode, release)


def _as_read(table: Table, mode: Mode, release: Release | None) -> dict[str, Any]:
    """The table as relations see it: what is read, converted, without nulls that are no choice."""
    declared = fields_of(table.model)
    given = {}
    for key, value in table.data.items():
        field = declared.get(key)
        if field is None:
            given[key] = value
        elif release is not None and release not in field.option.vllm:
            continue
        elif not (value is None and field.option.nullable):
            given[key] = meaning(value, field, mode)
    return given


def _shape(table: Table, mode: Mode, release: Release | None, homes: Homes) -> Iterator[Problem]:
    """Keys that are missing, and keys that nobody reads."""
    declared = fields_of(table.model)
    for field in declared.values():
        if field.option.is_required(release) and field.name not in table.data:
            yield _missing(field, table)
    if is_open(table.model):
        return
    for key in table.data:
        if key not in declared or not table.spelled(declared[key], mode):
            problem = unread(key, table, homes)
            if problem is not None:
                yield problem


def _missing(field: Field, table: Table) -> Problem:
    examples = field.option.examples
    hint = f"add for example {field.name} = {show(examples[0])}" if examples else ""
    return Problem("missing", (*table.path, field.name), "is required", hint)


def _inside(problem: Problem, path: Path) -> Problem:
    """A problem of a table, with its paths led through from the root."""
    fix = problem.fix and evolve(
        problem.fix, changes=tuple(_below(change, path) for change in problem.fix.changes)
    )
    return evolve(problem, path=(*path, *problem.path), fix=fix)


def _below(change: Put | Drop | Move, path: Path) -> Put | Drop | Move:
    at = (*path, *change.path)
    match change:
        case Put():
            return Put(at, change.value)
        case Drop():
            return Drop(at)
    return Move(at, (*path, *change.to))


def _field_said(
    field: Field, value: Any, table: Table, root: Any, mode: Mode, release: Release | None
) -> Iterator[Problem]:
    option, at = field.option, (*table.path, field.name)
    if not table.spelled(field, mode):
        return
    if release is not None and release not in option.vllm:
        yield _other_release(field, at, release, refuses(table.model))
        return
    yield from judge(value, field, at, mode)
    if option.deprecated is not None:
        yield from deprecation(field, value, at, root, counts=mode == "old")
    if release is not None and option.dead is not None and release in option.dead:
        fix = Fix("remove it", (Drop(at),))
        yield Problem("unread", at, f"has no effect in vLLM {release}", "", "info", fix)


def _other_release(field: Field, at: Path, release: Release, refused: bool) -> Problem:
    """A key that other releases read: without effect in this one, or refused."""
    option = field.option
    fix = Fix("remove it", (Drop(at),), safe=False)
    instead = f"use {option.instead} instead" if option.instead else ""
    if not refused:
        says = f"is not read by vLLM {release} (read {option.vllm})"
        return Problem("unread", at, says, instead, "warning", fix)
    says = f"is refused by vLLM {release} (accepted {option.vllm})"
    gone = option.vllm.until is not None and option.vllm.until <= release
    return Problem("removed" if gone else "unread", at, says, instead, fix=fix)
