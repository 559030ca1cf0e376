"""Declarations -> JSON Schema, draft-07, in the idioms that every editor judges alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import Factory, define

from kvengine.rules.families import keys_of, patterns_of
from kvengine.rules.modes import CURRENT, Mode
from kvengine.rules.options import Variant, is_open, own_keys_of, refuses, variant_of
from kvengine.rules.readings import Bounds
from kvengine.rules.registry import named
from kvengine.rules.relations import relations_of
from kvengine.rules.releases import NEWEST, Release
from kvengine.rules.shapes import Field, Shape, fields_of

__all__ = ["Mode", "object_schema"]

Json = dict[str, Any]

_MANY = 3
_BRANCHES = ("if", "then", "else", "not")
_SWITCH_TEXT = r"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"


def object_schema(
    model: type,
    mode: Mode = "strict",
    *,
    release: Release | None = None,
    relations: bool = True,
) -> Json:
    """The schema of one table and all below it.

    ``release`` leaves out what that release rejects or does not read; without one every release's
    options are in, and the relations are those of today. Without ``relations`` it judges the
    shape only.
    """
    writer = _Writer(mode, release, relations)
    schema = writer.table(model)
    writer.share()
    if writer.definitions:
        schema["definitions"] = dict(sorted(writer.definitions.items()))
    _complete(schema)
    return schema


def _complete(schema: Json) -> None:
    """Name every required key among the properties: ajv's strict mode asks for that.

    As ``true``: an editor would offer an object, where the table itself may not have the key.
    """
    for key in schema.get("required", ()):
        schema.setdefault("properties", {}).setdefault(key, True)
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        for part in schema.get(name, {}).values():
            if isinstance(part, dict):
                _complete(part)
    for name in ("items", "contains", "additionalProperties", "propertyNames", *_BRANCHES):
        if isinstance(schema.get(name), dict):
            _complete(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(name, ()):
            _complete(part)


@define
class _Writer:
    mode: Mode
    release: Release | None
    relations: bool
    definitions: dict[str, Json] = Factory(dict)
    families: dict[type, Variant] = Factory(dict)
    uses: dict[int, list[tuple[str, Json]]] = Factory(dict)

    def share(self) -> None:
        """Say once what many tables inherit."""
        for uses in self.uses.values():
            name, first = uses[0]
            if len(uses) >= _MANY and "$ref" not in first:
                unique = name
                while unique in self.definitions:
                    unique += "_"
                self.definitions[unique] = {**first}
                for _, schema in uses:
                    schema.clear()
                    schema["$ref"] = f"#/definitions/{unique}"

    def reference(self, model: type) -> Json:
        name = model.__name__.lstrip("_")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.table(model)
        return {"$ref": f"#/definitions/{name}"}

    def shared(self, name: str, make: Callable[[], Json]) -> Json:
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = make()
        return {"$ref": f"#/definitions/{name}"}

    def table(self, model: type) -> Json:
        variant = variant_of(model)
        if variant is not None:
            return self.choice(model, variant)
        fields = [field for field in fields_of(model).values() if self.spelled(field)]
        schema: Json = {
            "type": "object",
            "description": _first_line(model),
            "properties": {field.name: self.property(field) for field in fields},
        }
        required = [f.name for f in fields if f.option.is_required(self.release)]
        if required:
            schema["required"] = required
        branches = [*self.beside(fields), *self.relation_schemas(model, fields)]
        family = self.families.get(model)
        if is_open(model):
            pass
        elif family is not None and not refuses(model):
            branches.append(
                self.shared(f"Any{family.kind.title()}Key", lambda: _keys(family, self.mode))
            )
        else:
            patterns = own_keys_of(model)
            if patterns:
                schema["patternProperties"] = {pattern: {} for pattern in patterns}
            schema["additionalProperties"] = False
        if branches:
            schema["allOf"] = branches
        return schema

    def spelled(self, field: Field) -> bool:
        """Whether documents of this kind, for this release, have the key."""
        if self.mode == "old" and field.option.spelled_since > 1:
            return False
        return self.release is None or self.release in field.option.vllm

    def relation_schemas(self, model: type, fields: list[Field]) -> Iterator[Json]:
        if not self.relations:
            return
        lenient = self.mode == "release"
        nullable = {field.name for field in fields if lenient and field.option.nullable}
        hidden = fields_of(model).keys() - {field.name for field in fields}
        for relation in relations_of(model):
            if (self.release or NEWEST) in relation.vllm:
                for schema in relation.as_schema(nullable):
                    if hidden.isdisjoint(_names(schema)):
                        yield schema

    def named(self, variant: Variant) -> dict[type, list[str]]:
        """Class -> the names that lead to it in this release."""
        found: dict[type, list[str]] = {}
        for name, model in variant.classes.items():
            if variant.knows(name, self.release):
                found.setdefault(model, []).append(name)
        return found

    def enter(self, variant: Variant, family: Variant | None = None) -> None:
        for model in (variant.otherwise, *variant.classes.values()):
            self.families.setdefault(model, family or variant)
            inner = variant_of(model)
            if inner is not None and inner is not variant:
                self.enter(inner, family or variant)

    def beside(self, fields: list[Field]) -> Iterator[Json]:
        """Branches for tables whose class a key of this table chooses."""
        for field in fields:
            variant = field.option.variant
            if variant is not None:
                self.enter(variant)
                name = f"{variant.kind.title()}Choice"
                yield self.shared(name, partial(self.choices, variant, field))

    def choices(self, variant: Variant, field: Field) -> Json:
        return {"type": "object", "allOf": [*self.branches(variant, field)]}

    def branches(self, variant: Variant, field: Field) -> Iterator[Json]:
        tag, opened = variant.tag, variant.open_with
        closed_door: Json = {opened: {"type": "null"}} if opened else {}
        for model, names in self.named(variant).items():
            condition: Json = {tag: _one_of(names)}
            if variant.open_wins:
                condition |= closed_door
            if not is_plain(model):
                yield {
                    "if": {"properties": condition, "required": [tag]},
                    "then": {"properties": {field.name: self.reference(model)}},
                }
        for condition, model in self.outside(variant):
            then = {"properties": {field.name: self.reference(model)}}
            yield {"if": condition, "then": then}
        if variant.closed:
            yield self.closing(variant, closed_door, nullable=self.mode == "release")

    def outside(self, variant: Variant) -> Iterator[tuple[Json, type]]:
        """Names that are known where their module is named: the condition, and the class."""
        for name, model in variant.outside.items():
            facts = named(variant.outside, name)
            if facts is None or variant.open_with is None or is_plain(model):
                continue
            modules = "|".join(module.replace(".", r"\.") for module in facts.modules)
            path = {"type": "string", "pattern": rf"^({modules})(\.|$)"}
            properties = {variant.tag: _one_of([name]), variant.open_with: path}
            yield {"properties": properties, "required": [*properties]}, model

    def closing(self, variant: Variant, closed_door: Json, nullable: bool) -> Json:
        """Names that are none of ours need a module of the user's own."""
        known: list[Any] = [name for names in self.named(variant).values() for name in names]
        known += [None] if nullable else []
        tag = variant.tag
        return {
            "if": {
                "properties": {tag: {"not": {"enum": known}}, **closed_door},
                "required": [tag],
            },
            "then": {"properties": {tag: {"enum": known}}},
        }

    def choice(self, model: type, variant: Variant) -> Json:
        """Branches on a key of the table's own."""
        self.enter(variant, self.families.get(model))
        tag = variant.tag
        keys: Json = {}
        branches = []
        for chosen, names in self.named(variant).items():
            condition: Json = {"properties": {tag: _one_of(names)}}
            if variant.default not in names:
                condition["required"] = [tag]
            branches.append({"if": condition, "then": self.reference(chosen)})
            field = fields_of(chosen).get(tag)
            if field is not None:
                keys.setdefault(tag, {"description": _describe(field)})
        known = [name for names in self.named(variant).values() for name in names]
        other: Json = {"properties": {tag: {"not": {"enum": known}}}}
        if variant.default is not None:
            other["required"] = [tag]
        branches.append({"if": other, "then": self.reference(variant.otherwise)})
        for condition, chosen in self.outside(variant):
            branches.append({"if": condition, "then": self.reference(chosen)})
        if variant.closed:
            closed_door: Json = {variant.open_with: {"type": "null"}} if variant.open_with else {}
            branches.append(self.closing(variant, closed_door, nullable=False))
        return {
            "type": "object",
            "description": _first_line(model),
            "properties": keys,
            "allOf": branches,
        }

    def property(self, field: Field) -> Json:
        option = field.option
        schema: Json = {"description": _describe(field), **self.value(field)}
        if field.default is not None:
            schema["default"] = field.default
        if option.examples:
            schema["examples"] = [*option.examples]
        if option.deprecated is not None:
            schema["deprecated"] = True
            schema["deprecationMessage"] = f"use {option.deprecated.use} instead"
        self.uses.setdefault(id(option), []).append((field.name, schema))
        return schema

    def value(self, field: Field) -> Json:
        option, shape = field.option, field.shape
        if self.mode == "old" and field.name == "schema":
            return {"enum": [1]}
        scalar = self.scalar(field)
        alternatives = [scalar] if scalar is not None else []
        if shape.items is not None:
            items = self.element(shape.items) if scalar is None else scalar
            alternatives.append({"type": "array", "items": items})
        if shape.table is not None:
            alternatives.append({"allOf": [self.reference(shape.table)]})
        elif shape.free_table and "object" not in (scalar or {}).get("type", ()):
            alternatives.append({"type": "object"})
        schema = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
        if self.mode == "release" and option.nullable:
            schema = _or_null(schema)
        return schema

    def scalar(self, field: Field) -> Json | None:
        """The schema of the field's scalars, with its bounds; None where it has none."""
        option, shape = field.option, field.shape
        bounds = Bounds(option.ge, option.le, option.gt)
        if self.mode == "release":
            read = option.reading.schema(bounds)
            if read is not None:
                return {"enum": [*shape.choices]} if shape.choices and not read else read
        else:
            read = option.reading.strict_schema()
            if read is not None:
                return {**read, **bounds.schema()}
        schema = self.plain(shape)
        return {**schema, **bounds.schema()} if schema and "type" in schema else schema or None

    def plain(self, shape: Shape) -> Json:
        if shape.choices and shape.scalars:
            kinds = {"type": [*shape.scalars]}
            return {"anyOf": [kinds, {"enum": [*shape.choices]}]}
        if shape.choices:
            return {"enum": [*shape.choices]}
        if self.mode == "old" and shape.scalars == ("boolean",):
            return {"type": ["boolean", "string"], "pattern": _SWITCH_TEXT}
        if shape.scalars:
            return {"type": shape.scalars[0] if len(shape.scalars) == 1 else [*shape.scalars]}
        return {}

    def element(self, shape: Shape) -> Json:
        return self.plain(shape) or (
            self.reference(shape.table) if shape.table is not None else {"type": "object"}
        )


