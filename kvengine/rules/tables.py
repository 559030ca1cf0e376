"""The tables of a document, each with the class that describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from kvengine.errors import Path
from kvengine.rules.options import Variant, variant_of
from kvengine.rules.releases import Release
from kvengine.rules.shapes import Field, fields_of

__all__ = ["Table", "tables"]


@frozen
class Table:
    """One table of a document, and the class that describes it.

    ``chosen`` are the choices that led to the class, the outermost first, each with the table
    that holds its tag and the path of that.
    """

    path: Path
    data: Mapping[str, Any]
    model: type
    chosen: tuple[tuple[Variant, Mapping[str, Any], Path], ...] = ()

    def fields(self) -> Iterator[tuple[Field, Any]]:
        """The declared keys that are given, with their values."""
        declared = fields_of(self.model)
        return ((declared[key], value) for key, value in self.data.items() if key in declared)

    def spelled(self, field: Field, mode: str) -> bool:
        """Whether documents of this kind have the key at all."""
        return mode != "old" or field.option.spelled_since == 1


def tables(
    model: type,
    data: Any,
    release: Release | None = None,
    path: Path = (),
    chosen: tuple[tuple[Variant, Mapping[str, Any], Path], ...] = (),
) -> Iterator[Table]:
    """Every table that the model describes, from the outside in.

    With a ``release``, tables below keys that it does not read are left out.
    """
    if not isinstance(data, Mapping):
        return
    variant = variant_of(model)
    while variant is not None:
        chosen = (*chosen, (variant, data, path))
        model = variant.choose(data, release)
        variant = variant_of(model)
    here = Table(path, data, model, chosen)
    yield here
    for field, value in here.fields():
        if release is not None and release not in field.option.vllm:
            continue
        at = (*path, field.name)
        beside = field.option.variant
        items = field.shape.items
        if beside is not None:
            model = beside.choose(data, release)
            yield from tables(model, value, release, at, ((beside, data, path),))
        elif field.shape.table is not None:
            yield from tables(field.shape.table, value, release, at)
        elif items is not None and items.table is not None and isinstance(value, list):
            for index, item in enumerate(value):
                yield from tables(items.table, item, release, (*at, index))
