"""Text -> Config, read top to bottom: recognise, judge, migrate, judge again, build."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path as FilePath
from typing import Any, Literal

from attrs import evolve, field, frozen

from kvengine.config.around import advice_for, check_source
from kvengine.config.engine import Config
from kvengine.config.transfer import KVTransferConfig
from kvengine.document import Document, parse, read
from kvengine.document.changes import at as value_at
from kvengine.document.changes import changed, has
from kvengine.errors import ConfigError, DocumentError, Path, Problem, Put, show
from kvengine.rules.check import check
from kvengine.rules.migrate import Migration, migrate
from kvengine.rules.modes import CURRENT, Mode
from kvengine.rules.releases import KNOWN, NEWEST, Release, release

__all__ = ["Checked", "examine", "judge_engine", "load"]

Kind = Literal["engine", "bare"]

_FILES: tuple[Path, ...] = (("model", "config"), ("speculative", "draft"))
_STILL_PLANS = {"exclusive", "range", "requires", "conflict", "coerced", "known-issue", "connector"}


@frozen
class Checked:
    """A document after all checks.

    ``data`` is the document in today's spelling, ``release`` the vLLM release it was judged for,
    ``whole`` the engine document with its files read in, unless the problems forbid a config.
    """

    document: Document
    data: Any
    release: Release
    problems: tuple[Problem, ...]
    migration: Migration | None = None
    whole: Mapping[str, Any] | None = field(default=None, repr=False)
    mode: Mode = "strict"

    @cached_property
    def config(self) -> Config | None:
        """The config, built when first asked for; None when the problems forbid it."""
        if self.whole is None:
            return None
        from kvengine.config.build import build

        return evolve(build(self.whole, self.mode, self.release), vllm=str(self.release))

    def placed(self, problem: Problem) -> Problem:
        """A problem of the engine document in today's spelling, where the user wrote it."""
        if self.mode == "release" and problem.path[:1] == ("kv_transfer",):  # a bare config
            return _placed(evolve(problem, path=problem.path[1:]), self.document, ())
        origins = self.migration.origins if self.migration else {}
        at = origins.get(problem.path, problem.path)
        fix = problem.fix if at == problem.path else None
        return _placed(evolve(problem, path=at, fix=fix), self.document, ("kv_transfer",))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid a launch."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | Document, *, vllm: str | None = None
) -> Config:
    """Read and check an engine document or a bare transfer config.

    ``source`` is a path, ``"-"`` for standard input, a mapping or a document already read. A
    bare transfer config becomes a :class:`Config` with nothing but ``kv_transfer``. ``vllm``
    goes before the release that the document names. Raises :class:`kvengine.ConfigError` with
    every problem when one of them is an error; its subclass ``DocumentError`` when the file
    cannot be read.
    """
    checked = examine(_document(source), vllm=vllm)
    if checked.errors or checked.config is None:
        raise ConfigError(checked.problems)
    return checked.config


def _document(source: str | os.PathLike[str] | Mapping[str, Any] | Document) -> Document:
    if isinstance(source, Document):
        return source
    if isinstance(source, Mapping):
        import json

        try:
            raw = json.dumps(source, ensure_ascii=False, indent=2, default=dict).encode()
        except (TypeError, ValueError) as error:
            problem = Problem("type", (), f"is no document: {error}")
            raise DocumentError([problem]) from None
        return parse(raw, name="<mapping>", form="json")
    return read(os.fspath(source))


def examine(document: Document, *, vllm: str | None = None) -> Checked:
    """All there is to say about a document that could be read; raises nothing."""
    data = document.data
    kind = _kind(data)
    if kind is None:
        return Checked(document, data, NEWEST, (_placed(_no_document(data), document, None),))
    wanted, release_problems = _release(vllm, data if kind == "engine" else {})
    if kind == "bare":
        problems = check(KVTransferConfig, data, mode="release", release=wanted)
        checked = _finish(document, data, wanted, problems, "bare", Migration(data))
        return _with_advice(checked, check_source(data, release=wanted), ())
    problems, migration = _judged(data, wanted)
    problems = [*release_problems, *problems]
    checked = _finish(document, migration.data, wanted, problems, "engine", migration)
    return _with_advice(checked, advice_for(migration.data, wanted), ("kv_transfer",))


def judge_engine(data: Mapping[str, Any], wanted: Release) -> list[Problem]:
    """Every problem of an engine document's content; paths start at its root."""
    problems, migration = _judged(data, wanted)
    return [*problems, *advice_for(migration.data, wanted)]


def _with_advice(checked: Checked, advice: list[Problem], base: Path) -> Checked:
    """The document with what its options say together: it never forbids building a config."""
    placed = [_placed(problem, checked.document, base) for problem in advice]
    problems = sorted((*checked.problems, *placed), key=_start)
    return evolve(checked, problems=tuple(problems))


def _start(problem: Problem) -> int:
    return problem.place.start if problem.place else 0


