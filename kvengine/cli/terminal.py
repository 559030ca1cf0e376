"""What the commands print: text that cannot steer a terminal, colour only where it is wanted."""

from __future__ import annotations

import os
import sys
from typing import IO, Literal

__all__ = ["complain", "out", "painted", "plain", "progress", "wants_colour"]

Style = Literal["error", "warning", "info", "file", "good", "quiet"]

_SGR: dict[str, str] = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "file": "1",
    "good": "1;32",
    "quiet": "2",
}


def out(text: str, stream: IO[str] | None = None) -> None:
    """Print ``text`` as it is; what the stream's encoding cannot say is escaped."""
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def complain(message: str) -> None:
    """One line on standard error about what cannot be done."""
    out(f"kvengine: {plain(message)}\n", sys.stderr)


def plain(text: str) -> str:
    """``text`` with control and other invisible characters escaped, line breaks kept."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def wants_colour(stream: IO[str]) -> bool:
    """Whether to colour: FORCE_COLOR and NO_COLOR decide, else whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, style: Style, *, colour: bool) -> str:
    """``text`` in the colours of ``style``, if ``colour``."""
    return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if colour else text


def progress(done: int, total: int) -> None:
    """On a terminal, a line that says how far a long run is; it wipes itself at the end."""
    if total < 20 or not sys.stderr.isatty():
        return
    line = f"checked {done} of {total} files" if done < total else ""
    out(f"\r\x1b[K{line}", sys.stderr)
    sys.stderr.flush()
