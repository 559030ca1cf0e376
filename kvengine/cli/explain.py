"""``kvengine explain``: a code, an option or a connector in the words of its declaration."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvengine.cli import UsageError
from kvengine.cli.terminal import out

if TYPE_CHECKING:
    from kvengine.rules.codes import Code
    from kvengine.rules.releases import Release

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine explain
  kvengine explain exclusive
  kvengine explain blocks_per_chunk --vllm 0.24
  kvengine explain OffloadingConnector
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``explain``."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "topic", nargs="?", metavar="CODE|KEY|CONNECTOR", help="what to explain; all without it"
    )
    parser.add_argument("--vllm", metavar="R", help="say it for this vLLM release")


def run(arguments: argparse.Namespace) -> int:
    """Explain one topic, or list them; returns the exit code."""
    from kvengine.cli.topics import entries_at, tables_named
    from kvengine.rules.codes import CODES

    wanted = _release(arguments.vllm)
    topic = arguments.topic
    if topic is None:
        out("\n".join(_everything()) + "\n")
        return 0
    parts = [_code(CODES[topic])] if topic in CODES else []
    parts += (table.explained(wanted) for table in tables_named(topic))
    parts += (entry.explained(wanted) for entry in entries_at(topic))
    if not parts:
        raise UsageError(f"explain: {_unknown(topic)}")
    out("\n".join("\n".join(part) + "\n" for part in parts))
    return 0


def _release(text: str | None) -> Release | None:
    from kvengine.rules.releases import release

    try:
        return None if text is None else release(text)
    except ValueError as error:
        raise UsageError(f"explain: {error}") from None


def _unknown(topic: str) -> str:
    from kvengine.cli.topics import names
    from kvengine.rules.codes import CODES
    from kvengine.rules.judge import nearest

    likely = nearest(topic, [*CODES, *names()])
    meant = f"did you mean {likely}?" if likely else "kvengine explain lists all topics"
    return f"{topic} is no code, option or connector; {meant}"


def _code(code: Code) -> Iterator[str]:
    yield f"{code.name} (problem code)"
    yield ""
    yield from _wrapped(code.means)
    yield ""
    yield f"  example: {code.example}"
    yield from _wrapped(f"what to do: {code.mend}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent="  ", subsequent_indent="  ")


def _everything() -> Iterator[str]:
    """Codes with the first sentence of their meaning, then tables and connectors."""
    from kvengine.cli.topics import connectors, tables
    from kvengine.rules.codes import CODES

    yield "problem codes"
    codes = CODES.values()
    yield from _listed([(code.name, re.split("[.:;] ", code.means)[0]) for code in codes])
    yield "\ntables of an engine document"
    yield from _listed([(table.name, table.doc) for table in tables()])
    yield "\nconnectors, specs and tiers"
    yield from _listed([(table.name, table.doc) for table in connectors()])
    yield "\nkvengine explain NAME says more; NAME can also be any option, such as cpu_bytes_to_use"


def _listed(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and what they are, in two columns; a long name has a line of its own."""
    width = min(max(len(name) for name, _ in rows), 32)
    for name, says in rows:
        if len(name) > width:
            yield f"  {name}"
        yield f"  {name if len(name) <= width else '':<{width}}  {says.rstrip('.')}"