def is_plain(model: type) -> bool:
    """Whether a table says nothing: every key passes."""
    return is_open(model) and not fields_of(model) and not relations_of(model)


def _one_of(names: list[str]) -> Json:
    return {"const": names[0]} if len(names) == 1 else {"enum": names}


def _keys(family: Variant, mode: Mode) -> Json:
    """Every key of a family of tables: another's passes with a warning, which no schema knows."""
    version = 1 if mode == "old" else CURRENT
    words = "|".join(re.escape(key) for key in sorted(keys_of(family, version)))
    patterns: Json = {f"^({words})$": {}, **{pattern: {} for pattern in patterns_of(family)}}
    return {"type": "object", "patternProperties": patterns, "additionalProperties": False}


def _or_null(schema: Json) -> Json:
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema


def _names(schema: Json) -> set[str]:
    """Every key that a relation's schema speaks of."""
    found = {*schema.get("required", ())} | {*schema.get("properties", {})}
    for key, then in schema.get("dependencies", {}).items():
        found |= {key} | _names(then)
    for part in _BRANCHES:
        found |= _names(schema[part]) if part in schema else set()
    return found


def _first_line(model: type) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _describe(field: Field) -> str:
    """The description with what JSON Schema has no word for: unit, default, releases."""
    option = field.option
    text = option.doc
    if option.unit:
        text += f" Unit: {option.unit}."
    if option.default_text:
        text += f" Default: {option.default_text}."
    elif field.default is None and not option.required and field.shape.table is None:
        text += " Default: none."
    if option.vllm.since or option.vllm.until:
        text += f" vLLM: {option.vllm}."
    return text


def root_schema(title: str, identifier: str, schema: Mapping[str, Any]) -> Json:
    """A schema as it is published: with draft, address and title first."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": identifier, "title": title}
    return {**head, **schema}
