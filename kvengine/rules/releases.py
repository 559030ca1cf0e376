"""Which vLLM releases we know, and ranges of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import total_ordering

from attrs import field, frozen

__all__ = ["ALWAYS", "KNOWN", "NEVER", "NEWEST", "Release", "Releases", "Renamed", "release"]

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


def _as_releases(values: Iterable[str | Release]) -> tuple[Release, ...]:
    return tuple(release(value) if isinstance(value, str) else value for value in values)


@frozen
class Releases:
    """A half-open range: ``since`` is in, ``until`` is out; None leaves that side open.

    ``since=None`` also stands for "in 0.21 or earlier", the oldest release looked at. ``but``
    are single releases in between that are out.
    """

    since: Release | None = field(default=None, converter=_as_release)
    until: Release | None = field(default=None, converter=_as_release)
    but: tuple[Release, ...] = field(default=(), converter=_as_releases)

    def __contains__(self, wanted: Release) -> bool:
        return (
            (self.since is None or self.since <= wanted)
            and (self.until is None or wanted < self.until)
            and wanted not in self.but
        )

    def __str__(self) -> str:
        if self == NEVER:
            return "no release"
        text = f"before {self.until}" if self.until else "every release"
        if self.since:
            text = f"since {self.since}"
            if self.until:
                text = f"{self.since} up to, not including, {self.until}"
        return text + (f", but not {', '.join(map(str, self.but))}" if self.but else "")

    @property
    def today(self) -> bool:
        """Whether the newest release we know is in."""
        return NEWEST in self

    @property
    def known(self) -> bool:
        """Whether any release we know is in."""
        return any(one in self for one in KNOWN)


ALWAYS = Releases()
NEVER = Releases(until="0.0")


@frozen
class Renamed:
    """An older spelling: ``name`` was the key, or the value, for the releases in ``vllm``."""

    name: str
    vllm: Releases = ALWAYS
