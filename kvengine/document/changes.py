"""What a change does to plain data: the judge of every edit."""

from __future__ import annotations

from typing import Any

from kvengine.errors import Drop, KVEngineError, Move, Path, Put, dotted

__all__ = ["CannotEdit", "Change", "at", "changed", "copied", "has", "same"]

Change = Put | Drop | Move


class CannotEdit(KVEngineError):  # noqa: N818 - what happened, in two words
    """A change that cannot be written into the file as it stands; ``reason`` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.reason}" if self.path else self.reason


def changed(data: Any, change: Change) -> Any:
    """The data after the change; missing tables on the way are made, nulls become tables."""
    data = copied(data)
    if isinstance(change, Move):
        if change.to[: len(change.path)] == change.path:
            raise CannotEdit(change.path, "cannot be moved into itself")
        value = at(data, change.path)
        _drop(data, change.path)
        _put(data, change.to, value)
    elif isinstance(change, Drop):
        if has(data, change.path):
            _drop(data, change.path)
    else:
        _put(data, change.path, copied(change.value))
    return data


def has(data: Any, path: Path) -> bool:
    """Whether the data has something at ``path``."""
    try:
        at(data, path)
    except CannotEdit:
        return False
    return True


def at(data: Any, path: Path) -> Any:
    """The value at ``path``; CannotEdit where there is none."""
    value: Any = data
    for step in path:
        inside = isinstance(value, dict) and step in value
        if isinstance(value, list):
            inside = isinstance(step, int) and 0 <= step < len(value)
        if not inside:
            raise CannotEdit(path, "does not exist")
        value = value[step]
    return value


def _put(data: Any, path: Path, value: Any) -> None:
    if not path:
        raise CannotEdit(path, "the document as a whole cannot be replaced")
    parent: Any = data
    for depth, step in enumerate(path):
        if isinstance(parent, dict) and isinstance(step, str):
            last = depth == len(path) - 1
            if last:
                parent[step] = value
            elif parent.get(step) is None:
                parent[step] = {}
        elif isinstance(parent, list) and isinstance(step, int) and 0 <= step <= len(parent):
            if depth == len(path) - 1:
                parent[step : step + 1] = [value]
            elif step == len(parent):
                parent.append({})
            elif parent[step] is None:
                parent[step] = {}
        else:
            raise CannotEdit(path, f"{dotted(path[:depth]) or 'the document'} cannot hold it")
        parent = parent[step]


def _drop(data: Any, path: Path) -> None:
    if not path:
        raise CannotEdit(path, "the document as a whole cannot be dropped")
    parent = at(data, path[:-1])
    del parent[path[-1]]


def copied(value: Any) -> Any:
    """A copy that shares nothing, also where YAML aliases made the original do so."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from true and from 1.0; the order of keys does not matter."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same(item, right[key]) for key, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)