def _judged(data: Mapping[str, Any], wanted: Release) -> tuple[list[Problem], Migration]:
    """The problems of an engine document, and its content in today's spelling."""
    migration = Migration(data)
    problems: list[Problem] = []
    if data.get("schema") == 1:
        problems += check(Config, data, mode="old", release=wanted, shape=_schema_1())
        if not any(problem.severity == "error" for problem in problems):
            migration = migrate(Config, data)
            problems += _newly(
                check(Config, migration.data, mode="strict", release=wanted), problems, migration
            )
    else:
        problems += check(Config, data, mode="strict", release=wanted)
    return problems, migration


def _kind(data: Any) -> Kind | None:
    if not isinstance(data, Mapping):
        return None
    if data.get("schema") in (1, CURRENT) and not isinstance(data.get("schema"), (bool, float)):
        return "engine"
    return "bare" if "kv_connector" in data and "schema" not in data else None


def _no_document(data: Any) -> Problem:
    example = "an engine document begins with schema = 2, a transfer config has kv_connector"
    if not isinstance(data, Mapping):
        return Problem("type", (), "must be a table of options", example)
    if "schema" not in data:
        return Problem(
            "missing", (), "is neither an engine document nor a transfer config", example
        )
    version = data["schema"]
    if type(version) is int and version > CURRENT:
        hint = f"this kvengine knows versions 1 and {CURRENT}"
        return Problem("choice", ("schema",), f"is version {version}, newer than we know", hint)
    return Problem("choice", ("schema",), f"must be 1 or {CURRENT}, not {show(version)}")


def _release(vllm: str | None, data: Mapping[str, Any]) -> tuple[Release, list[Problem]]:
    """The release to judge for, and what is to be said about how it was given."""
    named = data.get("vllm")
    text = vllm if vllm is not None else named
    if not isinstance(text, str):
        return NEWEST, []
    try:
        wanted = release(text)
    except ValueError as error:
        return NEWEST, [Problem("choice", ("vllm",), str(error))]
    if KNOWN[0] <= wanted <= KNOWN[-1]:
        return wanted, []
    hint = f"known are {KNOWN[0]} to {KNOWN[-1]}; the nearest of them was used"
    nearest = KNOWN[0] if wanted < KNOWN[0] else NEWEST
    return nearest, [Problem("choice", ("vllm",), f"is {text}, not known here", hint, "warning")]


@cache
def _schema_1() -> Mapping[str, Any]:
    from kvengine.config.published import published

    return published("kv-engine-1")


def _newly(found: list[Problem], known: list[Problem], migration: Migration) -> Iterator[Problem]:
    """Problems of the migrated document that the old one did not show, where the user wrote."""
    seen = {problem.path for problem in known}
    for problem in found:
        at = migration.origins.get(problem.path, problem.path)
        if at not in seen:
            yield evolve(problem, path=at, fix=problem.fix if at == problem.path else None)


def _finish(
    document: Document,
    data: Any,
    wanted: Release,
    problems: list[Problem],
    kind: Kind,
    migration: Migration,
) -> Checked:
    base: Path = () if kind == "bare" else ("kv_transfer",)
    whole: Mapping[str, Any] | None = None
    mode: Mode = "release" if kind == "bare" else "strict"
    errors = [problem for problem in problems if problem.severity == "error"]
    if all(error.code in _STILL_PLANS and error.path[: len(base)] == base for error in errors):
        read_in = {"schema": CURRENT, "kv_transfer": data} if kind == "bare" else data
        read_in, file_problems = _with_files(read_in, document.name)
        problems = [*problems, *file_problems]
        whole = None if file_problems else read_in
    placed = [_placed(problem, document, base) for problem in (*document.notes, *problems)]
    placed.sort(key=_start)
    return Checked(document, data, wanted, tuple(placed), migration, whole, mode)


def _with_files(data: Any, name: str) -> tuple[Any, list[Problem]]:
    """The document with the model files that it names read in."""
    problems: list[Problem] = []
    folder = FilePath(name).parent if not name.startswith("<") else FilePath()
    for path in _FILES:
        if not has(data, path) or not isinstance(value_at(data, path), str):
            continue
        file = folder / str(value_at(data, path))
        try:
            content = read(str(file)).data
        except DocumentError as error:
            reason = error.problems[0]
            message = f"names {file}, which cannot be used: {reason.message}"
            problems.append(Problem("missing", path, message, reason.hint))
            continue
        if isinstance(content, dict):
            data = changed(data, Put(path, content))
        else:
            problems.append(Problem("type", path, f"names {file}, which holds no table"))
    return data, problems


def _placed(problem: Problem, document: Document, base: Path | None) -> Problem:
    """The problem with its place in the file and in the transfer config."""
    inside = base is not None and problem.path[: len(base)] == base
    return evolve(
        problem,
        place=problem.place or document.place(problem.path),
        config=0 if inside else None,
        config_path=problem.path[len(base or ()) :] if inside else None,
    )
