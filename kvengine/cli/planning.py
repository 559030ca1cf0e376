"""File and flags -> a plan, or the reasons why there is none: shared by ``plan`` and ``bench``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Literal

from attrs import field, frozen

from kvengine.cli import UsageError
from kvengine.cli.configs import read_configs
from kvengine.cli.environment import environment_problems
from kvengine.cli.formats.text import counted, render_problem
from kvengine.cli.page import text_of
from kvengine.cli.plan_flags import given
from kvengine.cli.plan_input import Input, as_problem, incomplete, placed, planned_input
from kvengine.cli.plan_view import refusal
from kvengine.cli.terminal import out, wants_colour
from kvengine.config.engine import Config
from kvengine.document import Document, read_raw
from kvengine.errors import DocumentError, PlanError, Problem
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Plan
from kvengine.rules.releases import release

__all__ = ["Planned", "Refused", "plan_or_refuse", "print_findings", "print_json"]

Packing = Literal["engine", "always", "never"]


@frozen(kw_only=True)
class Planned:
    """A plan, what it was made from and everything there is to say about both."""

    plan: Plan
    config: Config
    text: Document | None
    problems: tuple[Problem, ...]

    @property
    def is_clean(self) -> bool:
        """Whether a launch would succeed, offloading included."""
        errors = any(problem.severity == "error" for problem in self.problems)
        return not errors and not isinstance(self.plan.offload, PlanError)


@frozen(kw_only=True)
class Refused:
    """Why there is no plan: ``error`` if the planner said so, else the problems of the file."""

    exit_code: int
    problems: tuple[Problem, ...]
    start: Input = field(factory=lambda: Input(config=None, problems=()))
    error: PlanError | None = None

    def tell(self, *, as_json: bool) -> None:
        """Print it on standard output."""
        if as_json:
            found = [problem.to_dict() for problem in self.problems]
            print_json({"version": 1, "error": self._facts(), "problems": found})
            return
        last = () if self.error is None else (as_problem(self.error, self.start),)
        print_findings((*self.problems, *last), self.start.text)
        if self.error is not None:
            out(text_of([refusal(self.error)]))

    def _facts(self) -> dict[str, Any]:
        if self.error is not None:
            return self.error.to_dict()
        first = next(problem for problem in self.problems if problem.severity == "error")
        facts = {"code": first.code, "message": first.message, "hint": first.hint}
        return {"stage": "setup", **facts}


def plan_or_refuse(arguments: argparse.Namespace, packing: Packing = "engine") -> Planned | Refused:
    """Plan what the command line names: its file, with its flags laid over it."""
    flags = given(arguments)
    if arguments.file is None and not flags:
        raise UsageError(f"{arguments.command}: no FILE given; - is standard input")
    vllm = _release(arguments)
    try:
        configs = None if arguments.file is None else read_configs(*read_raw(arguments.file))
    except DocumentError as error:
        return Refused(exit_code=2, problems=tuple(error.problems))
    start = planned_input(configs, flags, vllm, arguments.config)
    problems = (*environment_problems(os.environ), *start.problems)
    if start.config is None:
        return Refused(exit_code=1, problems=problems, start=start)
    try:
        plan = _made(start.config, packing)
    except PlanError as error:
        return Refused(exit_code=1, problems=problems, start=start, error=error)
    everything = (*problems, *placed(plan.problems, start))
    return Planned(
        plan=plan,
        config=start.config,
        text=start.text,
        problems=tuple(sorted(everything, key=_start)),
    )


def _start(problem: Problem) -> int:
    """Findings in the order of the file, behind those that have no place in it."""
    return problem.place.start if problem.place else -1


def _made(config: Config, packing: Packing) -> Plan:
    lacking = incomplete(config)
    if lacking is not None:
        raise lacking
    return make_plan(config, packing=packing)


def _release(arguments: argparse.Namespace) -> str | None:
    try:
        return None if arguments.vllm is None else str(release(arguments.vllm))
    except ValueError as error:
        raise UsageError(f"{arguments.command}: {error}") from None


def print_findings(problems: Iterable[Problem], text: Document | None) -> None:
    """Every finding, and how many there are."""
    found = [*problems]
    colour = wants_colour(sys.stdout)
    for problem in found:
        out(render_problem(problem, text, colour=colour))
    out(f"{counted(found)}\n" * bool(found))


def print_json(found: dict[str, Any]) -> None:
    """One JSON object."""
    out(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
