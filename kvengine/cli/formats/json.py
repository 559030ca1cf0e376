"""``--format json``: every finding as data, version 1."""

from __future__ import annotations

import json

from kvengine.cli.report import Report

__all__ = ["render"]


def render(report: Report, *, colour: bool = False) -> str:
    """One JSON object; offsets of edits count bytes of the file."""
    found = {"version": 1, "problems": [problem.to_dict() for problem in report.problems]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
