"""Which findings count: the command line, and behind it ``[tool.kvengine]`` in pyproject.toml."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from attrs import frozen

from kvengine.cli import UsageError
from kvengine.errors import Problem, Severity, show

__all__ = ["SEVERITIES", "Settings", "add_settings", "reaches", "settings_of"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""


@frozen(kw_only=True)
class Settings:
    """Which findings are shown and which of them fail a run.

    ``select`` and ``ignore`` hold codes; an empty ``select`` means all of them. ``vllm`` are the
    releases to judge for, none for what the document itself says. ``probe``: ask this machine as
    well.
    """

    vllm: tuple[str, ...] = ()
    severity: Severity = "info"
    fail_on: Severity = "error"
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    probe: bool = False

    def shows(self, problem: Problem) -> bool:
        """Whether a finding is wanted."""
        if self.select and problem.code not in self.select:
            return False
        return problem.code not in self.ignore and reaches(problem, self.severity)

    def fails(self, problem: Problem) -> bool:
        """Whether a finding fails the run."""
        return reaches(problem, self.fail_on)


def reaches(problem: Problem, severity: Severity) -> bool:
    """Whether a finding is at least that severe."""
    return SEVERITIES.index(problem.severity) <= SEVERITIES.index(severity)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The options that :func:`settings_of` reads."""
    add = parser.add_argument
    add("--vllm", metavar="R[,R2]", help="vLLM releases to judge for, such as 0.28,0.33")
    add("--fail-on", choices=SEVERITIES, help="least severity that fails (default: error)")
    add("--severity", choices=SEVERITIES, help="least severity that is shown (default: info)")
    add("--select", metavar="CODES", help="show these codes only, such as range,unknown")
    add("--ignore", metavar="CODES", help="leave these codes out")


def settings_of(arguments: argparse.Namespace) -> Settings:
    """What the command line says, and the nearest ``[tool.kvengine]`` where it says nothing."""
    file = _from_pyproject()
    given = {key: getattr(arguments, key) for key in _KEYS if getattr(arguments, key) is not None}
    chosen: dict[str, Any] = {**file, **given}
    codes = {key: frozenset(_words(key, chosen.get(key))) for key in ("select", "ignore")}
    for key, wanted in codes.items():
        _known_codes(key, wanted)
    return Settings(
        vllm=_releases(_words("vllm", chosen.get("vllm"))),
        severity=_severity("severity", chosen.get("severity", "info")),
        fail_on=_severity("fail-on", chosen.get("fail_on", "error")),
        probe=getattr(arguments, "probe", False),
        **codes,
    )


_KEYS = ("vllm", "fail_on", "severity", "select", "ignore")


def _from_pyproject() -> Mapping[str, Any]:
    """The table of the nearest pyproject.toml, in this folder or above, that has one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        try:
            raw = (folder / "pyproject.toml").read_bytes()
        except OSError:
            continue
        if b"kvengine" in raw and (table := _table(raw, str(folder / "pyproject.toml"))):
            return table
    return {}


def _table(raw: bytes, name: str) -> Mapping[str, Any]:
    import tomli

    try:
        tool = tomli.loads(raw.decode("utf-8")).get("tool", {})
    except ValueError as error:
        raise UsageError(f"{name} cannot be read: {error}") from None
    table = tool.get("kvengine", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{name}: tool.kvengine must be a table")
    found = {key.replace("-", "_"): value for key, value in table.items()}
    for key in table:
        if key.replace("-", "_") not in _KEYS:
            known = ", ".join(word.replace("_", "-") for word in _KEYS)
            raise UsageError(f"{name}: tool.kvengine.{key} is no option; known are {known}")
    return found


def _words(key: str, value: Any) -> list[str]:
    """A list of words, or one text with commas."""
    parts = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"{key} must be a text or a list of texts, not {show(value)}")
    return [part.strip() for part in parts if part.strip()]


def _severity(key: str, value: Any) -> Severity:
    for severity in SEVERITIES:
        if severity == value:
            return severity
    raise UsageError(f"{key} must be one of {', '.join(SEVERITIES)}, not {show(value)}")


def _known_codes(key: str, codes: frozenset[str]) -> None:
    if not codes:
        return
    from kvengine.rules.codes import CODES
    from kvengine.rules.judge import nearest

    for code in sorted(codes - CODES.keys()):
        likely = nearest(code, CODES)
        meant = f"; did you mean {likely}?" if likely else "; kvengine explain lists all"
        raise UsageError(f"{key}: {code} is no code{meant}")


def _releases(texts: list[str]) -> tuple[str, ...]:
    from kvengine.rules.releases import release

    try:
        return tuple(dict.fromkeys(str(release(text)) for text in texts))
    except ValueError as error:
        raise UsageError(f"vllm: {error}") from None
