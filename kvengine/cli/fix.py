"""``check --fix`` and ``--diff``: mended files, written or shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import IO

from kvengine.cli.configs import STDIN
from kvengine.cli.files import replace_file
from kvengine.cli.mend import Mended, mend
from kvengine.cli.review import Review
from kvengine.cli.settings import Settings
from kvengine.cli.terminal import out, plain
from kvengine.errors import dotted

__all__ = ["diff_of", "fix"]


def fix(
    reviews: Sequence[Review], settings: Settings, *, write: bool, diff: IO[str] | None
) -> tuple[Review, ...]:
    """Mend the files, and write them if asked; returns what is left to say about them.

    What was changed is told on standard error, one line per fix. The mended text of standard
    input goes to standard output, unless there is a stream for a ``diff``.
    """
    left: list[Review] = []
    for review in reviews:
        mended = mend(review, settings)
        if diff is not None and mended.applied:
            out("".join(diff_of(review, mended.review)), diff)
        if write and review.raw is not None:
            _write(review, mended, show=diff is None)
        left.append(mended.review if write else review)
    return tuple(left)


def _write(review: Review, mended: Mended, *, show: bool) -> None:
    assert review.raw is not None
    assert mended.review.raw is not None
    if review.name != STDIN:
        if mended.applied:
            replace_file(review.name, review.raw, mended.review.raw)
    elif show:
        out(mended.review.raw.decode("utf-8", "replace"))
    for problem in mended.applied:
        assert problem.fix is not None
        said = f"{problem.place}: fixed: {dotted(problem.path)}: {problem.fix.title}"
        out(plain(f"{said} [{problem.code}]") + "\n", sys.stderr)


def diff_of(before: Review, after: Review) -> Iterator[str]:
    """A unified diff of two versions of a file, line by line."""
    from difflib import unified_diff

    assert before.raw is not None
    assert after.raw is not None
    old, new = (_lines(raw.decode("utf-8")) for raw in (before.raw, after.raw))
    for line in unified_diff(old, new, before.name, before.name + " (fixed)"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
