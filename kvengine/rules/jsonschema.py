"""Declarations -> JSON Schema, draft-07, in the idioms that every editor judges alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attrs import Factory, define

from kvengine.rules.options import Variant, is_open, own_keys_of, variant_of
from kvengine.rules.relations import relations_of
from kvengine.rules.releases import Release
from kvengine.rules.shapes import Field, Shape, fields_of

__all__ = ["Mode", "object_schema"]

Mode = Literal["old", "strict", "release"]
"""Who judges: an engine document of schema 1, of schema 2, or vLLM itself (bare configs)."""

Json = dict[str, Any]

_SWITCH_TEXT = r"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"


def object_schema(
    model: type,
    mode: Mode = "strict",
    *,
    release: Release | None = None,
    relations: bool = True,
) -> Json:
    """The schema of one table and all below it.

    ``release`` leaves out what that release rejects; without one every release's options are
    in. Without ``relations`` it judges the shape only.
    """
    writer = _Writer(mode, release, relations)
    schema = writer.table(model)
    if writer.definitions:
        schema["definitions"] = dict(sorted(writer.definitions.items()))
    return schema


@define
class _Writer:
    mode: Mode
    release: Release | None
    relations: bool
    definitions: dict[str, Json] = Factory(dict)

    def reference(self, model: type) -> Json:
        name = model.__name__
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.table(model)
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
        required = [field.name for field in fields if field.option.required]
        if required:
            schema["required"] = required
        patterns = own_keys_of(model)
        if patterns:
            schema["patternProperties"] = {pattern: {} for pattern in patterns}
        if not is_open(model):
            schema["additionalProperties"] = False
        branches = [*self.beside(fields), *self.relation_schemas(model, fields)]
        if branches:
            schema["allOf"] = branches
        return schema

    def spelled(self, field: Field) -> bool:
        if self.mode == "old" and field.option.spelled_since > 1:
            return False
        return (
            self.release is None or field.option.dead is None or self.release in field.option.vllm
        )

    def relation_schemas(self, model: type, fields: list[Field]) -> Iterator[Json]:
        if not self.relations:
            return
        release = self.mode == "release"
        nullable = {field.name for field in fields if release and field.option.nullable}
        names = {field.name for field in fields}
        for relation in relations_of(model):
            if self.release is None or self.release in relation.vllm:
                for schema in relation.as_schema(nullable):
                    if names.issuperset(_names(schema)):
                        yield schema

    def beside(self, fields: list[Field]) -> Iterator[Json]:
        """Branches for tables whose class a key of this table chooses."""
        for field in fields:
            variant = field.option.variant
            if variant is None:
                continue
            for name, model in variant.classes.items():
                condition: Json = {variant.tag: {"const": name}}
                if variant.open_with and variant.open_wins:
                    condition[variant.open_with] = {"type": "null"}
                yield {
                    "if": {"properties": condition, "required": [variant.tag]},
                    "then": {"properties": {field.name: self.reference(model)}},
                }

    def choice(self, model: type, variant: Variant) -> Json:
        """Branches on a key of the table's own; the parent lists all keys for completion."""
        keys: Json = {}
        branches = []
        for name, chosen in variant.classes.items():
            condition: Json = {"properties": {variant.tag: {"const": name}}}
            if name != variant.default:
                condition["required"] = [variant.tag]
            branches.append({"if": condition, "then": self.reference(chosen)})
            for field in filter(self.spelled, fields_of(chosen).values()):
                keys.setdefault(field.name, {"description": _describe(field)})
        unknown: Json = {variant.tag: {"not": {"enum": [*variant.classes]}}}
        other = {"properties": unknown, "required": [variant.tag]}
        branches.append({"if": other, "then": self.reference(variant.otherwise)})
        if variant.closed:
            no_module: Json = {variant.open_with: {"type": "null"}} if variant.open_with else {}
            alone = {"properties": {**unknown, **no_module}, "required": [variant.tag]}
            known = {"properties": {variant.tag: {"enum": [*variant.classes]}}}
            branches.append({"if": alone, "then": known})
        return {
            "type": "object",
            "description": _first_line(model),
            "properties": keys,
            "allOf": branches,
        }

    def property(self, field: Field) -> Json:
        option = field.option
        if self.mode == "old" and field.name == "schema":
            return {"description": _describe(field), "enum": [1], "examples": [1]}
        schema: Json = {"description": _describe(field), **self.value(field)}
        if field.default is not None:
            schema["default"] = field.default
        if option.examples:
            schema["examples"] = [*option.examples]
        if option.deprecated is not None:
            schema["deprecated"] = True
            schema["deprecationMessage"] = f"use {option.deprecated.use} instead"
        return schema

    def value(self, field: Field) -> Json:
        option, shape = field.option, field.shape
        scalar = self.scalar(field)
        alternatives = [scalar] if scalar else []
        if shape.items is not None:
            alternatives.append({"type": "array", "items": scalar or self.element(shape.items)})
        if shape.table is not None:
            alternatives.append({"allOf": [self.reference(shape.table)]})
        elif shape.free_table and "object" not in scalar.get("type", ()):
            alternatives.append({"type": "object"})
        schema = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
        if self.mode == "release" and option.nullable:
            schema = _or_null(schema)
        return schema

    def scalar(self, field: Field) -> Json:
        """The schema of the field's scalars, with its bounds; empty where it has none."""
        option, shape = field.option, field.shape
        read = (
            option.reading.schema(option.ge, option.le)
            if self.mode == "release"
            else option.reading.strict_schema()
        )
        schema = self.plain(shape) if read is None else read
        bounds = {"minimum": option.ge, "maximum": option.le}
        if schema and ("type" in schema):
            schema = {
                **schema,
                **{key: value for key, value in bounds.items() if value is not None},
            }
        return schema

    def plain(self, shape: Shape) -> Json:
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


def _or_null(schema: Json) -> Json:
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return schema


def _names(schema: Json) -> set[str]:
    """Every key that a relation's schema speaks of."""
    found = {*schema.get("required", ())} | {*schema.get("properties", {})}
    for key, then in schema.get("dependencies", {}).items():
        found |= {key} | _names(then)
    for part in ("if", "then"):
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
    if option.vllm.since or option.vllm.until:
        text += f" vLLM: {option.vllm}."
    return text


def root_schema(title: str, identifier: str, schema: Mapping[str, Any]) -> Json:
    """A schema as it is published: with draft, address and title first."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": identifier, "title": title}
    return {**head, **schema}
