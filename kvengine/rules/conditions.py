"""Conditions on one table, as values: what rules between options are made of.

Each knows whether a table meets it, and how JSON Schema says that. Tables are taken as the
engine reads them: values converted, a null that means "not given" left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any, ClassVar, Protocol

from attrs import frozen

__all__ = [
    "Absent",
    "AnyMatches",
    "AnyUnlike",
    "AtLeast",
    "Condition",
    "Filled",
    "Given",
    "HasItem",
    "In",
    "LacksItem",
    "Matches",
    "NotIn",
    "On",
    "Several",
    "Unlike",
    "all_of",
]

Json = dict[str, Any]
_NOTHING: Json = {"enum": [None, False, 0, "", [], {}]}


class Condition(Protocol):
    """What every condition offers."""

    @property
    def key(self) -> str:
        """The option it is about."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""

    def value_schema(self, nullable: bool) -> Json:
        """JSON Schema of the values of ``key`` that meet it."""

    @property
    def when_absent(self) -> bool:
        """Whether a table without ``key`` meets it."""


def all_of(conditions: tuple[Condition, ...], nullable: Set[str]) -> Json:
    """JSON Schema of the tables that meet every condition; each key at most once."""
    assert len({one.key for one in conditions}) == len(conditions)
    schema: Json = {
        "properties": {one.key: one.value_schema(one.key in nullable) for one in conditions}
    }
    required = [one.key for one in conditions if not one.when_absent]
    return {**schema, "required": required} if required else schema


@frozen
class _Keyed:
    key: str
    when_absent: ClassVar[bool] = False


@frozen
class _Valued(_Keyed):
    values: tuple[Any, ...]


@frozen
class _Patterned(_Keyed):
    pattern: str


@frozen
class _Tagged(_Keyed):
    tag: str
    values: tuple[str, ...]


class Given(_Keyed):
    """The table gives ``key``."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return self.key in table

    def value_schema(self, nullable: bool) -> Json:
        """Anything but a null that is no choice."""
        return {"not": {"type": "null"}} if nullable else {}


class Absent(_Keyed):
    """The table does not give ``key``."""

    when_absent = True

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return self.key not in table

    def value_schema(self, nullable: bool) -> Json:
        """Nothing but a null that is no choice."""
        return {"type": "null"} if nullable else {"not": {}}


@frozen
class In:
    """``key`` holds one of ``values``; with ``when_absent`` that is also its default."""

    key: str
    values: tuple[Any, ...]
    when_absent: bool = False

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return table[self.key] in self.values if self.key in table else self.when_absent

    def value_schema(self, nullable: bool) -> Json:
        """The values."""
        return {"enum": [*self.values, None] if nullable and self.when_absent else [*self.values]}


class NotIn(_Valued):
    """``key`` is given and holds none of ``values``."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return self.key in table and table[self.key] not in self.values

    def value_schema(self, nullable: bool) -> Json:
        """Everything but the values."""
        return {"not": {"enum": [*self.values, None] if nullable else [*self.values]}}


class On(_Keyed):
    """``key`` is given and switched on."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return bool(table.get(self.key))

    def value_schema(self, nullable: bool) -> Json:
        """Everything that is true to ``bool()``."""
        return {"not": _NOTHING}


class Filled(_Keyed):
    """``key`` holds a list or a table that is not empty."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return isinstance(table.get(self.key), (list, Mapping)) and bool(table[self.key])

    def value_schema(self, nullable: bool) -> Json:
        """Lists and objects with something in them."""
        return {"type": ["array", "object"], "minItems": 1, "minProperties": 1}


@frozen
class AtLeast:
    """``key`` is given and holds at least ``least``, 2 or more, as a number or as text."""

    key: str
    least: int
    when_absent: bool = False

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        value = table.get(self.key)
        return isinstance(value, (int, float)) and value >= self.least

    def value_schema(self, nullable: bool) -> Json:
        """Numbers, and texts of digits."""
        assert 2 <= self.least <= 9
        text = rf"^\s*\+?[0_]*([{self.least}-9]|[1-9][0-9_]*[0-9])\s*$"
        return {"type": ["number", "string"], "minimum": self.least, "pattern": text}


class Matches(_Patterned):
    """``key`` holds a text that ``pattern`` matches; one that is still to be filled in does not."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        value = table.get(self.key)
        return isinstance(value, str) and re.search(self.pattern, value) is not None

    def value_schema(self, nullable: bool) -> Json:
        """Texts of the pattern."""
        return {"type": "string", "pattern": self.pattern}


class Unlike(_Patterned):
    """``key`` holds a text that ``pattern`` does not match."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        value = table.get(self.key)
        return isinstance(value, str) and re.search(self.pattern, value) is None

    def value_schema(self, nullable: bool) -> Json:
        """Texts of other forms."""
        return {"type": "string", "not": {"pattern": self.pattern}}


class AnyMatches(_Patterned):
    """``key`` holds a text that ``pattern`` matches, or a list with such a text."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return any(re.search(self.pattern, text) for text in _texts(table.get(self.key)))

    def value_schema(self, nullable: bool) -> Json:
        """Such texts, and lists that contain one."""
        return _alone_or_in_list({"type": "string", "pattern": self.pattern})


class AnyUnlike(_Patterned):
    """``key`` holds a text that ``pattern`` does not match, or a list with such a text."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return any(not re.search(self.pattern, text) for text in _texts(table.get(self.key)))

    def value_schema(self, nullable: bool) -> Json:
        """Such texts, and lists that contain one."""
        return _alone_or_in_list({"type": "string", "not": {"pattern": self.pattern}})


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _alone_or_in_list(text: Json) -> Json:
    return {"anyOf": [text, {"type": "array", "contains": text}]}


class Several(_Keyed):
    """``key`` holds a list of two or more."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        value = table.get(self.key)
        return isinstance(value, list) and len(value) > 1

    def value_schema(self, nullable: bool) -> Json:
        """Lists of two or more."""
        return {"type": "array", "minItems": 2}


class LacksItem(_Tagged):
    """The list at ``key`` has no item whose ``tag`` is one of ``values``."""

    when_absent = True

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        return not HasItem(self.key, self.tag, self.values).holds(table)

    def value_schema(self, nullable: bool) -> Json:
        """Everything else."""
        return {"not": HasItem(self.key, self.tag, self.values).value_schema(nullable)}


class HasItem(_Tagged):
    """The list at ``key`` has an item whose ``tag`` is one of ``values``."""

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Whether a table meets it."""
        items = table.get(self.key)
        return isinstance(items, list) and any(
            isinstance(item, Mapping) and item.get(self.tag) in self.values for item in items
        )

    def value_schema(self, nullable: bool) -> Json:
        """Lists that contain such an item."""
        item = {"properties": {self.tag: {"enum": [*self.values]}}, "required": [self.tag]}
        return {"type": "array", "contains": {"type": "object", **item}}
