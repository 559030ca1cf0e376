"""Declarations -> reference in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getdoc

from kvengine.errors import show
from kvengine.rules.options import is_open, own_keys_of
from kvengine.rules.readings import AS_IT_IS
from kvengine.rules.relations import relations_of
from kvengine.rules.releases import ALWAYS, Release
from kvengine.rules.shapes import Field, Shape, fields_of
from kvengine.units import plain_number

__all__ = ["anchor", "option_entry", "table_section"]

_KINDS = {"boolean": "boolean", "integer": "whole number", "number": "number", "string": "text"}


def anchor(title: str) -> str:
    """The address of a heading inside its page, as GitHub makes it."""
    kept = (letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def table_section(
    title: str, model: type, *, level: int = 2, release: Release | None = None
) -> Iterator[str]:
    """The lines of one section: what a table is, its options and its rules.

    With a ``release``, options that it does not read are left out.
    """
    yield f"{'#' * level} {title}"
    yield ""
    yield from (getdoc(model) or "").splitlines()
    yield ""
    for field in fields_of(model).values():
        if release is None or release in field.option.vllm:
            yield from option_entry(field)
    if is_open(model):
        yield "- Any other key passes unchecked."
    patterns = [pattern for pattern in own_keys_of(model) if pattern != "^x-"]
    if patterns:
        names = ", ".join(f"`{p.lstrip('^').replace(chr(92), '')}...`" for p in patterns)
        yield f"- Keys that begin with {names} pass unchecked."
    sentences = [
        relation.as_sentence() + (f" (vLLM: {relation.vllm})" if relation.vllm != ALWAYS else "")
        for relation in relations_of(model)
    ]
    if sentences:
        yield ""
        yield "Rules:"
        yield ""
        yield from (f"- {sentence}" for sentence in dict.fromkeys(sentences))
    yield ""


def option_entry(field: Field) -> Iterator[str]:
    """The lines of one option: a bullet, and what people ran into below it."""
    yield f"- **`{field.name}`** ({'; '.join(_facts(field))}). {field.option.doc}"
    option = field.option
    if option.instead and option.vllm.until is not None:
        yield f"  - Replaced by {option.instead}."
    elif option.instead and option.vllm.since is not None:
        yield f"  - Before: {option.instead}."
    yield from (f"  - Beware: {trap}." for trap in option.traps)


def _facts(field: Field) -> Iterator[str]:
    option = field.option
    unit = f", {option.unit}" if option.unit else ""
    yield f"{_kind(field.shape)}{unit}{_bounds(field)}"
    if option.required and option.required_in == ALWAYS:
        yield "required"
    elif option.required:
        yield f"required {option.required_in}"
    elif option.default_text:
        yield f"default: {option.default_text}"
    elif field.default is not None:
        yield f"default: `{show(field.default)}`"
    if option.reading is not AS_IT_IS:
        yield f"read as: {option.reading.name}"
    if option.vllm != ALWAYS:
        yield f"vLLM: {option.vllm}"
    if option.dead is not None:
        yield "without effect" + (f" {option.dead}" if option.dead != ALWAYS else "")


def _bounds(field: Field) -> str:
    option = field.option
    parts = []
    if option.ge is not None:
        parts.append(f"at least {plain_number(option.ge)}")
    if option.gt is not None:
        parts.append(f"above {plain_number(option.gt)}")
    if option.le is not None:
        parts.append(f"at most {plain_number(option.le)}")
    return f", {', '.join(parts)}" if parts else ""


def _kind(shape: Shape) -> str:
    parts = [_KINDS[scalar] for scalar in shape.scalars]
    parts += [f"`{show(choice)}`" for choice in shape.choices]
    parts += ["table"] * (shape.table is not None or shape.free_table)
    if shape.items is not None:
        parts.append(f"list of {_kind(shape.items)}s" if shape.items.scalars else "list of tables")
    return " or ".join(parts) or "anything"
