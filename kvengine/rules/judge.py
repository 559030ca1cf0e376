"""One value against its option: what is wrong with it, in words, and what would mend it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from kvengine.errors import Drop, Fix, Path, Problem, Put, Severity, show
from kvengine.rules.modes import Mode
from kvengine.rules.readings import Outcome
from kvengine.rules.shapes import Field, Shape
from kvengine.units import parse_bytes, plain_number

__all__ = ["judge", "meaning", "nearest", "placeholder"]

_BLANK = r"^<[A-Za-z][A-Za-z0-9 _.:/-]*>$"
_VARIABLE = r"\$\{?[A-Za-z_][A-Za-z0-9_]*|\{\{.*\}\}|\$\("
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,400}\s*")
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}
_SEVERITY: dict[str, Severity] = {
    "coerced": "info",
    "surprising": "warning",
    "inverted": "error",
    "raises": "error",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that ``word`` was probably meant to be, or nothing."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, [*known], n=1, cutoff=0.7)), "")


def judge(value: Any, field: Field, path: Path, mode: Mode) -> list[Problem]:
    """What is to be said of a value that stands at ``path``, a table's content left aside."""
    items = field.shape.items
    if isinstance(value, list) and items is not None:
        each = evolve(field, shape=items, option=evolve(field.option, nullable=False))
        return [
            problem
            for index, item in enumerate(value)
            for problem in judge(item, each, (*path, index), mode)
        ]
    problem = placeholder(value, path, mode) or _judge(value, field, path, mode)
    return [problem] if problem is not None else []


def placeholder(value: Any, path: Path = (), mode: Mode = "release") -> Problem | None:
    """The problem of a text that stands for a value still to be filled in."""
    if not isinstance(value, str):
        return None
    if re.search(_BLANK, value):
        says = f"still holds the placeholder {show(value)}"
        return Problem("placeholder", path, says, "fill in the value")
    if mode == "release" and re.search(_VARIABLE, value):
        says = f"is {show(value)}, known only when the variable is"
        return Problem("placeholder", path, says, "its value was not checked", "info")
    return None


def _judge(value: Any, field: Field, path: Path, mode: Mode) -> Problem | None:
    if mode == "old" and field.name == "schema":
        return None
    if mode == "release":
        if value is None and field.option.nullable:
            return None
        outcome = field.option.reading.read(value)
        if outcome is not None:
            return _read_by_engine(value, outcome, field, path)
    else:
        outcome = field.option.reading.read(value) if _has_own_spelling(field) else None
        if outcome is not None:
            if outcome.verdict == "raises":
                return Problem(outcome.code, path, outcome.says, _hint(field))
            return _range(outcome.value, field, path)
        if mode == "old" and field.shape.scalars == ("boolean",) and isinstance(value, str):
            if value.lower() in ("true", "false"):
                return None
            return Problem("type", path, f"must be true or false, not the text {show(value)}")
    return _type(value, field, path) or _range(value, field, path)


def meaning(value: Any, field: Field, mode: Mode) -> Any:
    """The value that the engine takes from an accepted ``value``; itself if it is plain."""
    if mode == "old" and field.shape.scalars == ("boolean",) and isinstance(value, str):
        return _WORDS.get(value.lower(), value)
    if mode == "release" or _has_own_spelling(field):
        outcome = field.option.reading.read(value)
        if outcome is not None and outcome.verdict != "raises":
            return outcome.value
    return value


def _has_own_spelling(field: Field) -> bool:
    return field.option.reading.strict_schema() is not None


def _hint(field: Field) -> str:
    option = field.option
    return f"write for example {show(option.examples[0])}" if option.examples else ""


def _advice(fix: Fix | None, field: Field) -> str:
    """The value that a fix would write, or an example of a right one."""
    if fix is not None and isinstance(fix.changes[0], Put):
        return f"write {show(fix.changes[0].value)}"
    return _hint(field)


