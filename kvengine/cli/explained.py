"""Declarations in words, line by line: what ``explain`` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from kvengine.cli.topics import Entry, Table
from kvengine.config.advisories import Advisory
from kvengine.errors import dotted, show
from kvengine.rules.codes import Code
from kvengine.rules.options import Option
from kvengine.rules.readings import AS_IT_IS
from kvengine.rules.registry import Named
from kvengine.rules.relations import Relation, relations_of
from kvengine.rules.releases import ALWAYS, Release
from kvengine.rules.shapes import Field, fields_of
from kvengine.units import plain_number

__all__ = ["advisory", "code", "entry", "listed", "table"]

_KINDS = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}


def code(one: Code) -> Iterator[str]:
    """What a problem code means."""
    yield f"{one.name} (problem code)"
    yield ""
    yield from _wrapped(one.means)
    yield ""
    yield f"  example: {one.example}"
    yield from _wrapped(f"what to do: {one.mend}")


def advisory(one: Advisory) -> Iterator[str]:
    """A known fault of some releases."""
    yield f"{one.id} ({one.code}, {one.severity}, vLLM: {one.vllm})"
    yield from _wrapped(f"{one.at.partition(':')[2] or one.at} {one.says}")
    yield from _wrapped(one.text)


def table(one: Table, release: Release | None) -> Iterator[str]:
    """What a table is for, and every key of it."""
    where = dotted(one.path) if one.is_document else one.name
    yield one.name if one.name == where else f"{one.name} ({where})"
    yield from _wrapped(one.doc)
    if one.facts is not None:
        yield from _named(one, one.facts, release)
    yield ""
    rows = []
    for field in fields_of(one.model).values():
        unread = release is not None and release not in field.option.vllm
        note = f" (not in vLLM {release})" if unread else ""
        rows.append((field.name, _first_sentence(field.option.doc) + note))
    yield from listed(rows)
    relations = relations_of(one.model)
    yield from [""] * bool(relations)
    for relation in relations:
        yield from _wrapped(relation.as_sentence(), "- ")


def _named(one: Table, facts: Named, release: Release | None) -> Iterator[str]:
    """In which releases the name means something, and what else it was called."""
    if facts.origin:
        yield f"  from: {facts.origin}"
    if facts.vllm != ALWAYS:
        yield f"  vLLM: {facts.vllm}"
    for old in facts.was:
        yield f"  {one.today} was called {old.name}: vLLM {old.vllm}"
    if facts.instead:
        yield from _wrapped(f"instead: {facts.instead}")
    if facts.because:
        yield from _wrapped(f"because: {facts.because}")
    if release is not None and not facts.origin:
        known = facts.spelled_in(release, one.today) == one.name
        yield f"  vLLM {release} {'knows' if known else 'does not know'} the name"


def entry(one: Entry, release: Release | None) -> Iterator[str]:
    """All that the declaration of an option says."""
    option, home = one.field.option, one.tables[0]
    yield home.place(one.field.name)
    yield from _wrapped(option.doc)
    yield ""
    yield from _wrapped(f"value: {_value(one.field)}")
    default = option.default_text or _default(one.field)
    yield "  required" if option.required else f"  default: {default}"
    if option.examples:
        yield f"  example: {home.example(one.field.name, option.examples[0])}"
    if option.reading is not AS_IT_IS:
        yield from _wrapped(f"read as: {option.reading.name}")
    if option.vllm != ALWAYS:
        yield f"  vLLM: {option.vllm}" + f"; otherwise {option.instead}" * bool(option.instead)
    if release is not None:
        yield f"  vLLM {release} {_in_release(option, release)}"
    readers = dict.fromkeys(table.name for table in one.tables if table.is_named and table.path)
    if readers:
        yield from _wrapped(f"read by: {', '.join(readers)}")
    if option.deprecated is not None:
        yield from _wrapped(f"deprecated: use {option.deprecated.use} instead")
    for trap in option.traps:
        yield from _wrapped(f"beware: {trap}")
    for relation in _relations(one):
        yield from _wrapped(relation.as_sentence(), "- ")


def _in_release(option: Option, release: Release) -> str:
    if release not in option.vllm:
        return "does not read it"
    if option.dead is not None and release in option.dead:
        return "accepts it without effect"
    return "reads it"


def _relations(one: Entry) -> Iterator[Relation]:
    """The relations that mention the option, each once."""
    said: set[str] = set()
    for table in one.tables:
        for relation in relations_of(table.model):
            sentence = relation.as_sentence()
            words = sentence.replace(",", " ").replace(":", " ").split()
            if one.field.name in words and sentence not in said:
                said.add(sentence)
                yield relation


def _value(field: Field) -> str:
    option, shape = field.option, field.shape
    parts = [_KINDS.get(scalar, "a text") for scalar in shape.scalars]
    parts += [show(choice) for choice in shape.choices]
    parts += ["a table"] * (shape.table is not None or shape.free_table)
    parts += ["a list"] * (shape.items is not None)
    unit = f", in {option.unit}" if option.unit else ""
    bounds = ((", at least", option.ge), (", above", option.gt), (", at most", option.le))
    limits = "".join(f"{says} {plain_number(bound)}" for says, bound in bounds if bound is not None)
    return " or ".join(parts) + unit + limits


def _default(field: Field) -> str:
    return "none" if field.default is None else show(field.default)


def listed(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and what they are, in two columns; a long name has a line of its own."""
    width = min(max((len(name) for name, _ in rows), default=0), 32)
    for name, says in rows:
        if len(name) > width:
            yield f"  {name}"
        yield f"  {name if len(name) <= width else '':<{width}}  {says.rstrip('.')}"


def _first_sentence(doc: str) -> str:
    head, dot, tail = doc.partition(". ")
    return head.rstrip(".") if dot and tail else doc.rstrip(".")


def _wrapped(text: str, mark: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        96,
        initial_indent="  " + mark,
        subsequent_indent="  " + " " * len(mark),
        break_on_hyphens=False,
        break_long_words=False,
    )
