"""``--format github``: workflow commands, which GitHub shows at the lines of a change."""

from __future__ import annotations

from kvengine.cli.report import Report, said_path
from kvengine.cli.terminal import plain
from kvengine.errors import Problem

__all__ = ["render"]

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report, *, colour: bool = False) -> str:
    """One command per finding."""
    return "".join(f"{_command(problem)}\n" for problem in report.problems)


def _command(problem: Problem) -> str:
    place = problem.place
    where = {} if place is None else {"file": place.file, "line": place.line, "col": place.column}
    fields = {**where, "title": f"kvengine {problem.code}"}
    given = ",".join(f"{name}={_field(str(value))}" for name, value in fields.items())
    path = f"{said}: " if (said := said_path(problem)) else ""
    hint = f"\nhint: {problem.hint}" if problem.hint else ""
    return f"::{_LEVELS[problem.severity]} {given}::{_data(path + problem.message + hint)}"


def _data(text: str) -> str:
    """Text as the runner unescapes it behind the second pair of colons."""
    return plain(text).replace("%", "%25").replace("\n", "%0A")


def _field(text: str) -> str:
    """The same before it, where commas and colons have a meaning as well."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
