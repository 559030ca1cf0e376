"""One file -> its findings, as the commands show them: merged over releases, filtered, editable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from kvengine.cli.settings import Settings
from kvengine.config.load import Checked, examine
from kvengine.document import Document, parse, read_raw
from kvengine.errors import DocumentError, Problem

__all__ = ["STDIN", "Review", "review", "review_bytes"]

STDIN = "<stdin>"
"""The name of standard input in findings."""

_IGNORE = re.compile(r"(?:#|//)[^\n]*?\bkvengine:\s*ignore\b(?:\s*\[([\w\s,-]*)\])?")
_MARK = b"kvengine:"
_OURS = {"kv_transfer", "model", "cache", "parallel"}


@frozen(kw_only=True)
class Review:
    """One file and all that is to be said about it.

    ``raw`` is None for a file that cannot be opened, ``document`` for one that cannot be read.
    ``problems`` is what the options and the comments in the file leave of all that was
    ``found``. A file that is not ``ours`` was met in a folder and is passed over.
    """

    name: str
    raw: bytes | None
    problems: tuple[Problem, ...]
    found: tuple[Problem, ...] = ()
    document: Document | None = None
    ours: bool = True


def review(name: str, settings: Settings, *, named: bool = True) -> Review:
    """Read and check one file; ``"-"`` is standard input. Raises nothing."""
    try:
        raw, shown = read_raw(name)
    except DocumentError as error:
        return _unreadable(name, None, error)
    return review_bytes(raw, shown, settings, named=named)


def review_bytes(raw: bytes, name: str, settings: Settings, *, named: bool = True) -> Review:
    """Check the content of one file."""
    try:
        document = parse(raw, name=name)
    except DocumentError as error:
        return _unreadable(name, raw, error, ours=named or b"kv_connector" in raw)
    if not named and not _is_ours(document.data):
        return Review(name=name, raw=raw, problems=(), ours=False)
    checked = [examine(document, vllm=vllm) for vllm in settings.vllm or (None,)]
    found = tuple(_merged(checked, settings))
    ignored = _ignored_lines(raw)
    kept = (problem for problem in found if not _is_ignored(problem, ignored))
    shown = tuple(problem for problem in kept if settings.shows(problem))
    return Review(name=name, raw=raw, problems=shown, found=found, document=document)


def _unreadable(name: str, raw: bytes | None, error: DocumentError, *, ours: bool = True) -> Review:
    problems = tuple(error.problems)
    return Review(name=name, raw=raw, problems=problems, found=problems, ours=ours)


def _is_ours(data: Any) -> bool:
    """Whether data met in some folder is an engine document or a transfer config."""
    if not isinstance(data, dict):
        return False
    if "schema" in data:
        return data["schema"] in (1, 2) and not _OURS.isdisjoint(data)
    return "kv_connector" in data


def _merged(checked: list[Checked], settings: Settings) -> Iterator[Problem]:
    """The problems of one document for every release; what some of them have says which."""
    if len(checked) == 1:
        yield from _from_flag(checked[0].problems, settings)
        return
    found: dict[tuple[Any, ...], tuple[Problem, list[str]]] = {}
    for one in checked:
        for problem in _from_flag(one.problems, settings):
            key = (problem.code, problem.severity, problem.path, problem.message, problem.hint)
            found.setdefault(key, (problem, []))[1].append(str(one.release))
    for problem, releases in sorted(found.values(), key=lambda pair: _start(pair[0])):
        if len(releases) == len(checked) or any(f"vLLM {r}" in problem.message for r in releases):
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
