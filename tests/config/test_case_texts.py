"""The same cases as people typed them: shell, manifests, compose files, Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvengine.config.sources import examine_sources
from kvengine.document.embedded import find
from kvengine.errors import pointer
from tests.config.surroundings import AROUND

CASES = json.loads((Path(__file__).parent.parent / "data/cases/configs.json").read_text())
SEVERITIES = ["info", "warning", "error"]
ENDINGS = {
    "cli": "sh",
    "k8s": "yaml",
    "compose": "yaml",
    "yaml-config": "yaml",
    "python": "py",
    "env": "env",
}
LISTED = {
    "case-006": "the folded command is valid; only its style is fragile",
    "case-010": "the JSON holds no space: it works, though only just",
    "case-012": "whether somebody evaluates the variable again is not in the text",
    "case-084": "a config of another engine; for vLLM its role is missing",
}
"""Texts that are judged otherwise than the case says, each with the reason."""


def problems(case):
    name = f"case.{ENDINGS[case['embedding']]}"
    around = AROUND.get(case["id"])
    sources = [*find(case["raw"].encode(), name=name)]
    return examine_sources(sources, vllm=around.release if around else None)


@pytest.mark.parametrize(
    ("case", "expect"),
    [
        pytest.param(case, expect, id=f"{case['id']} {expect['rule']}")
        for case in CASES
        for expect in case["expect"]
        if expect["path"] == "raw"
    ],
)
def test_faults_of_form_are_found_in_the_text(case, expect):
    """Quotes that a shell takes away, comments in JSON, backslashes too many."""
    if case["id"] in LISTED:
        return
    least = SEVERITIES.index(expect["severity"])

    found = [p for p in problems(case) if p.code in ("syntax", "placeholder")]

    assert any(SEVERITIES.index(problem.severity) >= least for problem in found)
    assert all(problem.place is not None for problem in found)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["outcome"] == "works"], ids=lambda case: case["id"]
)
def test_a_text_that_works_has_no_errors(case):
    """Only what the case itself calls an error is one."""
    if case["id"] in LISTED:
        return
    expected = {e["path"] for e in case["expect"] if e["severity"] == "error"}

    wrong = [problem for problem in problems(case) if problem.severity == "error"]

    assert [
        str(problem)
        for problem in wrong
        if pointer(problem.config_path or problem.path) not in expected
    ] == []
