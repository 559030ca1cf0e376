"""Transfer configs found in other files -> problems: each judged with what stands around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from kvengine.config.around import check_source
from kvengine.config.engine import PACKED_VARIABLE
from kvengine.config.load import judge_engine
from kvengine.config.pairs import Engine, check_pair
from kvengine.config.traits import traits_of_name
from kvengine.config.transfer import KVTransferConfig
from kvengine.document.embedded import Source
from kvengine.errors import Drop, Fix, Path, Problem
from kvengine.rules.check import check
from kvengine.rules.releases import KNOWN, NEWEST, Release, release

__all__ = ["examine_source", "examine_sources", "release_of"]

_ONE_MACHINE = ("shell", "compose")
"""Files whose commands commonly run side by side."""


def release_of(source: Source, vllm: str | None = None) -> Release:
    """The release to judge for: the one asked for, else that of the image, else the newest.

    Of releases that we do not know, the nearest one that we do.
    """
    text = vllm if vllm is not None else source.vllm
    try:
        wanted = NEWEST if text is None else release(text)
    except ValueError:
        return NEWEST
    return min(max(wanted, KNOWN[0]), KNOWN[-1])


def examine_sources(sources: Sequence[Source], *, vllm: str | None = None) -> list[Problem]:
    """Everything there is to say about the configs of one file, pairs of engines included."""
    problems = [problem for source in sources for problem in examine_source(source, vllm=vllm)]
    for one, other in _pairs(sources):
        found = check_pair(_engine(one), _engine(other), release=release_of(other, vllm))
        problems += _placed(_known(found, other), other)
    return sorted(problems, key=lambda problem: problem.place.start if problem.place else 0)


def examine_source(source: Source, *, vllm: str | None = None) -> list[Problem]:
    """Everything there is to say about one config and what it is started with."""
    wanted = release_of(source, vllm)
    if source.origin == "engine" and isinstance(source.data, dict):
        found = judge_engine(source.data, wanted)
    else:
        found = _judged(source, wanted)
    return [*_placed([*source.problems, *_known(found, source)], source)]


def _judged(source: Source, wanted: Release) -> list[Problem]:
    """What is to be said of a transfer config and of what stands around it.

    A file that holds the config alone says nothing of flags, and without any variable nothing
    of the environment.
    """
    found: list[Problem] = []
    if source.data is not None:
        found += check(KVTransferConfig, source.data, mode="release", release=wanted)
    alone = source.origin == "bare"
    silent = not source.env and source.origin in ("bare", "yaml-config", "python")
    return found + check_source(
        source.data,
        release=wanted,
        flags=None if alone else source.flags,
        env=None if silent else source.env,
        traits=traits_of_name(source.model) if source.model else None,
    )


def _known(problems: Iterable[Problem], source: Source) -> Iterator[Problem]:
    """The problems of values that are written out: of variables only the name can be judged."""
    for problem in problems:
        unknown = any(problem.path[: len(path)] == path for path in source.unresolved)
        if not unknown or problem.code == "capacity":
            yield problem


def _placed(problems: Iterable[Problem], source: Source) -> Iterator[Problem]:
    """The problems with their places in the file; each said once."""
    seen: set[tuple[str, Path, str]] = set()
    for problem in problems:
        key = (problem.code, problem.path, problem.message)
        if key in seen:
            continue
        seen.add(key)
        yield evolve(
            problem,
            fix=_fix(problem),
            path=source.outer_path(problem.path),
            place=problem.place or source.place(problem.path),
            config=source.index,
            config_path=None if _is_around(problem.path) else problem.path,
        )


def _fix(problem: Problem) -> Fix | None:
    """The problem's own fix; a variable that nobody reads can go."""
    if problem.path == (f"env:{PACKED_VARIABLE}",) and problem.code == "deprecated":
        return Fix("remove it", (Drop(problem.path),))
    return problem.fix


def _is_around(path: Path) -> bool:
    """Whether a path leads to a flag or a variable instead of into the config."""
    return bool(path) and str(path[0]).startswith(("flag:", "env:"))


def _pairs(sources: Sequence[Source]) -> Iterator[tuple[Source, Source]]:
    """The prefill and the decode engine of a file, where it has exactly one of each."""
    roles = {role: [s for s in sources if _role(s) == role] for role in ("producer", "consumer")}
    if all(len(engines) == 1 for engines in roles.values()):
        yield roles["producer"][0], roles["consumer"][0]


def _role(source: Source) -> str:
    """What an engine is for: as its role says, or its name where the role leaves it open."""
    data = source.data if isinstance(source.data, dict) else {}
    role = data.get("kv_role")
    if role in ("kv_producer", "kv_consumer"):
        return str(role).removeprefix("kv_")
    label = source.label.lower()
    sides = [side for word, side in _SIDES if word in label] if role == "kv_both" else []
    return sides[0] if len(sides) == 1 else ""


_SIDES = (("prefill", "producer"), ("decode", "consumer"))


def _engine(source: Source) -> Engine:
    host = "the machine" if source.origin in _ONE_MACHINE else source.label
    traits = traits_of_name(source.model) if source.model else None
    return Engine(
        config=source.data,
        flags=source.flags,
        env=source.env,
        host=host,
        traits=traits or frozenset(),
    )
