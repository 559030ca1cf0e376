"""The command line: one module per command, one per output format.

Every command is a module of its own that offers ``configure(parser)`` and ``run(arguments)``;
it is imported only when it is asked for, and imports what it needs only when it needs it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

__all__ = ["COMMANDS", "UsageError", "main"]

COMMANDS = {
    "check": "say what is wrong with engine documents and transfer configs",
    "migrate": "rewrite a document in today's spelling",
    "plan": "say what the engine will do with its KV memory",
    "schema": "print a published JSON Schema",
    "explain": "explain a problem code, an option or a connector",
    "exec": "check a vLLM command line, then become that command",
    "bench": "move chunks to host memory and back, verify and measure it",
    "tier": "look into a disk tier: what is there, is it intact, what can go",
}
"""Command -> what it does, in the order of the help."""

_EPILOG = """\
examples:
  kvengine check serve.toml
  kvengine plan serve.toml

Exit codes: 0 all is well, 1 findings or a refused plan, 2 wrong usage or an unreadable file.
"""
_REPORT = (
    "this is a fault of kvengine, not of your file; please report it with the output of"
    " the same command under KVENGINE_DEBUG=1"
)
_INTERRUPTED, _BROKEN_PIPE = 130, 141


class UsageError(Exception):
    """A command line that cannot be carried out as it stands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code and raises nothing."""
    arguments = [*(sys.argv[1:] if argv is None else argv)]
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()
        return _BROKEN_PIPE
    except Exception as error:
        return _failed(error)


def _run(arguments: list[str]) -> int:
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    rest: list[str] = []
    if chosen == "exec" and "--" in arguments:
        cut = arguments.index("--")
        arguments, rest = arguments[:cut], arguments[cut + 1 :]
    parsed = _parser(chosen).parse_args(arguments)
    parsed.rest = rest
    if parsed.command is None:
        _parser(None).print_help()
        return 2
    code = import_module(f"kvengine.cli.{parsed.command}").run(parsed)
    assert isinstance(code, int)
    return code


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser; only the chosen command's own arguments are filled in."""
    parser = argparse.ArgumentParser(
        prog="kvengine",
        description="Declarative, checked and planned KV-cache transfer and offload.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, does in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=does,
            description=does[0].upper() + does[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            import_module(f"kvengine.cli.{name}").configure(command)
    return parser


class _Version(argparse.Action):
    """Prints the version; the package is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from kvengine import __version__

        print(f"kvengine {__version__}")
        parser.exit()


def _let_go_of_stdout() -> None:
    """Point stdout elsewhere, so that the interpreter's last flush finds no broken pipe."""
    with suppress(OSError, ValueError):  # stdout may be no file, as in a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    """One line about an exception that no command expected."""
    from kvengine.cli.terminal import complain
    from kvengine.errors import KVEngineError

    if os.environ.get("KVENGINE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    elif isinstance(error, (KVEngineError, UsageError)):
        complain(str(error))
    else:
        complain(f"{type(error).__name__}: {error} ({_REPORT})")
    return 2
