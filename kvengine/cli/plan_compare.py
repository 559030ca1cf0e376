"""``kvengine plan --compare``: the same config under another release, or beside another file."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from kvengine.cli import UsageError
from kvengine.cli.page import Facts, Grid, Section, print_page
from kvengine.cli.planning import Planned, Refused, plan_or_refuse, print_findings, print_json
from kvengine.cli.terminal import out
from kvengine.errors import PlanError
from kvengine.plan.compare import Comparison, Row, compare
from kvengine.plan.plan import Plan
from kvengine.rules.releases import release

__all__ = ["run_comparison"]

Outcome = Planned | Refused


def run_comparison(arguments: argparse.Namespace) -> int:
    """Plan twice and print what differs; the exit code is that of the second plan."""
    if arguments.file == "-":
        raise UsageError("plan: --compare needs a file, standard input can be read once only")
    sides = [argparse.Namespace(**{**vars(arguments), **side}) for side in _sides(arguments)]
    made = [plan_or_refuse(side, side.packing) for side in sides]
    for one in made:
        if isinstance(one, Refused) and one.error is None:
            one.tell(as_json=arguments.json)
            return one.exit_code
    result = compare(*(_outcome(one) for one in made))
    if arguments.json:
        print_json(result.to_dict())
    else:
        titles = [_title(side, one) for side, one in zip(sides, made, strict=True)]
        print_page(_page(result, titles), sys.stdout)
        _print_problems("only with the second", result.new_problems)
        _print_problems("only with the first", result.gone_problems)
    after = made[1]
    return int(not (isinstance(after, Planned) and after.is_clean))


def _sides(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """What the two command lines have of their own: releases, or files."""
    parts = [part.strip() for part in arguments.compare.split(",")]
    try:
        releases = [str(release(part)) for part in parts]
    except ValueError:
        return [{}, {"file": arguments.compare}]
    if len(releases) > 2:
        raise UsageError(f"plan: --compare takes one release or two, not {arguments.compare}")
    return [{} if len(releases) == 1 else {"vllm": releases[0]}, {"vllm": releases[-1]}]


def _outcome(made: Outcome) -> Plan | PlanError:
    if isinstance(made, Planned):
        return made.plan
    assert made.error is not None
    return made.error


def _title(side: argparse.Namespace, made: Outcome) -> str:
    named = made.plan.vllm if isinstance(made, Planned) else side.vllm
    return f"{side.file or 'flags'}, vLLM {named}" if named else f"{side.file or 'flags'}"


def _page(result: Comparison, titles: list[str]) -> list[Section]:
    changes = result.changes
    head = (
        ("first", titles[0]),
        ("second", titles[1]),
        ("differ", f"{len(changes)} of {len(result.rows)} figures"),
        ("stored chunks", "can be used again" if result.same_chunks else "are not found again"),
    )
    page: list[Section] = [Facts(head)]
    if changes:
        rows = tuple(
            (one.name, _shown(one.before), _shown(one.after), _ratio(one)) for one in changes
        )
        words = frozenset({"figure"})
        page.append(Grid("What differs", ("figure", "first", "second", "ratio"), rows, words))
    return page


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.3f}"


def _print_problems(title: str, problems: tuple[Any, ...]) -> None:
    if problems:
        out(f"\n{title}:\n")
        print_findings(problems, None)
