"""What a check found, as a value: the formats turn it into text."""

from __future__ import annotations

from attrs import frozen

from kvengine.cli.review import Review
from kvengine.cli.settings import Settings
from kvengine.errors import Problem

__all__ = ["Report"]


@frozen(kw_only=True)
class Report:
    """All files of a run in order; ``beside`` are findings that belong to none of them."""

    reviews: tuple[Review, ...]
    beside: tuple[Problem, ...]
    settings: Settings

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every finding that is shown, in the order of the files."""
        inside = (problem for review in self.reviews for problem in review.problems)
        return (*self.beside, *inside)

    @property
    def exit_code(self) -> int:
        """2 if a file could not be read, 1 if a finding is severe enough, else 0."""
        if any(review.document is None for review in self.reviews):
            return 2
        return int(any(map(self.settings.fails, self.problems)))
