"""Tables whose class a key chooses: what all the choices together declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from kvengine.rules.modes import CURRENT
from kvengine.rules.options import OWN_KEYS, Variant, own_keys_of, variant_of
from kvengine.rules.registry import Registry
from kvengine.rules.shapes import fields_of

__all__ = ["keys_of", "leaves", "owners", "owns", "patterns_of"]


@cache
def leaves(variant: Variant) -> dict[str, tuple[type, ...]]:
    """Name -> the classes behind it; several where a key of the table chooses further."""
    return {name: (*_leaves(model),) for name, model in variant.classes.items()}


def _leaves(model: type) -> Iterator[type]:
    inner = variant_of(model)
    if inner is None:
        yield model
        return
    for chosen in {*inner.classes.values(), inner.otherwise}:
        yield from _leaves(chosen)


@cache
def keys_of(variant: Variant, version: int = CURRENT) -> frozenset[str]:
    """Every key that some choice declares, as documents of ``version`` spell them."""
    return frozenset(
        key
        for models in leaves(variant).values()
        for model in models
        for key, field in fields_of(model).items()
        if field.option.spelled_since <= version
    )


@cache
def patterns_of(variant: Variant) -> tuple[str, ...]:
    """Every pattern of keys that some choice leaves to the user."""
    found = {p for models in leaves(variant).values() for m in models for p in own_keys_of(m)}
    return tuple(sorted(found))


def owns(model: type, key: str) -> bool:
    """Whether keys like this are the user's own in a table of ``model``."""
    return any(re.search(pattern, key) for pattern in own_keys_of(model))


def _passes(model: type, key: str) -> bool:
    patterns = (pattern for pattern in own_keys_of(model) if pattern != OWN_KEYS)
    return any(re.search(pattern, key) for pattern in patterns)


def owners(variant: Variant, key: str) -> list[str]:
    """The names, today's, of the choices that declare ``key``."""
    classes = variant.classes
    return [
        name
        for name, models in leaves(variant).items()
        if any(key in fields_of(model) or _passes(model, key) for model in models)
        and (not isinstance(classes, Registry) or classes.today(name) == name)
    ]
