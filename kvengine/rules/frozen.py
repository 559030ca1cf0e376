"""Documents of a released schema, judged by that very schema and explained in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvengine.errors import Path, Problem, show
from kvengine.rules.judge import judge, nearest
from kvengine.rules.modes import Mode
from kvengine.rules.shapes import Field, fields_of
from kvengine.rules.tables import Table, tables
from kvengine.rules.unread import Homes, unread

__all__ = ["frozen_problems"]


def frozen_problems(
    model: type, data: Any, mode: Mode, schema: Mapping[str, Any], homes: Homes
) -> list[Problem]:
    """What the schema refuses, one problem per path."""
    found: dict[Path, Problem] = {}
    for error in _validator(schema).iter_errors(data):
        path = tuple(error.absolute_path)
        for problem in _explain(error, path, model, data, mode, homes):
            found.setdefault(problem.path, problem)
    return [*found.values()]


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft7Validator
    from jsonschema.validators import extend

    def is_integer(_: Any, value: Any) -> bool:
        return type(value) is int

    strict = Draft7Validator.TYPE_CHECKER.redefine("integer", is_integer)
    judge_of: Any = extend(Draft7Validator, type_checker=strict)  # type: ignore[no-untyped-call]
    return judge_of(schema)


def _explain(
    error: Any, path: Path, model: type, data: Any, mode: Mode, homes: Homes
) -> Iterator[Problem]:
    """The problems behind one error of the validator."""
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        table = next((t for t in tables(model, data) if t.path == path), None)
        for key in error.instance:
            if key not in known and not any(re.search(pattern, key) for pattern in patterns):
                problem = unread(key, table or Table(path, error.instance, model), homes)
                yield problem or Problem("unknown", (*path, key), "is no option")
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield Problem("missing", (*path, key), "is required")
    else:
        yield _explain_value(error, path, model, data, mode)


def _explain_value(error: Any, path: Path, model: type, data: Any, mode: Mode) -> Problem:
    held = _field_at(model, data, path)
    if held is not None:
        field, at, value = held
        for problem in judge(value, field, at, mode):
            if problem.severity == "error":
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
