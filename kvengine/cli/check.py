"""``kvengine check``: say what is wrong, where, and what mends it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import IO

from attrs import evolve

from kvengine.cli import UsageError
from kvengine.cli.environment import environment_problems
from kvengine.cli.files import expand
from kvengine.cli.report import Report
from kvengine.cli.review import Review, review
from kvengine.cli.settings import Settings, add_settings, settings_of
from kvengine.cli.terminal import out, progress, wants_colour

__all__ = ["configure", "run"]

FORMATS = ("text", "json", "github", "sarif", "gitlab", "junit")

_EXAMPLES = """\
examples:
  kvengine check serve.toml
  kvengine check --vllm 0.28,0.33 --fail-on warning configs/*.json
  kvengine check --fix --diff serve.toml
  kvengine check -r deploy/
  kvengine check --probe serve.toml
  echo '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}' | kvengine check -

A comment "# kvengine: ignore[code]" on a line, or on a line of its own above it, hides findings
there. [tool.kvengine] in pyproject.toml can hold vllm, severity, fail-on, select and ignore.
--probe looks at directories, free space, certificates and the environment of this machine and user;
it makes no file and speaks to no server.
Exit codes: 0 nothing reaches --fail-on, 1 something does, 2 wrong usage or an unreadable file.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``check``."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="documents, manifests, scripts, ...; - is stdin")
    add_settings(parser)
    add("--format", choices=FORMATS, default="text", help="how findings are written")
    add("--recursive", "-r", action="store_true", help="look into folders for files of ours")
    add("--skip-others", action="store_true", help="pass over files that are none of ours")
    add("--probe", action="store_true", help="ask this machine whether a document's tiers can work")
    add("--fix", action="store_true", help="apply every fix whose meaning is certain")
    add("--diff", action="store_true", help="show what --fix changes; alone, change nothing")


def run(arguments: argparse.Namespace) -> int:
    """Check the files and report; returns the exit code."""
    settings = settings_of(arguments)
    if not arguments.files:
        raise UsageError("check: no FILE given; - is standard input")
    reviews = tuple(_reviews(arguments, settings))
    reviews, stream = _fixed(reviews, arguments, settings)
    beside = filter(settings.shows, environment_problems(os.environ))
    report = Report(reviews=reviews, beside=tuple(beside), settings=settings)
    form = import_module(f"kvengine.cli.formats.{arguments.format}")
    out(form.render(_with_edits(report), colour=wants_colour(stream)), stream)
    return report.exit_code


def _fixed(
    reviews: tuple[Review, ...], arguments: argparse.Namespace, settings: Settings
) -> tuple[tuple[Review, ...], IO[str]]:
    """The files after ``--fix`` and ``--diff``, and where the report about them goes.

    The mended text of standard input takes standard output for itself; a diff keeps out of
    reports that are read by programs.
    """
    if not (arguments.fix or arguments.diff):
        return reviews, sys.stdout
    from kvengine.cli.fix import fix

    diff = sys.stdout if arguments.format == "text" else sys.stderr
    left = fix(reviews, settings, write=arguments.fix, diff=diff if arguments.diff else None)
    filters = arguments.fix and not arguments.diff and "-" in arguments.files
    return left, sys.stderr if filters else sys.stdout


def _reviews(arguments: argparse.Namespace, settings: Settings) -> Iterator[Review]:
    files = [*dict.fromkeys(expand(arguments.files, recursive=arguments.recursive))]
    for number, (name, named) in enumerate(files, start=1):
        found = review(name, settings, named=named and not arguments.skip_others)
        progress(number, len(files))
        if found.ours:
            yield found


def _with_edits(report: Report) -> Report:
    """The report with the edits of every fix that there is."""
    if not any(problem.fix for problem in report.problems):
        return report
    from kvengine.cli.repairs import with_edits

    reviews = (evolve(one, problems=tuple(with_edits(one.problems, one))) for one in report.reviews)
    return evolve(report, reviews=tuple(reviews))
