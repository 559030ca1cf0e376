"""Deprecated options: the warning, and the changes that carry their meaning over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvengine.document.changes import at as value_at
from kvengine.document.changes import has
from kvengine.errors import Drop, Fix, Path, Problem, Put, show
from kvengine.rules.shapes import Field

__all__ = ["carried_over", "deprecation"]


def carried_over(field: Field, value: Any, at: Path, root: Any) -> tuple[Put | Drop, ...]:
    """The changes after which ``root`` says the same without the deprecated option.

    What already stands in the new place wins. A table left empty goes as well.
    """
    deprecated = field.option.deprecated
    assert deprecated is not None
    alone = at[:-1] and [*value_at(root, at[:-1])] == [field.name]
    changes: list[Put | Drop] = [Drop(at[:-1] if alone else at)]
    outcome = field.option.reading.read(value)
    on = outcome is not None and outcome.value is True
    if on and deprecated.moves_to and not has(root, deprecated.moves_to):
        changes.append(Put(deprecated.moves_to, True))
    return tuple(changes)


def deprecation(
    field: Field, value: Any, at: Path, root: Any, *, counts: bool
) -> Iterator[Problem]:
    """The warnings about a deprecated option; ``counts``: whether it still has its meaning."""
    deprecated = field.option.deprecated
    assert deprecated is not None
    fix = Fix(f"use {deprecated.use}", carried_over(field, value, at, root))
    yield Problem(
        "deprecated",
        at,
        f"is deprecated, use {deprecated.use} instead",
        deprecated.because,
        "warning",
        fix,
    )
    outcome = field.option.reading.read(value)
    if counts and outcome is not None and deprecated.moves_to and has(root, deprecated.moves_to):
        winner = value_at(root, deprecated.moves_to)
        if str(winner).lower() != str(outcome.value).lower():
            yield Problem(
                "conflict",
                at,
                f"says {show(outcome.value)}, but {deprecated.use} says {show(winner)} and wins",
                "keep one of the two",
                "warning",
                Fix("remove it", (Drop(at),)),
            )
