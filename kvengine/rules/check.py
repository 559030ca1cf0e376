"""A document and its model -> every problem, each with its path.

The generated JSON Schema decides whether a value has the right shape; this module says why, in
the words of the option, and adds what a schema cannot know: relations, releases, conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from attrs import evolve, frozen

from kvengine.errors import Drop, Fix, Move, Path, Problem, Put, dotted, show
from kvengine.rules.deprecation import deprecation
from kvengine.rules.jsonschema import Mode, object_schema
from kvengine.rules.judge import judge, nearest
from kvengine.rules.options import is_open, own_keys_of
from kvengine.rules.relations import relations_of
from kvengine.rules.releases import Release
from kvengine.rules.shapes import Field, fields_of, resolve, table_of

__all__ = ["Table", "check", "shape_problems", "tables"]


@frozen
class Table:
    """One table of a document, and the class that describes it."""

    path: Path
    data: Mapping[str, Any]
    model: type

    def fields(self) -> Iterator[tuple[Field, Any]]:
        """The declared keys that are given, with their values."""
        declared = fields_of(self.model)
        return ((declared[key], value) for key, value in self.data.items() if key in declared)


def tables(model: type, data: Any, path: Path = ()) -> Iterator[Table]:
    """Every table that the model describes, from the outside in."""
    if not isinstance(data, Mapping):
        return
    here = Table(path, data, resolve(model, data))
    yield here
    for field, value in here.fields():
        inner = table_of(field, data)
        if inner is not None:
            yield from tables(inner, value, (*path, field.name))
        elif field.shape.items is not None and field.shape.items.table and isinstance(value, list):
            for index, item in enumerate(value):
                yield from tables(field.shape.items.table, item, (*path, field.name, index))


def check(
    model: type, data: Any, *, mode: Mode, release: Release, shape: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Every problem of a document, in no order; paths start at its root.

    ``shape`` is the schema that judges it, if not the generated one.
    """
    problems = shape_problems(model, data, mode, shape)
    wrong = {problem.path for problem in problems}
    for table in tables(model, data):
        said = _said(table, data, mode, release)
        problems += (found for found in said if found.path not in wrong)
    return problems


def shape_problems(
    model: type, data: Any, mode: Mode, schema: Mapping[str, Any] | None = None
) -> list[Problem]:
    """What the schema refuses, one problem per path."""
    found: dict[Path, Problem] = {}
    homes = cache(lambda: _homes(model, data))
    for error in _validator(model, mode, schema).iter_errors(data):
        path = tuple(error.absolute_path)
        for problem in _explain(error, path, model, data, mode, homes):
            found.setdefault(problem.path, problem)
    return [*found.values()]


def _validator(model: type, mode: Mode, schema: Mapping[str, Any] | None) -> Any:
    from jsonschema import Draft7Validator
    from jsonschema.validators import extend

    def is_integer(_: Any, value: Any) -> bool:
        return type(value) is int

    strict = Draft7Validator.TYPE_CHECKER.redefine("integer", is_integer)
    judge_of: Any = extend(Draft7Validator, type_checker=strict)  # type: ignore[no-untyped-call]
    return judge_of(schema or object_schema(model, mode, relations=False))


def _explain(
    error: Any,
    path: Path,
    model: type,
    data: Any,
    mode: Mode,
    homes: Callable[[], Mapping[str, list[Path]]],
) -> Iterator[Problem]:
    """The problems behind one error of the validator."""
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        table = next((t for t in tables(model, data) if t.path == path), None)
        for key in error.instance:
            if key not in known and not _own(key, error.schema.get("patternProperties", {})):
                yield _unknown(key, table or Table(path, error.instance, model), homes())
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield _missing(key, path, model, data)
    else:
        yield _explain_value(error, path, model, data, mode)


def _explain_value(error: Any, path: Path, model: type, data: Any, mode: Mode) -> Problem:
    held = _field_at(model, data, path)
    if held is not None:
        field, at, value = held
        problem = judge(value, field, at, mode)
        if problem is not None and problem.severity == "error":
            return problem
    if error.validator == "enum" and isinstance(error.instance, str):
        likely = nearest(error.instance, map(str, error.validator_value))
        names = ", ".join(show(choice) for choice in error.validator_value)
        hint = f"did you mean {show(likely)}?" if likely else ""
        return Problem("choice", path, f"must be one of {names}, not {show(error.instance)}", hint)
    if not path:
        return Problem("type", path, "must be a table of options", "see kvengine explain type")
    return Problem("type", path, f"is not accepted: {error.message[:200]}")


