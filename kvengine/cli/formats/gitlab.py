"""``--format gitlab``: a Code Quality report, which GitLab shows in merge requests."""

from __future__ import annotations

import json
from typing import Any

from kvengine.cli.formats.fingerprints import fingerprints
from kvengine.cli.report import Report, said_path
from kvengine.errors import Problem

__all__ = ["render"]

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(report: Report, *, colour: bool = False) -> str:
    """A list with one entry per finding."""
    problems = report.problems
    entries = map(_entry, problems, fingerprints(problems))
    return json.dumps([*entries], indent=2, ensure_ascii=False) + "\n"


def _entry(problem: Problem, fingerprint: str) -> dict[str, Any]:
    path = f"{where}: " if (where := said_path(problem)) else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    place = problem.place
    return {
        "description": f"{path}{problem.message}{hint}",
        "check_name": f"kvengine/{problem.code}",
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[problem.severity],
        "location": {
            "path": place.file.removeprefix("./") if place else "environment",
            "lines": {"begin": place.line if place else 1},
        },
    }
