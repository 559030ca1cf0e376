"""Relations between options, as values: who may stand next to whom.

Each relation knows which tables violate it, how JSON Schema says it and how a sentence does.
Relations look at the keys that the user gave; a null that the engine takes for "not given"
does not count, and a default is not a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Protocol, TypeVar

from attrs import frozen

from kvengine.errors import Drop, Fix, Path, Problem, Severity, show
from kvengine.rules.conditions import Absent, Condition, Given, all_of
from kvengine.rules.releases import ALWAYS, Releases

__all__ = [
    "AtMostOne",
    "Elsewhere",
    "Fault",
    "IgnoredUnless",
    "Relation",
    "Requires",
    "relations_of",
    "rules",
]

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


def _never(names: tuple[str, ...], message: str) -> dict[str, Any]:
    """A schema that refuses keys; as names, for an editor would offer properties."""
    return {"propertyNames": {"not": {"enum": [*names]}, "errorMessage": message}}


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


@frozen
class Fault:
    """A table in which ``at`` holds and every one of ``when`` too is at fault.

    The problem stands at the key of ``at``; ``says`` completes "*this option* ..." and may quote
    ``{value}``. Only errors are said in JSON Schema; ``foreign`` keys, which the table does not
    declare, in such a way that no editor offers them.
    """

    at: Condition
    says: str
    because: str
    when: tuple[Condition, ...] = ()
    code: str = "conflict"
    severity: Severity = "error"
    vllm: Releases = ALWAYS
    foreign: bool = False

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem if everything holds."""
        if self.at.holds(given) and all(one.holds(given) for one in self.when):
            key = self.at.key
            path: Path = (key,)
            says = self.says.replace("{value}", show(given.get(key)))
            fix = None
            if self.severity != "error" and key in given:
                fix = Fix(f"remove {key}", (Drop(path),), safe=False)
            yield Problem(self.code, path, says, self.because, self.severity, fix)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Where ``when`` holds, the key must not be as ``at`` has it; the mark is on its line."""
        if self.severity != "error":
            return []
        if self.foreign:
            return [{"not": all_of((self.at, *self.when), nullable)}]
        key = self.at.key
        if isinstance(self.at, Given) and not self.when and key not in nullable:
            return [_never((key,), f"{self.says.replace('{value}', 'this')}: {self.because}")]
        then: dict[str, Any]
        if isinstance(self.at, Absent):
            then = {"required": [key]}
            if key in nullable:
                then["properties"] = {key: {"not": {"type": "null"}}}
        else:
            refused = self.at.value_schema(key in nullable)
            message = f"{self.says.replace('{value}', 'this')}: {self.because}"
            then = {"properties": {key: {"not": refused, "errorMessage": message}}}
        if not self.when:
            return [then]
        return [{"if": all_of(self.when, nullable), "then": then}]

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"{self.at.key} {self.says.replace('{value}', 'this')}: {self.because}."


@frozen
class Elsewhere:
    """Keys that people put into this table although their home is ``home``, outside of it."""

    names: tuple[str, ...]
    home: str
    because: str = ""
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every such key."""
        for name in given:
            if name in self.names:
                says = f"belongs to {self.home}, nothing reads it here"
                fix = Fix(f"remove {name}", (Drop((name,)),), safe=False)
                yield Problem("misplaced", (name,), says, self.because, fix=fix)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """None of the keys."""
        return [_never(self.names, f"belongs to {self.home}")]

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        tail = f": {self.because}" if self.because else ""
        return f"{', '.join(self.names)} belong to {self.home}{tail}."
