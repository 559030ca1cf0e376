"""``kvengine plan``: what the engine will do with its KV memory, to the byte."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from kvengine.cli import UsageError
from kvengine.cli.plan_flags import add_flags, given
from kvengine.cli.terminal import out, wants_colour

if TYPE_CHECKING:
    from kvengine.cli.plan_input import Input
    from kvengine.document import Document
    from kvengine.errors import PlanError, Problem
    from kvengine.plan.plan import Plan

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine plan serve.toml
  kvengine plan transfer.json --model config.json --memory "40 GiB" --tp 2
  kvengine plan serve.toml --vllm 0.32 --json

Sizes are per rank. Exit codes: 0 planned, 1 refused or with errors, 2 wrong usage or an
unreadable file.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``plan``."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="engine document or transfer config; - is stdin")
    add("--json", action="store_true", help="print the plan as JSON")
    add("--vllm", metavar="R", help="vLLM release; goes before the one that the file names")
    add(
        "--packing",
        choices=("engine", "always", "never"),
        default="engine",
        help="pack as the engine does (default), always or never",
    )
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan one file; returns the exit code."""
    from kvengine.cli.plan_input import incomplete, planned_input
    from kvengine.errors import DocumentError, PlanError

    flags = given(arguments)
    if arguments.file is None and not flags:
        raise UsageError("plan: no FILE given; - is standard input")
    try:
        document = _document(arguments.file)
    except DocumentError as error:
        _tell_errors(error.problems, None, as_json=arguments.json)
        return 2
    start = planned_input(document, flags, _release(arguments.vllm))
    if start.config is None:
        _tell_errors(_problems(start), document, as_json=arguments.json)
        return 1
    try:
        lacking = incomplete(start.config)
        if lacking is not None:
            raise lacking
        plan = _make(start, arguments.packing)
    except PlanError as error:
        _tell_refusal(error, start, as_json=arguments.json)
        return 1
    return _tell(plan, start, as_json=arguments.json)


def _document(name: str | None) -> Document | None:
    from kvengine.document import read

    return None if name is None else read(name)


def _release(text: str | None) -> str | None:
    from kvengine.rules.releases import release

    try:
        return None if text is None else str(release(text))
    except ValueError as error:
        raise UsageError(f"plan: {error}") from None


def _make(start: Input, packing: Any) -> Plan:
    from kvengine.plan.make import make_plan

    assert start.config is not None
    return make_plan(start.config, packing=packing)


def _problems(start: Input, *more: Problem) -> tuple[Problem, ...]:
    from kvengine.cli.environment import environment_problems

    return (*environment_problems(os.environ), *start.problems, *more)


def _tell(plan: Plan, start: Input, *, as_json: bool) -> int:
    """Print the plan and its findings; returns the exit code."""
    from kvengine.cli.plan_input import placed
    from kvengine.errors import PlanError

    problems = _problems(start, *placed(plan.problems, start.document))
    if as_json:
        _print_json({**plan.to_dict(), "problems": [problem.to_dict() for problem in problems]})
    else:
        from kvengine.cli.plan_print import print_page
        from kvengine.cli.plan_view import sections

        print_page(sections(plan, start.config), sys.stdout)
        out("\n" * bool(problems))
        _print_findings(problems, start.document)
    refused = isinstance(plan.offload, PlanError)
    return int(refused or any(problem.severity == "error" for problem in problems))


def _tell_refusal(error: PlanError, start: Input, *, as_json: bool) -> None:
    """Print why nothing could be planned."""
    from kvengine.cli.plan_input import as_problem
    from kvengine.cli.plan_print import text_of
    from kvengine.cli.plan_view import refusal

    problems = _problems(start)
    if as_json:
        found = [problem.to_dict() for problem in problems]
        _print_json({"version": 1, "error": error.to_dict(), "problems": found})
        return
    _print_findings((*problems, as_problem(error, start.document)), start.document)
    out(text_of([refusal(error)]))


def _tell_errors(problems: Any, document: Document | None, *, as_json: bool) -> None:
    """Print what keeps a document from being planned at all."""
    if not as_json:
        _print_findings(problems, document)
        return
    first = next(problem for problem in problems if problem.severity == "error")
    facts = {"code": first.code, "message": first.message, "hint": first.hint}
    found = [problem.to_dict() for problem in problems]
    _print_json({"version": 1, "error": {"stage": "setup", **facts}, "problems": found})


def _print_findings(problems: Any, document: Document | None) -> None:
    if not problems:
        return
    from kvengine.cli.formats.text import counted, render_problem

    colour = wants_colour(sys.stdout)
    for problem in problems:
        out(render_problem(problem, document, colour=colour))
    out(f"{counted(problems)}\n")


def _print_json(found: dict[str, Any]) -> None:
    out(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
