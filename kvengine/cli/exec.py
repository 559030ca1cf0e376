"""``kvengine exec``: check a command line, then become that command: a container's entry point."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from kvengine.cli import UsageError
from kvengine.cli.settings import add_settings, settings_of
from kvengine.cli.terminal import complain, out, wants_colour

if TYPE_CHECKING:
    from kvengine.document.embedded import Source
    from kvengine.errors import Problem

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine exec -- vllm serve openai/gpt-oss-20b --kv-offloading-size 64
  kvengine exec --warn-only -- vllm serve MODEL --kv-transfer-config "$CONFIG"

In a Dockerfile: ENTRYPOINT ["kvengine", "exec", "--", "vllm", "serve"]. The release to judge for
is --vllm, else that of the vLLM installed beside kvengine. Findings go to standard error.
Exit codes: those of the command; 1 when it was not started for its errors, 2 for wrong usage,
126 or 127 when it cannot be started.
"""
_NAME, _SCRIPT = "<command line>", "command.sh"
_CANNOT_RUN, _NOT_FOUND = 126, 127


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``exec``."""
    parser.usage = "kvengine exec [options] -- COMMAND [ARGUMENT ...]"
    parser.epilog = _EXAMPLES
    add_settings(parser)
    parser.add_argument("--warn-only", action="store_true", help="start it in spite of errors")


def run(arguments: argparse.Namespace) -> int:
    """Check and become the command; returns only when it is not started."""
    command: list[str] = arguments.rest
    if not command:
        raise UsageError("exec: no command; it follows --, as in kvengine exec -- vllm serve ...")
    settings = settings_of(arguments)
    vllm = next(iter(settings.vllm), None)
    try:
        found = findings(command, os.environ, vllm)
    except Exception as error:
        if not arguments.warn_only:
            raise
        complain(f"the command line was not checked: {error}")
        found = []
    problems = [*filter(settings.shows, found)]
    _tell(command, problems)
    if any(map(settings.fails, problems)) and not arguments.warn_only:
        complain(f"{command[0]} was not started; --warn-only starts it all the same")
        return 1
    return _become(command)


def findings(command: Sequence[str], environ: Mapping[str, str], vllm: str | None) -> list[Problem]:
    """What is to be said of a command line, together with the environment it is started in."""
    from kvengine.cli.environment import environment_problems
    from kvengine.config.sources import examine_sources
    from kvengine.document.embedded import find

    sources = [_in_environment(one, environ) for one in find(_line(command), name=_SCRIPT)]
    found = examine_sources(sources, vllm=vllm or _installed())
    told = {problem.path for problem in found}
    around = [one for one in environment_problems(environ) if one.path not in told]
    return [*around, *(_renamed(problem) for problem in found)]


def _line(command: Sequence[str]) -> bytes:
    """The command as one line of a shell script, for places to point into."""
    return shlex.join(command).encode("utf-8", "backslashreplace") + b"\n"


def _renamed(problem: Problem) -> Problem:
    place = problem.place and evolve(problem.place, file=_NAME)
    return evolve(problem, place=place, fix=None)


def _in_environment(source: Source, environ: Mapping[str, str]) -> Source:
    """The source with the variables of the process behind those of the command line."""
    return evolve(source, env={**environ, **source.env})


def _installed() -> str | None:
    """The release of the vLLM that is installed here; found without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    from kvengine.rules.releases import release

    try:
        return str(release(version("vllm")))
    except (PackageNotFoundError, ValueError):
        return None


def _tell(command: Sequence[str], problems: Sequence[Problem]) -> None:
    """Findings on standard error: standard output belongs to the command."""
    if not problems:
        return
    from kvengine.cli.configs import text_of
    from kvengine.cli.formats.text import counted, render_problem

    text = text_of(_line(command), _NAME)
    colour = wants_colour(sys.stderr)
    for problem in problems:
        out(render_problem(problem, text, colour=colour), sys.stderr)
    out(f"{counted(problems)}\n", sys.stderr)


def _become(command: Sequence[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], [*command])
    except FileNotFoundError:
        complain(f"{command[0]}: not found")
        return _NOT_FOUND
    except (OSError, ValueError) as error:
        complain(f"{command[0]}: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        return _CANNOT_RUN
