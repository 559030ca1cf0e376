"""``kvengine migrate``: a document in today's spelling, its comments and order kept."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from kvengine.cli import UsageError
from kvengine.cli.terminal import complain, out, wants_colour

if TYPE_CHECKING:
    from kvengine.config.load import Checked

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine migrate old.toml > new.toml
  kvengine migrate --write old.toml

Comments, order and formatting stay. A migrated document gives the same plan.
"""
_POINTER = re.compile(
    rb"(#(?::schema[ \t]+|[ \t]*yaml-language-server:[ \t]*\$schema=)\S*kv-engine-)1(?=\.json)"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``migrate``."""
    parser.epilog = _EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the document; - is standard input")
    parser.add_argument("--to", type=int, metavar="N", help="version to migrate to (default: 2)")
    parser.add_argument("--write", action="store_true", help="rewrite the file instead of printing")


def run(arguments: argparse.Namespace) -> int:
    """Migrate one file; returns the exit code."""
    from kvengine.cli.formats.text import counted, render_problem
    from kvengine.config.load import examine
    from kvengine.document import read
    from kvengine.errors import DocumentError

    try:
        document = read(arguments.file)
    except DocumentError as error:
        complain(str(error))
        return 2
    checked = examine(document)
    if checked.errors:
        colour = wants_colour(sys.stderr)
        for problem in checked.errors:
            out(render_problem(problem, document, colour=colour), sys.stderr)
        complain(f"{counted(checked.errors)} to mend first; nothing was migrated")
        return 1
    new = _migrated(checked, _target(arguments.to))
    if not arguments.write:
        out(new.decode("utf-8"))
    elif arguments.file == "-":
        raise UsageError("migrate: standard input cannot be rewritten; leave out --write")
    elif new != document.raw:
        from kvengine.cli.files import replace_file

        replace_file(arguments.file, document.raw, new)
        out(f"{arguments.file}: migrated to schema {_target(arguments.to)}\n", sys.stderr)
    return 0


def _target(wanted: int | None) -> int:
    from kvengine.rules.modes import CURRENT

    if wanted is None:
        return CURRENT
    if not 1 <= wanted <= CURRENT:
        raise UsageError(f"migrate: there is no schema {wanted}; known are 1 to {CURRENT}")
    return wanted


def _migrated(checked: Checked, target: int) -> bytes:
    """The file in the spelling of version ``target``."""
    from kvengine.document import CannotEdit, apply, edits
    from kvengine.errors import Put

    document, migration = checked.document, checked.migration
    version = document.data.get("schema")
    if version is None:
        complain("a transfer config has no version; nothing to migrate")
    elif version > target:
        raise UsageError(f"migrate: the document is schema {version}, there is no way back")
    if version in (None, target) or migration is None:
        return document.raw
    changes = [*migration.changes]
    pointer = document.data.get("$schema")
    if isinstance(pointer, str) and "kv-engine-1.json" in pointer:
        new = pointer.replace("kv-engine-1.json", f"kv-engine-{target}.json")
        changes.append(Put(("$schema",), new))
    try:
        raw = apply(document.raw, edits(document, changes))
    except CannotEdit as error:
        raise UsageError(f"migrate: {document.name} cannot be rewritten: {error}") from None
    return _POINTER.sub(rb"\g<1>%d" % target, raw)
