"""``--format sarif``: SARIF 2.1.0, what code scanning services read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from kvengine import __version__
from kvengine.cli.formats.fingerprints import fingerprints
from kvengine.cli.report import Report, said_path
from kvengine.errors import Fix, Place, Problem
from kvengine.rules.codes import CODES

__all__ = ["render"]

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report, *, colour: bool = False) -> str:
    """One log with one run; offsets count bytes, columns count characters."""
    problems = report.problems
    codes = [code for code in CODES if any(problem.code == code for problem in problems)]
    results = [
        _result(problem, codes.index(problem.code), fingerprint)
        for problem, fingerprint in zip(problems, fingerprints(problems), strict=True)
    ]
    driver = {
        "name": "kvengine",
        "version": __version__,
        "rules": [_rule(code) for code in codes],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    code = CODES[name]
    return {
        "id": name,
        "shortDescription": {"text": code.means.split(". ")[0].rstrip(".") + "."},
        "fullDescription": {"text": code.means},
        "help": {"text": f"Example: {code.example}\n{code.mend}"},
    }


def _result(problem: Problem, index: int, fingerprint: str) -> dict[str, Any]:
    path = f"{where}: " if (where := said_path(problem)) else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": f"{path}{problem.message}{hint}"},
        "partialFingerprints": {"kvengine/v1": fingerprint},
    }
    if problem.place is not None:
        result["locations"] = [{"physicalLocation": _location(problem.place)}]
        if problem.fix is not None and problem.fix.edits:
            result["fixes"] = [_fix(problem.fix, problem.place)]
    return result


def _artifact(place: Place) -> dict[str, str]:
    return {"uri": quote(place.file.replace("\\", "/"), safe="/:", errors="surrogateescape")}


def _location(place: Place) -> dict[str, Any]:
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "byteOffset": place.start,
        "byteLength": place.end - place.start,
    }
    return {"artifactLocation": _artifact(place), "region": region}


def _fix(fix: Fix, place: Place) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.end - edit.start},
            **({"insertedContent": {"text": edit.text}} if edit.text else {}),
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact(place), "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}
