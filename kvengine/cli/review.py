"""One file -> its findings, as the commands show them: merged over releases, filtered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from kvengine.cli.configs import Configs, read_configs
from kvengine.cli.settings import Settings
from kvengine.config.load import Checked, examine
from kvengine.document import read_raw
from kvengine.errors import DocumentError, Place, Problem

__all__ = ["Review", "review", "review_bytes"]

_IGNORE = re.compile(r"(?:#|//)[^\n]*?\bkvengine:\s*ignore\b(?:\s*\[([\w\s,-]*)\])?")
_MARK = b"kvengine:"
_OURS = {"kv_transfer", "model", "cache", "parallel"}


@frozen(kw_only=True)
class Review:
    """One file and all that is to be said about it.

    ``raw`` is None for a file that cannot be opened, ``configs`` for one that cannot be read.
    ``problems`` is what the options and the comments in the file leave of all that was
    ``found``. A file that is not ``ours`` was met in a folder and is passed over.
    """

    name: str
    raw: bytes | None
    problems: tuple[Problem, ...]
    found: tuple[Problem, ...] = ()
    configs: Configs | None = None
    ours: bool = True


def review(name: str, settings: Settings, *, named: bool = True) -> Review:
    """Read and check one file; ``"-"`` is standard input. Raises nothing."""
    try:
        raw, shown = read_raw(name)
    except DocumentError as error:
        problems = tuple(error.problems)
        return Review(name=name, raw=None, problems=problems, found=problems)
    return review_bytes(raw, shown, settings, named=named)


def review_bytes(raw: bytes, name: str, settings: Settings, *, named: bool = True) -> Review:
    """Check the content of one file."""
    try:
        configs = read_configs(raw, name)
    except DocumentError as error:
        problems = tuple(error.problems)
        ours = named or b"kv_connector" in raw
        return Review(name=name, raw=raw, problems=problems, found=problems, ours=ours)
    if not named and not _is_ours(configs):
        return Review(name=name, raw=raw, problems=(), configs=configs, ours=False)
    judged = [_judged(configs, name, vllm, settings) for vllm in settings.vllm or (None,)]
    found = tuple(_merged(judged, settings))
    ignored = _ignored_lines(raw)
    kept = (problem for problem in found if not _is_ignored(problem, ignored))
    shown = tuple(filter(settings.shows, kept))
    return Review(name=name, raw=raw, problems=shown, found=found, configs=configs)


def _is_ours(configs: Configs) -> bool:
    """Whether a file met in some folder has to do with us."""
    if configs.document is None:
        return bool(configs.sources)
    data = configs.document.data
    if not isinstance(data, dict):
        return False
    if "schema" in data:
        return data["schema"] in (1, 2) and not _OURS.isdisjoint(data)
    return "kv_connector" in data


def _judged(
    configs: Configs, name: str, vllm: str | None, settings: Settings
) -> tuple[str, tuple[Problem, ...]]:
    """The release that one judgement is for, and what it says."""
    if configs.document is not None:
        checked = examine(configs.document, vllm=vllm)
        problems = (*checked.problems, *_planned(checked))
        if settings.probe:
            problems = (*problems, *_probed(checked))
        return str(checked.release), problems
    if not configs.sources:
        top = Place(name, 1, 1, 0, 0)
        nothing = Problem("missing", (), "holds no transfer config", "", "info", place=top)
        return vllm or "", (nothing,)
    from kvengine.config.sources import examine_sources

    return vllm or "", tuple(examine_sources(configs.sources, vllm=vllm))


def _planned(checked: Checked) -> Iterator[Problem]:
    """What the planner says of a document without errors that names a model and memory.

    Where the checker has spoken of an option already, its word is enough.
    """
    tables = {name: (checked.whole or {}).get(name) or {} for name in ("model", "cache")}
    described = {"config", "layers"} & {*tables["model"]}
    if checked.errors or not described or not {"memory", "num_blocks"} & {*tables["cache"]}:
        return
    from kvengine.plan.check import plan_findings

    assert checked.config is not None
    said = {problem.path for problem in checked.problems}
    for problem in plan_findings(checked.config):
        if problem.path not in said:
            yield checked.placed(problem)


def _probed(checked: Checked) -> Iterator[Problem]:
    """What this machine says of a document that makes a config."""
    from kvengine.cli.probe import probe_problems

    if checked.config is not None:
        yield from map(checked.placed, probe_problems(checked.config))


def _merged(judged: list[tuple[str, tuple[Problem, ...]]], settings: Settings) -> Iterator[Problem]:
    """The problems of one file for every release; what only some of them have says which."""
    if len(judged) == 1:
        yield from _from_flag(judged[0][1], settings)
        return
    found: dict[tuple[Any, ...], tuple[Problem, list[str]]] = {}
    for release, problems in judged:
        for problem in _from_flag(problems, settings):
            where = (problem.path, problem.config, problem.config_path)
            key = (problem.code, problem.severity, where, problem.message, problem.hint)
            found.setdefault(key, (problem, []))[1].append(release)
    for problem, releases in sorted(found.values(), key=lambda pair: _start(pair[0])):
        if len(releases) == len(judged) or any(f"vLLM {r}" in problem.message for r in releases):
            yield problem
        else:
            which = ", ".join(releases)
            yield evolve(problem, message=f"{problem.message} (vLLM {which})")


def _from_flag(problems: tuple[Problem, ...], settings: Settings) -> Iterator[Problem]:
    """What is to be said about the release stands at the flag, if that is where it came from."""
    for problem in problems:
        if settings.vllm and problem.path == ("vllm",):
            yield evolve(problem, path=("flag:--vllm",), place=None)
        else:
            yield problem


def _start(problem: Problem) -> int:
    return problem.place.start if problem.place else 0


def _ignored_lines(raw: bytes) -> Mapping[int, frozenset[str]]:
    """Line -> codes that a comment there asks to ignore; an empty set stands for all codes.

    A comment that has a line of its own speaks for the line below as well.
    """
    if _MARK not in raw:
        return {}
    found: dict[int, frozenset[str]] = {}
    for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"), start=1):
        match = _IGNORE.search(line)
        if match is None:
            continue
        codes = frozenset(code.strip() for code in (match[1] or "").split(",") if code.strip())
        found[number] = codes
        if line.lstrip().startswith(("#", "//")):
            found[number + 1] = codes
    return found


def _is_ignored(problem: Problem, ignored: Mapping[int, frozenset[str]]) -> bool:
    if problem.place is None or problem.place.line not in ignored:
        return False
    codes = ignored[problem.place.line]
    return not codes or problem.code in codes
