"""``kvengine schema``: print a published JSON Schema."""

from __future__ import annotations

import argparse
import sys

from kvengine.cli import UsageError
from kvengine.cli.terminal import out

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine schema
  kvengine schema kv-engine-2 > kv-engine-2.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``schema``."""
    parser.epilog = _EXAMPLES
    parser.add_argument("name", nargs="?", metavar="NAME", help="which one; without it, list them")
    parser.add_argument(
        "--write", action="store_true", help="regenerate schema/*.json of this checkout"
    )


def run(arguments: argparse.Namespace) -> int:
    """List, print or regenerate schemas; returns the exit code."""
    from kvengine.config.published import NAMES, schema_folder

    name = arguments.name
    if name is not None and name not in NAMES:
        raise UsageError(f"schema: there is no {name}; known are {', '.join(NAMES)}")
    if arguments.write:
        return _write(name)
    if name is None:
        out("".join(f"{known}\n" for known in NAMES))
    else:
        out((schema_folder() / f"{name}.json").read_text("utf-8"))
    return 0


def _write(name: str | None) -> int:
    """Regenerate the schema ``name``, or all that follow the declarations."""
    import json

    from kvengine.config.published import GENERATED, WRITTEN, schema_folder

    folder = schema_folder()
    if folder.name != "schema":
        raise UsageError("schema: --write works in a checkout, this is an installed package")
    if name is not None and name not in GENERATED:
        raise UsageError(f"schema: {name} is released and frozen, it is never written again")
    for each in WRITTEN if name is None else (name,):
        file = folder / f"{each}.json"
        text = json.dumps(WRITTEN[each](), indent=1, ensure_ascii=False) + "\n"
        same = file.is_file() and file.read_text("utf-8") == text
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        out(f"{each}: {'as it was' if same else 'written'}\n", sys.stderr)
    return 0
