"""Coverage-guided fuzzing of everything that reads text: pip install atheris, then run this file.

    python tests/fuzz.py -max_total_time=60

A file that makes kvengine raise anything but its own errors, or hang, is written beside it.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["kvengine"]):
    from kvengine.config.load import examine
    from kvengine.config.sources import examine_sources
    from kvengine.document import parse
    from kvengine.document.embedded import find
    from kvengine.errors import DocumentError

NAMES = ("kv.toml", "kv.json", "kv.yaml", "serve.sh", "<stdin>")


def one(raw: bytes) -> None:
    """The first byte chooses how the file is called, the rest is its content."""
    name = NAMES[raw[0] % len(NAMES)] if raw else NAMES[0]
    content = raw[1:]
    try:
        for problem in examine(parse(content, name=name)).problems:
            assert problem.place is None or problem.place.end <= len(content)
    except DocumentError:
        pass
    try:
        for problem in examine_sources(find(content, name=name)):
            assert problem.place is None or problem.place.end <= len(content)
    except DocumentError:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
