"""What mends a finding, in bytes of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from kvengine.cli.review import Review
from kvengine.document import CannotEdit, edits
from kvengine.errors import Edit, Problem

__all__ = ["with_edits"]

_BUDGET_BYTES = 1 << 18
"""Text that is parsed at most to find edits: each one reads the whole file."""


def with_edits(problems: Iterable[Problem], review: Review) -> Iterator[Problem]:
    """The problems, each fix with its edits; one that the file does not allow is left out."""
    left = _BUDGET_BYTES
    for problem in problems:
        if problem.fix is None or problem.fix.edits:
            yield problem
            continue
        left -= len(review.raw or b"")
        found = _edits(problem, review) if left > 0 else ()
        yield evolve(problem, fix=evolve(problem.fix, edits=found) if found else None)


def _edits(problem: Problem, review: Review) -> tuple[Edit, ...]:
    assert problem.fix is not None
    assert review.configs is not None
    try:
        if review.configs.document is not None:
            return edits(review.configs.document, problem.fix.changes)
        if problem.config is not None:
            return review.configs.sources[problem.config].edits(problem.fix.changes)
    except CannotEdit:
        pass
    return ()
