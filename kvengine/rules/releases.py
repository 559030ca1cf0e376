"""Which vLLM releases we know, and ranges of them."""

from __future__ import annotations

import re
from functools import total_ordering

from attrs import field, frozen

__all__ = ["ALWAYS", "KNOWN", "NEWEST", "Release", "Releases", "release"]

_TEXT = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[.\-+_]?(?:rc|post|dev|cu|a|b)[\w.\-+]*)?")


@total_ordering
@frozen(order=False)
class Release:
    """A minor release of vLLM: ``0.28``. Patch releases count as their minor."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def __lt__(self, other: Release) -> bool:
        return (self.major, self.minor) < (other.major, other.minor)


def release(text: str) -> Release:
    """Read ``0.28``, ``0.28.1``, ``v0.28.0`` or ``0.28.1rc2``; ValueError for anything else."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a vLLM release such as {NEWEST}")
    return Release(int(match[1]), int(match[2]))


KNOWN: tuple[Release, ...] = tuple(Release(0, minor) for minor in range(21, 34))
"""Every release whose reading of a transfer config we have looked at, oldest first."""

NEWEST: Release = KNOWN[-1]


def _as_release(value: str | Release | None) -> Release | None:
    return release(value) if isinstance(value, str) else value


@frozen
class Releases:
    """A half-open range: ``since`` is in, ``until`` is out; None leaves that side open.

    ``since=None`` also stands for "in 0.21 or earlier", the oldest release looked at.
    """

    since: Release | None = field(default=None, converter=_as_release)
    until: Release | None = field(default=None, converter=_as_release)

    def __contains__(self, wanted: Release) -> bool:
        return (self.since is None or self.since <= wanted) and (
            self.until is None or wanted < self.until
        )

    def __str__(self) -> str:
        if self.since and self.until:
            return f"{self.since} up to, not including, {self.until}"
        if self.since:
            return f"since {self.since}"
        return f"before {self.until}" if self.until else "every release"


ALWAYS = Releases()
