"""What a check found, as a value: the formats turn it into text."""

from __future__ import annotations

from attrs import frozen

from kvengine.cli.review import Review
from kvengine.cli.settings import Settings
from kvengine.errors import Problem, dotted

__all__ = ["Report", "said_path"]


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
        if any(review.configs is None for review in self.reviews):
            return 2
        return int(any(map(self.settings.fails, self.problems)))


def said_path(problem: Problem) -> str:
    """The path that people are shown: of a config inside a text, the one within the config."""
    inner = problem.config_path
    if inner and problem.path[-len(inner) :] != inner:
        return dotted(inner)
    return dotted(problem.path)
