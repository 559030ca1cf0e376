"""``kvengine explain``: a code, an option or a connector in the words of its declaration."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvengine.cli import UsageError
from kvengine.cli.terminal import out

if TYPE_CHECKING:
    from kvengine.config.advisories import Advisory
    from kvengine.rules.releases import Release

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine explain
  kvengine explain exclusive
  kvengine explain blocks_per_chunk --vllm 0.24
  kvengine explain OffloadingConnector
  kvengine explain kv-offloading-size
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
    from kvengine.cli import explained, topics
    from kvengine.rules.codes import CODES

    wanted = _release(arguments.vllm)
    topic = arguments.topic
    if topic is None:
        out("\n".join(_everything()) + "\n")
        return 0
    parts = [explained.code(CODES[topic])] if topic in CODES else []
    parts += (explained.table(table, wanted) for table in topics.tables_named(topic))
    parts += (explained.entry(entry, wanted) for entry in topics.entries_at(topic))
    parts += (explained.advisory(one) for one in _advisories(topic))
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


def _advisories(topic: str) -> list[Advisory]:
    """The advisory of that id, or all that are reported as known issues."""
    from kvengine.config.advisories import advisories

    return [one for one in advisories() if topic == one.id or topic == "known-issue" == one.code]


def _unknown(topic: str) -> str:
    from kvengine.cli.topics import names
    from kvengine.config.advisories import advisories
    from kvengine.rules.codes import CODES
    from kvengine.rules.judge import nearest

    likely = nearest(topic, [*CODES, *names(), *(one.id for one in advisories())])
    meant = f"did you mean {likely}?" if likely else "kvengine explain lists all topics"
    return f"{topic} is no code, option or connector; {meant}"


def _everything() -> Iterator[str]:
    """Codes with the first words of their meaning, then tables, connectors, flags."""
    from kvengine.cli.explained import listed
    from kvengine.cli.topics import connectors, surroundings, tables
    from kvengine.rules.codes import CODES

    codes = CODES.values()
    yield "problem codes"
    yield from listed([(code.name, re.split("[.:;] ", code.means)[0]) for code in codes])
    for title, known in (
        ("tables of an engine document", tables()),
        ("connectors, specs and tiers", connectors()),
        ("around vllm serve", surroundings()),
    ):
        yield f"\n{title}"
        yield from listed([(table.name, table.doc) for table in known])
    yield "\nkvengine explain NAME says more; NAME can also be any option, such as cpu_bytes_to_use"
