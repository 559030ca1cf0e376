"""Names of findings that stay the same while lines move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from kvengine.errors import Problem, pointer

__all__ = ["fingerprints"]


def fingerprints(problems: Sequence[Problem]) -> list[str]:
    """One name per finding: of its code, file and path, not of its line or wording."""
    seen: Counter[tuple[str, ...]] = Counter()
    names = []
    for problem in problems:
        file = problem.place.file if problem.place else ""
        key = (problem.code, file, str(problem.config), pointer(problem.path))
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        names.append(sha256(text.encode("utf-8", "surrogateescape")).hexdigest())
    return names
