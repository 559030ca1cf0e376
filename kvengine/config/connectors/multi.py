"""``MultiConnector``: several connectors in one engine, each with a config of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import frozen

from kvengine.config.connectors import CONNECTOR
from kvengine.config.connectors.base import ExtraConfig
from kvengine.config.transfer import Child
from kvengine.errors import Drop, Fix, Move, Problem
from kvengine.rules.families import leaves, owners, owns
from kvengine.rules.options import option, own_keys_of
from kvengine.rules.relations import rules
from kvengine.rules.releases import ALWAYS, Releases
from kvengine.rules.shapes import fields_of

__all__ = ["ChildKeys", "MultiConnector", "OnlyOne", "Together"]

_EXTRA = "kv_connector_extra_config"
_PACKING = "enable_cross_layers_blocks"
_PACKING_RELEASES = Releases(since="0.24", until="0.29")
_PACKING_CHILDREN = (
    "NixlConnector",
    "NixlPullConnector",
    "NixlPushConnector",
    "MooncakeStoreConnector",
)


def _children(given: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Index, name and table of every child that vLLM finds by its name."""
    children = given.get("connectors")
    for index, child in enumerate(children if isinstance(children, list) else ()):
        if isinstance(child, Mapping) and child.get("kv_connector_module_path") is None:
            name = child.get("kv_connector")
            if isinstance(name, str):
                yield index, name, child


def _has_child(names: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of a list with such a child."""
    conditions = {
        "kv_connector": {"enum": [*names]},
        "kv_connector_module_path": {"type": "null"},
    }
    child = {"type": "object", "properties": conditions, "required": ["kv_connector"]}
    return {"type": "array", "contains": child}


@frozen
class ChildKeys:
    """A child's key stands in the extra config of that child, not in the outer one."""

    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every key that a child would read."""
        children = [*_children(given)]
        for key in given:
            if key in fields_of(MultiConnector) or owns(MultiConnector, key):
                continue
            names = owners(CONNECTOR, key)
            readers = [index for index, name, _ in children if name in names]
            if readers:
                home = ("connectors", readers[0], _EXTRA, key)
                says = f"belongs to connectors[{readers[0]}].{_EXTRA}, nothing reads it here"
                move = Fix("move it to the child", (Move((key,), home),), len(readers) == 1)
                yield Problem("misplaced", (key,), says, "children inherit nothing", fix=move)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """One rule for every connector that could be a child."""
        own = fields_of(MultiConnector)
        by_model: dict[tuple[type, ...], list[str]] = {}
        for name, models in leaves(CONNECTOR).items():
            by_model.setdefault(models, []).append(name)
        schemas = []
        for models, names in by_model.items():
            keys = sorted({re.escape(k) for model in models for k in fields_of(model)} - {*own})
            pattern = [f"^({'|'.join(keys)})$"] if keys else []
            pattern += {p for model in models for p in own_keys_of(model)} - {"^x-"}
            if pattern:
                has = {"properties": {"connectors": _has_child(names)}, "required": ["connectors"]}
                refused = {"pattern": "|".join(pattern)}
                schemas.append({"if": has, "then": {"propertyNames": {"not": refused}}})
        return schemas

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return "A child's keys stand in its own extra config; it inherits nothing."


@frozen
class Together:
    """Two connectors that cannot be children of one engine."""

    names: tuple[str, str]
    because: str
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem, at the later of the two."""
        found = [(index, name) for index, name, _ in _children(given) if name in self.names]
        if {name for _, name in found} == {*self.names}:
            index, name = found[-1]
            other = self.names[0] if name == self.names[1] else self.names[1]
            says = f"cannot be combined with {other}"
            path = ("connectors", index, "kv_connector")
            yield Problem("layout", path, says, self.because)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Not both in one list."""
        first, second = ({"properties": {"connectors": _has_child([n])}} for n in self.names)
        has = {**first, "required": ["connectors"]}
        return [{"if": has, "then": {"not": {**second, "required": ["connectors"]}}}]

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"Not both {' and '.join(self.names)}: {self.because}."


@frozen
class OnlyOne:
    """At most one child of a kind; JSON Schema of this draft cannot count."""

    name: str
    because: str
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every further one."""
        found = [index for index, name, _ in _children(given) if name == self.name]
        for index in found[1:]:
            path = ("connectors", index, "kv_connector")
            yield Problem("conflict", path, f"is a second {self.name}", self.because)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Nothing that this draft has words for."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"At most one {self.name}: {self.because}."


@frozen
class PackingInChildren:
    """The engine reads the packing key from the outer extra config, some children their own."""

    vllm: Releases = _PACKING_RELEASES

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every child in which nothing reads it."""
        for index, name, child in _children(given):
            extra = child.get(_EXTRA)
            if name in _PACKING_CHILDREN or not isinstance(extra, Mapping):
                continue
            if _PACKING in extra:
                path = ("connectors", index, _EXTRA, _PACKING)
                says = f"is not read from a child, and not by {name}"
                fix = Fix("move it to the outer extra config", (Move(path, (_PACKING,)),), False)
                hint = "the engine looks at the outer extra config only"
                if _PACKING in given:
                    fix = Fix("remove it", (Drop(path),), safe=False)
                yield Problem("unread", path, says, hint, "warning", fix)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """A warning is accepted: nothing to say."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"{_PACKING} counts in the outer extra config; NIXL and Mooncake read their own too."


@rules(
    ChildKeys(),
    PackingInChildren(),
    OnlyOne("HiSparseConnector", because="an engine has one pool", vllm=Releases("0.30")),
    Together(
        ("ExampleHiddenStatesConnector", "OffloadingConnector"),
        because="they want different KV cache layouts",
        vllm=Releases(since="0.22"),
    ),
    Together(
        ("ExampleHiddenStatesConnector", "HiSparseConnector"),
        because="they want different KV cache layouts",
    ),
)
@frozen(kw_only=True, slots=False)
class MultiConnector(ExtraConfig):
    """Loads come from the first child that has them; stores go to all."""

    connectors: Sequence[Child] = option(
        "The children in order of preference: each a whole transfer config. Engine ids,"
        " extra configs and failure policies are not inherited.",
        examples=(
            [
                {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
                {
                    "kv_connector": "OffloadingConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {"cpu_bytes_to_use": 68719476736},
                },
            ],
        ),
        traps=("one child without support turns the hybrid KV manager off for all",),
    )
