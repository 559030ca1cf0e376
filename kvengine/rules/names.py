"""Names that choose the class of a table: unknown ones, renamed ones, those of other releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from kvengine.errors import Fix, Path, Problem, Put, show
from kvengine.rules.judge import nearest, placeholder
from kvengine.rules.modes import Mode
from kvengine.rules.options import Variant, is_open
from kvengine.rules.registry import Named, Registry, named
from kvengine.rules.releases import NEVER, Release
from kvengine.rules.shapes import fields_of
from kvengine.rules.tables import Table

__all__ = ["Choice", "choices", "name_problems"]


@frozen
class Choice:
    """A name that stands in ``holder``, or would, and the class that it led to."""

    variant: Variant
    holder: Mapping[str, Any]
    path: Path

    @property
    def at(self) -> Path:
        """Where the name stands."""
        return (*self.path, self.variant.tag)

    @property
    def name(self) -> str | None:
        """The name, if it is one."""
        name = self.holder.get(self.variant.tag)
        return name if isinstance(name, str) else None


def choices(table: Table) -> Iterator[Choice]:
    """The choices whose names stand in this table."""
    for variant, holder, path in table.chosen:
        if path == table.path:
            yield Choice(variant, holder, path)
    for field in fields_of(table.model).values():
        if field.option.variant is not None:
            yield Choice(field.option.variant, table.data, table.path)


def name_problems(choice: Choice, mode: Mode, release: Release | None) -> Iterator[Problem]:
    """What is to be said of a name."""
    variant, name = choice.variant, choice.name
    if name is None or placeholder(name) is not None:
        return
    known = variant.knows(name, release)
    if variant.opened(choice.holder, release) and (variant.open_wins or not known):
        yield from _unchecked(choice, release)
    elif known:
        facts = named(variant.classes, name)
        if facts is not None and facts.origin:
            says = f"is a {variant.kind} of {facts.origin}, not of vLLM: its keys are not checked"
            yield Problem("unchecked", choice.at, says, facts.because, "info")
    elif variant.closed:
        yield _refused(choice, name, release)


def _unchecked(choice: Choice, release: Release | None) -> Iterator[Problem]:
    """A module of the user's own: said once, and never imported."""
    variant = choice.variant
    if not is_open(variant.choose(choice.holder, release)):
        return
    at = (*choice.path, variant.open_with or "")
    known = named(variant.outside, choice.name or "")
    module = choice.holder.get(variant.open_with or "")
    if known is not None and isinstance(module, str) and known.lives_in(module):
        says = f"leads to a {variant.kind} of {known.origin}: most of its keys are not checked"
    else:
        says = f"leads to a {variant.kind} outside vLLM: its keys are not checked"
    yield Problem("unchecked", at, says, "", "info")


def _refused(choice: Choice, name: str, release: Release | None) -> Problem:
    """A name that this release does not know."""
    variant, at = choice.variant, choice.at
    facts = named(variant.classes, name)
    if facts is None or facts.vllm == NEVER or not isinstance(variant.classes, Registry):
        return _unknown(choice, name, release)
    today = variant.classes.today(name)
    right = facts.spelled_in(release, today) if release is not None else today
    where = f"vLLM {release}" if release is not None else "the releases we know"
    if right and right != name:
        fix = Fix(f"write {show(right)}", (Put(at, right),))
        says = f"is called {show(right)} in {where}"
        return Problem("renamed", at, says, facts.because, fix=fix)
    instead = f"use {facts.instead}" if facts.instead else ""
    hint = "; ".join(part for part in (facts.because, instead) if part)
    gone = facts.vllm.until is not None and (release is None or facts.vllm.until <= release)
    says = f"is no {variant.kind} of {where} any more" if gone else f"is not in {where} yet"
    return Problem("removed" if gone else variant.code, at, f"{says} ({_span(facts)})", hint)


def _span(facts: Named) -> str:
    return f"vLLM has it {facts.vllm}"


def _unknown(choice: Choice, name: str, release: Release | None) -> Problem:
    variant, at = choice.variant, choice.at
    classes = variant.classes
    valid = [known for known in classes if variant.knows(known, release)]
    elsewhere = named(variant.outside, name)
    where = variant.origin or (f"vLLM {release}" if release is not None else "vLLM")
    says = f"is no {variant.kind} of {where}"
    never = named(classes, name)
    if never is not None:
        return Problem(variant.code, at, says, never.because)
    if elsewhere is not None:
        example = f"{variant.open_with} = {show(elsewhere.modules[0])}"
        hint = f"it comes with {elsewhere.origin}: add for example {example}"
        return Problem(variant.code, at, says, hint)
    likely = nearest(name, valid)
    fix = Fix(f"write {show(likely)}", (Put(at, likely),), safe=False) if likely else None
    parts = [f"did you mean {show(likely)}?"] if likely else []
    if variant.open_with:
        parts.append(f"one outside vLLM needs {variant.open_with}")
    return Problem(variant.code, at, says, " ".join(parts), fix=fix)
