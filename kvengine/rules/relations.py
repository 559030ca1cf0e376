"""Relations between options, as values: who may stand next to whom.

Each relation knows which tables violate it, how JSON Schema says it and how a sentence does.
Relations look at the keys that the user gave; a null that the engine takes for "not given"
does not count, and a default is not a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Protocol, TypeVar

from attrs import frozen

from kvengine.errors import Drop, Fix, Problem, Severity, show
from kvengine.rules.releases import ALWAYS, Releases

__all__ = ["AtMostOne", "IgnoredUnless", "Relation", "Requires", "relations_of", "rules"]

T = TypeVar("T")


class Relation(Protocol):
    """What every relation offers."""

    @property
    def vllm(self) -> Releases:
        """The releases in which it holds."""

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """The problems of a table, with paths that start inside it."""

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """JSON Schemas that the table has to meet; ``nullable``: keys whose null is no choice."""

    def as_sentence(self) -> str:
        """The relation for the reference page."""


def rules(*relations: Relation) -> Callable[[type[T]], type[T]]:
    """Attach relations to an attrs class, behind those that it inherits."""

    def attach(model: type[T]) -> type[T]:
        model.__relations__ = (*relations_of(model), *relations)  # type: ignore[attr-defined]
        return model

    return attach


def relations_of(model: type) -> tuple[Relation, ...]:
    """The relations of an attrs class."""
    found: tuple[Relation, ...] = getattr(model, "__relations__", ())
    return found


def _given(key: str, nullable: Set[str], then: dict[str, Any]) -> dict[str, Any]:
    """A schema that asks for ``then`` once ``key`` is given."""
    if key in nullable:
        condition = {"properties": {key: {"not": {"type": "null"}}}, "required": [key]}
        return {"if": condition, "then": then}
    return {"dependencies": {key: then}}


@frozen
class AtMostOne:
    """A table gives at most one of ``names``; the one given later is the problem."""

    names: tuple[str, ...]
    because: str
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every further name."""
        first, *others = [key for key in given if key in self.names] or [""]
        for other in others:
            yield Problem(
                "exclusive",
                (other,),
                f"cannot be combined with {first!r}",
                self.because,
                fix=Fix(f"remove {other}", (Drop((other,)),), safe=False),
            )

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """The mark lands on the line of the name declared later (VS Code, taplo, tombi)."""
        schemas = []
        for position, name in enumerate(self.names):
            for other in self.names[position + 1 :]:
                never: dict[str, Any] = {"type": "null"} if other in nullable else {"not": {}}
                message = f"cannot be combined with {name!r}: {self.because}"
                then = {"properties": {other: {**never, "errorMessage": message}}}
                schemas.append(_given(name, nullable, then))
        return schemas

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"At most one of {', '.join(self.names)}: {self.because}."


@frozen
class Requires:
    """A table that gives ``name`` gives every one of ``needs``."""

    name: str
    needs: tuple[str, ...]
    because: str
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every missing name, at the place where it belongs."""
        for need in self.needs:
            if self.name in given and need not in given:
                yield Problem("missing", (need,), f"is required with {self.name!r}", self.because)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """``name`` brings ``needs``, none of them null."""
        then: dict[str, Any] = {"required": [*self.needs]}
        null = [need for need in self.needs if need in nullable]
        if null:
            then["properties"] = {need: {"not": {"type": "null"}} for need in null}
        return [_given(self.name, nullable, then)]

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"{self.name} needs {', '.join(self.needs)}: {self.because}."


@frozen
class IgnoredUnless:
    """``name`` has no effect unless ``key`` holds one of ``values`` (any value, if empty)."""

    name: str
    key: str
    because: str
    values: tuple[Any, ...] = ()
    vllm: Releases = ALWAYS
    severity: Severity = "warning"

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem where ``name`` is given in vain."""
        if self.name not in given:
            return
        if (given.get(self.key) in self.values) if self.values else (self.key in given):
            return
        wanted = f"{self.key} is {' or '.join(show(v) for v in self.values)}"
        yield Problem(
            "ignored",
            (self.name,),
            f"has no effect unless {wanted if self.values else f'{self.key} is given'}",
            self.because,
            self.severity,
        )

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """A warning is accepted: nothing to say."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"{self.name} is ignored unless {self.key} says so: {self.because}."
