"""How a field's annotation reads: the few shapes that a configuration value can have."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from attrs import frozen

from kvengine.rules.options import Option, options_of, variant_of
from kvengine.rules.releases import Release

__all__ = ["Field", "Scalar", "Shape", "fields_of", "resolve", "shape_of", "table_of"]

Scalar = Literal["boolean", "integer", "number", "string"]
_SCALARS: Mapping[Any, Scalar] = {bool: "boolean", int: "integer", float: "number", str: "string"}


@frozen(kw_only=True)
class Shape:
    """What a value may be: any of these at once, as in ``int | Sequence[int] | None``."""

    scalars: tuple[Scalar, ...] = ()
    choices: tuple[Any, ...] = ()
    table: type | None = None
    items: Shape | None = None
    free_table: bool = False
    null: bool = False


@frozen
class Field:
    """One key of a table: its option, shape and default, and the attribute that holds it."""

    name: str
    option: Option
    shape: Shape
    default: Any
    attribute: str


def shape_of(annotation: Any) -> Shape:
    """Read a type annotation; the forms used by declarations only."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        parts = [shape_of(part) for part in arguments]
        return Shape(
            scalars=tuple(scalar for part in parts for scalar in part.scalars),
            choices=tuple(choice for part in parts for choice in part.choices),
            table=next((part.table for part in parts if part.table), None),
            items=next((part.items for part in parts if part.items), None),
            free_table=any(part.free_table for part in parts),
            null=any(part.null for part in parts),
        )
    if annotation in _SCALARS:
        return Shape(scalars=(_SCALARS[annotation],))
    if annotation is type(None):
        return Shape(null=True)
    if origin is Literal:
        return Shape(choices=arguments)
    if origin is Sequence or origin is list or origin is tuple:
        return Shape(items=shape_of(arguments[0]))
    if origin is Mapping or origin is dict:
        return Shape(free_table=True)
    assert attrs.has(annotation), annotation
    return Shape(table=annotation)


@cache
def fields_of(model: type) -> dict[str, Field]:
    """Key -> field of an attrs class, in order of declaration."""
    hints = typing.get_type_hints(model)
    return {
        name: Field(
            name,
            declared,
            shape_of(hints[attribute.name]),
            None if declared.required else _default(attribute),
            attribute.name,
        )
        for name, (attribute, declared) in options_of(model).items()
    }


def _default(attribute: attrs.Attribute[Any]) -> Any:
    default = attribute.default
    if default is attrs.NOTHING or default is None:
        return None
    factory = getattr(default, "factory", None)
    made = default if factory is None else factory()
    return None if attrs.has(type(made)) else made


def resolve(model: type, table: Mapping[str, Any], release: Release | None = None) -> type:
    """The class that describes ``table``, following the choice of its own tag."""
    variant = variant_of(model)
    return model if variant is None else resolve(variant.choose(table, release), table, release)


def table_of(
    field: Field, holder: Mapping[str, Any], release: Release | None = None
) -> type | None:
    """The class that describes the table at ``field`` of ``holder``, if one does."""
    model = field.shape.table
    if field.option.variant is not None:
        model = field.option.variant.choose(holder, release)
    inner = holder.get(field.name)
    return model and resolve(model, inner if isinstance(inner, Mapping) else {}, release)