def _read_by_engine(value: Any, outcome: Outcome, field: Field, path: Path) -> Problem | None:
    """The problem of a value that the release converts, refuses or misreads."""
    if outcome.verdict == "raises":
        fix = _convert(value, field, path)
        return Problem(outcome.code, path, outcome.says, _advice(fix, field), fix=fix)
    wrong = _range(outcome.value, field, path)
    if wrong is None and field.shape.choices and outcome.value is not None:
        wrong = _type(outcome.value, field, path)
    if wrong is not None or outcome.verdict == "exact":
        return wrong
    written: Any = outcome.value
    if written is None:
        drop = Fix("remove it", (Drop(path),))
        return Problem("coerced", path, outcome.says, "leave it out", "info", drop)
    hint = f"write {show(written)}"
    if outcome.verdict == "inverted":
        written = not outcome.value
        hint = f"write {show(written)} if that is meant, {show(outcome.value)} otherwise"
    safe = outcome.verdict == "coerced"
    fix = Fix(f"write {show(written)}", (Put(path, written),), safe=safe)
    return Problem("coerced", path, outcome.says, hint, _SEVERITY[outcome.verdict], fix)


def _expected(shape: Shape) -> str:
    names = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}
    parts = [names.get(scalar, "a text") for scalar in shape.scalars]
    parts += ["one of " + ", ".join(show(choice) for choice in shape.choices)] * bool(shape.choices)
    parts += ["a table"] * (shape.table is not None or shape.free_table)
    if shape.items is not None:
        inner = _expected(shape.items)
        parts.append("a list" if inner == "a table" else f"a list ({inner} each)")
    return " or ".join(parts)


def _found(value: Any) -> str:
    match value:
        case str():
            return f"the text {show(value)}"
        case dict():
            return "a table"
        case list():
            return "a list"
    return show(value)


def _is_a(value: Any, shape: Shape) -> bool:
    match value:
        case bool():
            return "boolean" in shape.scalars
        case int():
            return "integer" in shape.scalars or "number" in shape.scalars or value in shape.choices
        case float():
            return "number" in shape.scalars
        case str():
            return "string" in shape.scalars or value in shape.choices
        case dict():
            return shape.table is not None or shape.free_table
        case list():
            return shape.items is not None
    return False


def _type(value: Any, field: Field, path: Path) -> Problem | None:
    shape = field.shape
    if _is_a(value, shape):
        return None
    if shape.choices and isinstance(value, str):
        likely = nearest(value.lower(), [c for c in shape.choices if isinstance(c, str)])
        fix = Fix(f"write {show(likely)}", (Put(path, likely),), safe=False) if likely else None
        hint = f"did you mean {show(likely)}?" if likely else ""
        message = f"must be {_expected(shape)}, not {show(value)}"
        return Problem("choice", path, message, hint, fix=fix)
    if value is None:
        fix = Fix("remove it", (Drop(path),), safe=not field.option.required)
        return Problem(
            "type", path, f"must be {_expected(shape)}, not null", "leave it out instead", fix=fix
        )
    fix = _convert(value, field, path)
    hint = _advice(fix, field)
    return Problem("type", path, f"must be {_expected(shape)}, not {_found(value)}", hint, fix=fix)


def _convert(value: Any, field: Field, path: Path) -> Fix | None:
    """A value of the right type that says the same, where there is just one."""
    wanted: Any = None
    kinds = field.shape.scalars
    text = isinstance(value, str) and _WHOLE.fullmatch(value)
    if "integer" in kinds and (text or (type(value) is float and value.is_integer())):
        wanted = int(value)
    elif "boolean" in kinds and isinstance(value, str) and value.lower() in _WORDS:
        wanted = _WORDS[value.lower()]
    elif kinds == ("boolean",) and type(value) is int and value in (0, 1):
        return Fix(f"write {show(bool(value))}", (Put(path, bool(value)),), safe=False)
    elif "integer" in kinds and field.option.unit == "bytes" and isinstance(value, str):
        try:
            size = parse_bytes(value)
        except ValueError:
            return None
        return Fix(f"write {size}", (Put(path, size),), safe=False)
    if wanted is None or _range(wanted, field, path) is not None:
        return None
    return Fix(f"write {show(wanted)}", (Put(path, wanted),))


def _range(value: Any, field: Field, path: Path) -> Problem | None:
    option = field.option
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None
    if option.ge is not None and value < option.ge:
        return Problem("range", path, f"must be at least {plain_number(option.ge)}, not {value}")
    if option.le is not None and value > option.le:
        return Problem("range", path, f"must be at most {plain_number(option.le)}, not {value}")
    if option.gt is not None and value <= option.gt:
        return Problem("range", path, f"must be above {plain_number(option.gt)}, not {value}")
    return None