def _field_at(model: type, data: Any, path: Path) -> tuple[Field, Path, Any] | None:
    """The innermost option on the way to ``path``, where it stands and what it holds."""
    best = None
    for table in tables(model, data):
        depth = len(table.path)
        if table.path == path[:depth] and len(path) > depth:
            field = fields_of(table.model).get(str(path[depth]))
            if field is not None and field.name in table.data:
                best = field, path[: depth + 1], table.data[field.name]
    return best


def _own(key: str, patterns: Mapping[str, Any]) -> bool:
    import re

    return any(re.search(pattern, key) for pattern in patterns)


def _missing(key: str, path: Path, model: type, data: Any) -> Problem:
    table = next((t for t in tables(model, data) if t.path == path), None)
    field = fields_of(table.model).get(key) if table else None
    hint = ""
    if field is not None and field.option.examples:
        hint = f"add for example {key} = {show(field.option.examples[0])}"
    return Problem("missing", (*path, key), "is required", hint)


def _unknown(key: str, table: Table, homes: Mapping[str, list[Path]]) -> Problem:
    """A key that nothing reads where it stands: misplaced, misspelt or simply unknown."""
    at = (*table.path, key)
    if key in fields_of(table.model):
        since = fields_of(table.model)[key].option.spelled_since
        hint = f"set schema = {since}, or let kvengine migrate rewrite the document"
        return Problem("unknown", at, f"needs a document of schema {since}", hint)
    elsewhere = [home for home in homes.get(key, []) if home != table.path]
    if elsewhere:
        home = elsewhere[0]
        where = dotted(home) or "the top level"
        move = Fix(f"move it to {where}", (Move(at, (*home, key)),), safe=len(elsewhere) == 1)
        return Problem("misplaced", at, f"belongs to {where}, nothing reads it here", fix=move)
    likely = nearest(key, fields_of(table.model))
    if likely:
        taken = likely in table.data
        fix = (
            None if taken else Fix(f"rename it {likely}", (Move(at, (*table.path, likely)),), False)
        )
        return Problem("unknown", at, "is no option", f"did you mean {likely!r}?", fix=fix)
    drop = Fix("remove it", (Drop(at),), safe=False)
    mine = own_keys_of(table.model)
    hint = "keys of your own begin with x-" if "^x-" in mine else ""
    return Problem("unknown", at, "is no option", hint, fix=drop)


def _homes(model: type, data: Any) -> dict[str, list[Path]]:
    """Key -> the tables that declare it, given or not."""
    homes: dict[str, list[Path]] = {}

    def walk(model: type, data: Any, path: Path, depth: int) -> None:
        table = data if isinstance(data, Mapping) else {}
        chosen = resolve(model, table)
        for field in fields_of(chosen).values():
            homes.setdefault(field.name, []).append(path)
            inner = table_of(field, table)
            if inner is not None and depth < 4 and not is_open(inner):
                walk(inner, table.get(field.name), (*path, field.name), depth + 1)

    walk(model, data, (), 0)
    return homes


def _said(table: Table, root: Any, mode: Mode, release: Release) -> Iterator[Problem]:
    """What is to be said of a table whose shape is right."""
    nullable = {f.name for f in fields_of(table.model).values() if f.option.nullable}
    given = {
        key: value for key, value in table.data.items() if not (value is None and key in nullable)
    }
    for relation in relations_of(table.model):
        if release in relation.vllm:
            for problem in relation.violations(given):
                yield _inside(problem, table.path)
    for field, value in table.fields():
        yield from _field_said(field, value, table, root, mode, release)


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
    field: Field, value: Any, table: Table, root: Any, mode: Mode, release: Release
) -> Iterator[Problem]:
    option, at = field.option, (*table.path, field.name)
    problem = judge(value, field, at, mode)
    if problem is not None and table_of(field, table.data) is None:
        yield problem
    if option.deprecated is not None:
        yield from deprecation(field, value, at, root, counts=mode == "old")
    if release not in option.vllm:
        yield _other_release(field, at, release)
    elif option.dead is not None and release in option.dead:
        fix = Fix("remove it", (Drop(at),))
        yield Problem("unread", at, f"has no effect in vLLM {release}", "", "info", fix)


def _other_release(field: Field, at: Path, release: Release) -> Problem:
    option = field.option
    fix = Fix("remove it", (Drop(at),), safe=False)
    if option.dead is not None:
        return Problem(
            "removed", at, f"is refused by vLLM {release} (accepted {option.vllm})", "", fix=fix
        )
    instead = f"use {option.instead} instead" if option.instead else ""
    return Problem(
        "unread",
        at,
        f"is not read by vLLM {release} (read {option.vllm})",
        instead,
        "warning",
        fix,
    )
