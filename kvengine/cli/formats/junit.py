"""``--format junit``: one test per file, for services that show test reports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from kvengine.cli.report import Report
from kvengine.cli.settings import Settings
from kvengine.errors import Problem

__all__ = ["render"]

_FORBIDDEN = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")


def render(report: Report, *, colour: bool = False) -> str:
    """A test fails with the findings that reach ``--fail-on``; all others are its output."""
    cases = [(review.name, review.problems) for review in report.reviews]
    if report.beside:
        cases.append(("environment", report.beside))
    failed = sum(any(map(report.settings.fails, problems)) for _, problems in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="kvengine" {counts}>']
    lines.append(f'  <testsuite name="kvengine check" {counts}>')
    for name, problems in cases:
        lines += _case(name, problems, report.settings)
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""])


def _case(name: str, problems: Iterable[Problem], settings: Settings) -> list[str]:
    failures = [problem for problem in problems if settings.fails(problem)]
    others = [problem for problem in problems if not settings.fails(problem)]
    head = f"    <testcase classname={_attribute('kvengine')} name={_attribute(name)}"
    if not failures and not others:
        return [f"{head}/>"]
    lines = [f"{head}>"]
    for problem in failures:
        said = f"type={_attribute(problem.code)} message={_attribute(problem.message)}"
        lines.append(f"      <failure {said}>{_text(str(problem))}</failure>")
    if others:
        told = "\n".join(f"{problem.severity}: {problem}" for problem in others)
        lines.append(f"      <system-out>{_text(told)}</system-out>")
    return [*lines, "    </testcase>"]


def _allowed(text: str) -> str:
    """XML has no way to say most control characters, nor half of a surrogate pair."""
    return "".join("?" if c not in "\t\n" and _FORBIDDEN.match(c) else c for c in text)


def _text(text: str) -> str:
    return escape(_allowed(text))


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text))
