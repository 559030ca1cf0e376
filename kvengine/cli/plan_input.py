"""File and flags -> a config that can be planned, and what there is to say about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from kvengine.cli.configs import Configs, text_of
from kvengine.cli.plan_flags import Flags, flags_of, overlaid
from kvengine.config.engine import Config
from kvengine.config.load import examine
from kvengine.document import Document, parse
from kvengine.errors import Path, Place, PlanError, Problem
from kvengine.rules.modes import CURRENT

if TYPE_CHECKING:
    from kvengine.document.embedded import Source

__all__ = ["Input", "as_problem", "incomplete", "placed", "planned_input"]

_FLAGS = "<flags>"
_TRANSFER = "kv_transfer"


def _nowhere(path: Path) -> None:
    return None


@frozen(kw_only=True)
class Input:
    """What a plan starts from; ``config`` is None when the problems forbid one.

    ``text`` is what excerpts are cut from; ``locate`` says where the file writes an option of
    an engine document, if it does.
    """

    config: Config | None
    problems: tuple[Problem, ...]
    text: Document | None = None
    locate: Callable[[Path], Place | None] = _nowhere


def planned_input(
    configs: Configs | None, flags: Flags, vllm: str | None, which: int | None = None
) -> Input:
    """Examine the file with the flags laid over it.

    A transfer config has no model and no memory: they come from the flags, those of its own
    command line first. ``which`` is the number of the config in a file of several. Without a
    file, everything comes from the flags.
    """
    if configs is None:
        return _from_flags(flags, vllm)
    if configs.document is None:
        return _of_source(configs, flags, vllm, which)
    if "schema" in _table(configs.document.data):
        return _of_engine(configs.document, flags, vllm)
    return _of_bare(configs.document, flags, vllm)


def _table(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _of_engine(document: Document, flags: Flags, vllm: str | None) -> Input:
    checked = examine(evolve(document, data=overlaid(document.data, flags)), vllm=vllm)
    return Input(
        config=checked.config,
        problems=tuple(_at_flags(checked.problems, flags)),
        text=document,
        locate=lambda path: None if path in flags else document.place(path),
    )


def _of_bare(document: Document, flags: Flags, vllm: str | None) -> Input:
    checked = examine(document, vllm=vllm)
    around = _from_flags(flags, vllm)
    return Input(
        config=_joined(around.config, checked.config),
        problems=(*checked.problems, *around.problems),
        text=document,
        locate=lambda path: document.place(path[1:]) if path[0] == _TRANSFER else None,
    )


def _of_source(configs: Configs, flags: Flags, vllm: str | None, which: int | None) -> Input:
    from kvengine.config.flags import effective
    from kvengine.config.sources import examine_source, release_of

    chosen = _chosen(configs.sources, which)
    if isinstance(chosen, Problem):
        return Input(config=None, problems=(chosen,))
    release = release_of(chosen, vllm)
    around = _from_flags({**flags_of(chosen), **flags}, str(release))
    ends_up = effective(chosen.data, chosen.flags, chosen.env, release)
    transfer = None
    if ends_up is not None:
        raw = json.dumps(ends_up).encode()
        transfer = examine(parse(raw, name="<config>", form="json"), vllm=str(release)).config
    config = around.config if ends_up is None else _joined(around.config, transfer)
    return Input(
        config=config,
        problems=(*examine_source(chosen, vllm=vllm), *around.problems),
        text=text_of(chosen.raw, chosen.name),
        locate=lambda path: chosen.place(path[1:]) if path[0] == _TRANSFER else None,
    )


def _joined(around: Config | None, transfer: Config | None) -> Config | None:
    if around is None or transfer is None:
        return None
    return evolve(around, kv_transfer=transfer.kv_transfer)


def _chosen(sources: tuple[Source, ...], which: int | None) -> Source | Problem:
    """The config that is meant, or why that is not clear."""
    if which is None and len(sources) == 1:
        return sources[0]
    if which is not None and 0 <= which < len(sources):
        return sources[which]
    if not sources:
        return Problem("missing", (), "the file holds no transfer config")
    known = "; ".join(
        f"{source.index}: line {source.place(()).line} {source.label}".rstrip()
        for source in sources
    )
    message = f"the file holds {len(sources)} configs: choose one with --config N"
    return Problem("choice", ("flag:--config",), message, known)


def _from_flags(flags: Flags, vllm: str | None) -> Input:
    """An engine document that holds nothing but what the flags say."""
    data = overlaid({"schema": CURRENT}, flags)
    document = Document(name=_FLAGS, form="json", raw=b"{}", data=data)
    checked = examine(document, vllm=vllm)
    return Input(config=checked.config, problems=tuple(_at_flags(checked.problems, flags)))


def _at_flags(problems: tuple[Problem, ...], flags: Flags) -> Iterator[Problem]:
    """The problems; those of a value that a flag gave stand at the flag."""
    for problem in problems:
        at = next((path for path in flags if problem.path[: len(path)] == path), None)
        if at is not None:
            yield evolve(problem, path=(f"flag:{flags[at][0]}",), place=None, fix=None)
        elif problem.path == ("vllm",) and problem.place and problem.place.file == _FLAGS:
            continue  # said of the file already, or of --vllm itself
        elif problem.place is not None and problem.place.file == _FLAGS:
            yield evolve(problem, place=None)
        else:
            yield problem


def incomplete(config: Config) -> PlanError | None:
    """One error for all that a plan needs and the config lacks."""
    lacks = {
        "a model (--model config.json, or model.config in an engine document)": (
            not config.model.config and not config.model.layers
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


def placed(problems: tuple[Problem, ...], start: Input) -> Iterator[Problem]:
    """What the planner found, at the places of the file where it names an option of it."""
    for problem in problems:
        yield evolve(problem, place=start.locate(problem.path) if problem.path else None)


def as_problem(error: PlanError, start: Input) -> Problem:
    """A refusal as a finding."""
    from kvengine.plan.findings import refusal

    place = start.locate(error.path) if error.path else None
    return evolve(refusal(error), place=place)
