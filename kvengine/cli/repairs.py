"""What mends a finding, in bytes of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from kvengine.document import CannotEdit, Document, edits
from kvengine.errors import Edit, Fix, Problem

__all__ = ["with_edits"]

_BUDGET_BYTES = 1 << 20
"""Text that is parsed at most to find edits: each one reads the whole file."""


def with_edits(problems: Iterable[Problem], document: Document) -> Iterator[Problem]:
    """The problems, each fix with its edits; one that the file does not allow is left out."""
    left = _BUDGET_BYTES
    for problem in problems:
        if problem.fix is None or problem.fix.edits:
            yield problem
            continue
        left -= len(document.raw)
        found = _edits(document, problem.fix) if left > 0 else ()
        yield evolve(problem, fix=evolve(problem.fix, edits=found) if found else None)


def _edits(document: Document, fix: Fix) -> tuple[Edit, ...]:
    try:
        return edits(document, fix.changes)
    except CannotEdit:
        return ()
