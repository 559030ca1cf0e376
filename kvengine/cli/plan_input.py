"""File and flags -> a config that can be planned, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from kvengine.cli.plan_flags import overlaid
from kvengine.config.engine import Config
from kvengine.config.load import examine
from kvengine.document import Document
from kvengine.errors import Path, Place, PlanError, Problem
from kvengine.rules.migrate import CURRENT

__all__ = ["Input", "incomplete", "planned_input"]

_FLAGS = "<flags>"
Flags = Mapping[Path, tuple[str, Any]]


@frozen(kw_only=True)
class Input:
    """What a plan starts from; ``config`` is None when the problems forbid one."""

    document: Document | None
    config: Config | None
    problems: tuple[Problem, ...]


def planned_input(document: Document | None, flags: Flags, vllm: str | None) -> Input:
    """Examine the file with the flags laid over it.

    A transfer config has no model and no memory: they come from the flags alone. Without a
    document, everything does.
    """
    bare = document is not None and "schema" not in document.data
    if document is not None and not bare:
        whole = evolve(document, data=overlaid(document.data, flags))
        checked = examine(whole, vllm=vllm)
        problems = tuple(_at_flags(checked.problems, flags))
        return Input(document=document, config=checked.config, problems=problems)
    engine = examine(_from_flags(flags), vllm=vllm)
    problems = tuple(_at_flags(engine.problems, flags))
    if document is None:
        return Input(document=None, config=engine.config, problems=problems)
    transfer = examine(document, vllm=vllm)
    config = None
    if engine.config is not None and transfer.config is not None:
        config = evolve(engine.config, kv_transfer=transfer.config.kv_transfer)
    known = {problem.path for problem in transfer.problems}
    said = (problem for problem in problems if problem.path not in known)
    return Input(document=document, config=config, problems=(*transfer.problems, *said))


def _from_flags(flags: Flags) -> Document:
    """An engine document that holds nothing but what the flags say."""
    data = overlaid({"schema": CURRENT}, flags)
    return Document(name=_FLAGS, form="json", raw=b"{}", data=data)


def _at_flags(problems: tuple[Problem, ...], flags: Flags) -> Iterator[Problem]:
    """The problems; those of a value that a flag gave stand at the flag."""
    for problem in problems:
        at = next((path for path in flags if problem.path[: len(path)] == path), None)
        if at is not None:
            yield evolve(problem, path=(f"flag:{flags[at][0]}",), place=None, fix=None)
        elif problem.place is not None and problem.place.file == _FLAGS:
            yield evolve(problem, place=None)
        else:
            yield problem


def incomplete(config: Config) -> PlanError | None:
    """One error for all that a plan needs and the config lacks."""
    lacks = {
        "a model (--model config.json, or model.config in an engine document)": (
            not config.model.config
        ),
        'memory (--memory "40 GiB", or cache.memory in an engine document)': (
            config.cache.memory is None and config.cache.num_blocks is None
        ),
    }
    missing = [need for need, lacking in lacks.items() if lacking]
    if not missing:
        return None
    message = f"a plan needs {' and '.join(missing)}"
    return PlanError("setup", "missing", message)


def placed(problems: tuple[Problem, ...], document: Document | None) -> Iterator[Problem]:
    """What the planner found, at the places of the file where it names an option of it."""
    for problem in problems:
        yield evolve(problem, place=_place(problem.path, document))


def as_problem(error: PlanError, document: Document | None) -> Problem:
    """A refusal as a finding."""
    place = _place(error.path, document)
    return Problem(error.code, error.path, error.message, error.hint, place=place)


def _place(path: Path, document: Document | None) -> Place | None:
    """Where an option of the engine document is written; a bare config holds one part of it."""
    if document is None or not path:
        return None
    if "schema" not in document.data:
        path = path[1:] if path[0] == "kv_transfer" else ()
    return document.place(path) if path else None
