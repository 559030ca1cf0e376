"""Hypothesis strategies for documents, read off the declarations: right ones and wrong ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kvengine.rules.options import variant_of
from kvengine.rules.shapes import Field, fields_of, table_of

NUMBERS = [0, 1, -1, 4, 2.0, 0.5, -0.5, 1e300, 10**20]
NUMERIC_TEXTS = ["", "4", " 4 ", "-1", "0", "1_0", "4.5", "1e9", "4\n", "٤", "8 GiB", "8GB"]
WORDS = ["true", "False", "no", "yes", "off", "None", "abc", "kv_both", "KV_BOTH", "lru", "x" * 70]
ODD = st.sampled_from([True, False, None, [], {}, [1], {"x": 1}, *NUMBERS, *NUMERIC_TEXTS, *WORDS])
STRANGE = ("x-mine", "strange", "kv_rol", "$schema")


@st.composite
def documents(draw: st.DrawFn, model: type) -> dict[str, Any]:
    """A table of the model, in which most values are right and some keys are not its own."""
    return table(draw, model, depth=4)


def table(draw: st.DrawFn, model: type, depth: int) -> dict[str, Any]:
    variant = variant_of(model)
    if variant is not None:
        name = draw(st.sampled_from([*variant.classes, "Other"]))
        tag = {variant.tag: name} if name != variant.default or draw(st.booleans()) else {}
        return {**tag, **table(draw, variant.classes.get(name, variant.otherwise), depth)}
    fields = fields_of(model)
    names = [name for name, field in fields.items() if field.option.required]
    if fields:
        names += draw(st.lists(st.sampled_from([*fields]), max_size=4))
    result: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        result[name] = value(draw, fields[name], result, depth)
    if draw(st.integers(0, 9)) == 0:
        result[draw(st.sampled_from(STRANGE))] = draw(ODD)
    if names and draw(st.integers(0, 9)) == 0:
        result.pop(names[0], None)
    return result


def value(draw: st.DrawFn, field: Field, holder: dict[str, Any], depth: int) -> Any:
    """A value for one option: mostly what it was made for, sometimes anything."""
    if draw(st.integers(0, 3)) == 0:
        return draw(ODD)
    inner = table_of(field, holder)
    if inner is not None and depth:
        return table(draw, inner, depth - 1)
    item = field.shape.items.table if field.shape.items else None
    if item is not None and depth:
        return [table(draw, item, depth - 1) for _ in range(draw(st.integers(0, 2)))]
    fitting = [*field.option.examples, *field.shape.choices]
    return draw(st.sampled_from(fitting)) if fitting else draw(ODD)
