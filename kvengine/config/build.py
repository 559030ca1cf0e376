"""Checked data -> attrs values, by cattrs. It builds and does not judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import attrs

from kvengine.config.engine import Config
from kvengine.rules.judge import meaning
from kvengine.rules.modes import Mode
from kvengine.rules.options import is_open, own_keys_of
from kvengine.rules.releases import Release
from kvengine.rules.shapes import Field, fields_of, resolve, table_of

__all__ = ["build"]


def build(data: Mapping[str, Any], mode: Mode, release: Release) -> Config:
    """The value of an engine document whose shape was accepted for a release.

    Raises cattrs' errors for data that was not: that would be a fault of the check.
    """
    return cast(Config, _converter().structure(_plain(Config, data, mode, release), Config))


def _plain(model: type, table: Mapping[str, Any], mode: Mode, release: Release) -> Any:
    """A table as the engine reads it, each nested one a value of its class already.

    What the class does not declare is what nothing reads: the check said so.
    """
    chosen = resolve(model, table, release)
    declared = fields_of(chosen)
    taken: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in table.items():
        field = declared.get(key)
        if field is None:
            others[key] = value
        elif value is None and field.option.nullable:
            taken[field.attribute] = None
        else:
            taken[field.attribute] = _value(field, value, table, mode, release)
    if is_open(chosen):
        patterns = own_keys_of(chosen)
        own = {key for key in others if any(re.search(pattern, key) for pattern in patterns)}
        taken["values"] = {key: value for key, value in others.items() if key not in own}
    return taken if chosen is Config else _converter().structure(taken, chosen)


def _value(
    field: Field, value: Any, holder: Mapping[str, Any], mode: Mode, release: Release
) -> Any:
    inner = table_of(field, holder, release)
    if inner is not None and isinstance(value, Mapping):
        return _plain(inner, value, mode, release)
    if isinstance(value, list):
        item = field.shape.items.table if field.shape.items else None
        if item is not None:
            return tuple(_plain(item, part, mode, release) for part in value)
        return tuple(meaning(part, field, mode) for part in value)
    return meaning(value, field, mode)


@cache
def _converter() -> Any:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override

    converter = Converter(forbid_extra_keys=True)

    def keep(value: Any, _: Any) -> Any:
        return value

    def structure_of(model: type) -> Any:
        kept = {a.name: override(struct_hook=keep) for a in attrs.fields(model)}
        return make_dict_structure_fn(model, converter, **kept)  # type: ignore[arg-type]

    converter.register_structure_hook_factory(attrs.has, structure_of)
    return converter
