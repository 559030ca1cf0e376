"""``--format text``: findings for people, each with its line and a mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvengine.cli.configs import text_of
from kvengine.cli.report import Report, said_path
from kvengine.cli.review import Review
from kvengine.cli.terminal import painted, plain
from kvengine.document import Document, excerpt
from kvengine.errors import Problem

__all__ = ["counted", "render", "render_problem"]


def render(report: Report, *, colour: bool) -> str:
    """Every finding, then how many there are; a short line when there is none."""
    if not report.problems:
        return painted("ok", "good", colour=colour) + f": {_files(report.reviews)}\n"
    parts = [render_problem(problem, None, colour=colour) for problem in report.beside]
    for review in report.reviews:
        source = _source(review)
        parts += (render_problem(problem, source, colour=colour) for problem in review.problems)
    return "".join((*parts, f"{counted(report.problems)} in {_count(report.reviews)}\n"))


def render_problem(problem: Problem, source: Document | None, *, colour: bool) -> str:
    """One finding: where, what, the line in the file, the hint, and whether --fix mends it."""
    place = f"{painted(plain(str(problem.place)), 'file', colour=colour)}: " * bool(problem.place)
    severity = painted(problem.severity, problem.severity, colour=colour)
    path = f"{plain(where)}: " if (where := said_path(problem)) else ""
    code = painted(f"[{problem.code}]", "quiet", colour=colour)
    lines = [f"{place}{severity}: {path}{plain(problem.message)} {code}"]
    if problem.place is not None and source is not None:
        lines.append(excerpt(source, problem.place))
    lines += (f"  {line}" for line in _notes(problem))
    return "\n".join(lines) + "\n"


def _notes(problem: Problem) -> Iterator[str]:
    if problem.hint:
        yield f"hint: {plain(problem.hint)}"
    if problem.fix is not None and problem.fix.edits and problem.fix.safe:
        yield f"fix: {plain(problem.fix.title)} (kvengine check --fix does it)"


def _source(review: Review) -> Document | None:
    """The text that excerpts are cut from, if the file has one."""
    if review.raw is None:
        return None
    if review.configs is not None and review.configs.document is not None:
        return review.configs.document
    return text_of(review.raw, review.name)


def counted(problems: Iterable[Problem]) -> str:
    """``2 errors, 1 warning, 3 infos``."""
    severities = [problem.severity for problem in problems]
    counts = ((severities.count(name), name) for name in ("error", "warning", "info"))
    return ", ".join(f"{number} {name}{'s' * (number != 1)}" for number, name in counts if number)


def _count(reviews: Sequence[Review]) -> str:
    return f"{len(reviews)} file{'s' * (len(reviews) != 1)}"


def _files(reviews: Sequence[Review]) -> str:
    return plain(reviews[0].name) if len(reviews) == 1 else _count(reviews)
