"""``kvengine plan``: what the engine will do with its KV memory, to the byte."""

from __future__ import annotations

import argparse
import sys

from kvengine.cli.plan_flags import add_flags
from kvengine.cli.terminal import out

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine plan serve.toml
  kvengine plan transfer.json --model config.json --memory "40 GiB" --tp 2
  kvengine plan serve.toml --vllm 0.32 --json
  kvengine plan serve.toml --compare 0.28,0.32

Sizes are per rank. Exit codes: 0 planned, 1 refused or with errors, 2 wrong usage or an
unreadable file.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``plan``."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="document, manifest, script, ...; - is stdin")
    add("--json", action="store_true", help="print the plan as JSON")
    add("--config", type=int, metavar="N", help="which config of a file that holds several")
    add("--vllm", metavar="R", help="vLLM release; goes before the one that the file names")
    add("--compare", metavar="R1,R2|FILE2", help="say what another release or file changes")
    add(
        "--packing",
        choices=("engine", "always", "never"),
        default="engine",
        help="pack as the engine does (default), always or never",
    )
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan one file; returns the exit code."""
    from kvengine.cli.page import print_page
    from kvengine.cli.plan_view import sections
    from kvengine.cli.planning import Refused, plan_or_refuse, print_findings, print_json

    if arguments.compare is not None:
        from kvengine.cli.plan_compare import run_comparison

        return run_comparison(arguments)
    made = plan_or_refuse(arguments, arguments.packing)
    if isinstance(made, Refused):
        made.tell(as_json=arguments.json)
        return made.exit_code
    if arguments.json:
        problems = [problem.to_dict() for problem in made.problems]
        print_json({**made.plan.to_dict(), "problems": problems})
    else:
        print_page(sections(made.plan, made.config), sys.stdout)
        out("\n" * bool(made.problems))
        print_findings(made.problems, made.text)
    return int(not made.is_clean)
