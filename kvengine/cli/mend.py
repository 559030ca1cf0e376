"""``check --fix``: safe fixes applied until none is left, each step checked again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from kvengine.cli.configs import Configs
from kvengine.cli.repairs import with_edits
from kvengine.cli.review import Review, review_bytes
from kvengine.cli.settings import Settings
from kvengine.document import CannotEdit, apply
from kvengine.document.changes import changed, has, same
from kvengine.errors import Edit, Move, Problem

__all__ = ["Mended", "mend"]


@frozen(kw_only=True)
class Mended:
    """A file after its safe fixes: ``applied`` were found and are gone, ``review`` is the rest."""

    review: Review
    applied: tuple[Problem, ...]


_MAX_STEPS = 1000


def mend(review: Review, settings: Settings) -> Mended:
    """Apply every safe fix of a readable file's findings; the file itself is left alone.

    A step counts only if the file still reads, holds exactly the data that the fixes ask for,
    no longer has what they mend, and has neither more findings nor more errors than before.
    """
    applied: list[Problem] = []
    seen = {review.raw}
    for _ in range(_MAX_STEPS):
        fixable = [*_fixable(review)]
        groups = [_apart(fixable), *([problem] for problem in fixable)] if fixable else []
        steps = ((group, _after(review, group, settings)) for group in groups)
        group, after = next(((g, a) for g, a in steps if a and a.raw not in seen), ([], None))
        if after is None:
            break
        seen.add(after.raw)
        applied += group
        review = after
    return Mended(review=review, applied=tuple(applied))


def _fixable(review: Review) -> Iterator[Problem]:
    for problem in with_edits(review.problems, review):
        if problem.fix is not None and problem.fix.safe and not _overwrites(problem, review):
            yield problem


def _overwrites(problem: Problem, review: Review) -> bool:
    """Whether the fix moves something to where another value stands already."""
    data = _data(review.configs)[_index(problem, review)]
    changes = problem.fix.changes if problem.fix else ()
    return any(isinstance(change, Move) and has(data, change.to) for change in changes)


def _index(problem: Problem, review: Review) -> int:
    several = review.configs is not None and review.configs.sources
    return problem.config if several and problem.config is not None else 0


def _data(configs: Configs | None) -> list[Any]:
    """What each config of a file holds; of an own document, all of it."""
    if configs is None:
        return []
    if configs.document is not None:
        return [configs.document.data]
    return [source.data for source in configs.sources]


def _edits(problem: Problem) -> tuple[Edit, ...]:
    return problem.fix.edits if problem.fix else ()


def _apart(problems: Sequence[Problem]) -> list[Problem]:
    """As many of the problems as can be mended at once: their edits do not touch each other."""
    chosen: list[Problem] = []
    taken: list[Edit] = []
    for problem in problems:
        edits = _edits(problem)
        if all(e.end < t.start or t.end < e.start for e in edits for t in taken):
            chosen.append(problem)
            taken += edits
    return chosen


def _after(review: Review, group: Sequence[Problem], settings: Settings) -> Review | None:
    """The file after the group's fixes, or None where that is no step forward."""
    assert review.raw is not None
    raw = apply(review.raw, [edit for problem in group for edit in _edits(problem)])
    after = review_bytes(raw, review.name, settings)
    try:
        wanted = _wanted(review, group)
    except CannotEdit:
        return None
    if after.configs is None or not same(_data(after.configs), wanted):
        return None
    gone = {(problem.code, problem.path) for problem in group}
    stays = any((problem.code, problem.path) in gone for problem in after.found)
    return None if stays or _is_worse(review.found, after.found) else after


def _wanted(review: Review, group: Sequence[Problem]) -> list[Any]:
    """What the configs hold once the group is mended; variables stand beside them."""
    wanted = _data(review.configs)
    for problem in group:
        index = _index(problem, review)
        for change in problem.fix.changes if problem.fix else ():
            if not str(change.path[0]).startswith("env:"):
                wanted[index] = changed(wanted[index], change)
    return wanted


def _is_worse(before: Sequence[Problem], after: Sequence[Problem]) -> bool:
    """Whether there are more findings or more errors, counted without the options' filters."""
    errors = [sum(one.severity == "error" for one in found) for found in (before, after)]
    return errors[1] > errors[0] or len(after) > len(before)
