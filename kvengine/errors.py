"""All wording of failure: problems as values, and the exceptions that carry them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

__all__ = [
    "ConfigError",
    "DocumentError",
    "Drop",
    "Edit",
    "Fix",
    "KVEngineError",
    "Move",
    "Path",
    "Place",
    "PlanError",
    "Problem",
    "Put",
    "Severity",
    "dotted",
    "masked",
    "pointer",
    "show",
]

Path = tuple[str | int, ...]
"""Where something stands in a document: keys and list indices from the root."""

Severity = Literal["error", "warning", "info"]


def dotted(path: Path) -> str:
    """A path as people write it: ``kv_transfer.connectors[0].kv_role``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def pointer(path: Path) -> str:
    """A path as a JSON Pointer (RFC 6901); ``env:NAME`` and ``flag:--name`` as they are."""
    if path and isinstance(path[0], str) and path[0].startswith(("env:", "flag:")):
        return path[0]
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


@frozen
class Place:
    """A range of a file: 1-based line and column of its start, byte offsets of both ends."""

    file: str
    line: int
    column: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@frozen
class Put:
    """A change: ``path`` holds ``value`` afterwards, whether it existed before or not."""

    path: Path
    value: Any


@frozen
class Drop:
    """A change: ``path`` does not exist afterwards."""

    path: Path


@frozen
class Move:
    """A change: what stood at ``path`` stands at ``to`` afterwards, comments and value kept."""

    path: Path
    to: Path


@frozen
class Edit:
    """A replacement of the bytes ``start:end`` of a file by ``text``."""

    start: int
    end: int
    text: str


@frozen
class Fix:
    """What would mend a problem: changes to the document; ``safe`` if the meaning is certain."""

    title: str
    changes: tuple[Put | Drop | Move, ...]
    safe: bool = True
    edits: tuple[Edit, ...] = ()


@frozen
class Problem:
    """One finding about one place in a document.

    ``path`` leads through the file's own document; ``config`` is the index of the transfer
    config within the file and ``config_path`` the way inside it, where the finding is about one.
    """

    code: str
    path: Path
    message: str
    hint: str = ""
    severity: Severity = "error"
    fix: Fix | None = None
    place: Place | None = None
    config: int | None = None
    config_path: Path | None = None

    def __str__(self) -> str:
        head = f"{self.place}: " if self.place else ""
        where = f"{dotted(self.path)}: " if self.path else ""
        tail = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{head}{where}{self.message} [{self.code}]{tail}"

    def to_dict(self) -> dict[str, Any]:
        """The finding in the shape that ``check --format json`` prints."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.place.file if self.place else None,
            "line": self.place.line if self.place else None,
            "column": self.place.column if self.place else None,
            "path": pointer(self.path),
            "config": self.config,
            "config_path": None if self.config_path is None else pointer(self.config_path),
            "message": self.message,
            "hint": self.hint,
            "fix": self.fix
            and {
                "title": self.fix.title,
                "safe": self.fix.safe,
                "edits": [{"start": e.start, "end": e.end, "text": e.text} for e in self.fix.edits],
            },
        }


def stopping(problems: Iterable[Problem]) -> list[Problem]:
    """What keeps an engine from starting that is given these very values.

    Errors, and variables: a document may have one, to an engine it is a text like any other.
    """
    hint = "write its value: nothing fills it in any more"
    found = [
        evolve(problem, severity="error", hint=hint) if problem.code == "placeholder" else problem
        for problem in problems
    ]
    return [problem for problem in found if problem.severity == "error"]


class KVEngineError(Exception):
    """Anything that a caller of kvengine can run into and may want to catch."""


class ConfigError(KVEngineError):
    """A document that cannot be used; ``problems`` says all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class DocumentError(ConfigError):
    """A file that cannot even be read as a document: syntax, encoding, limits, missing."""


class PlanError(KVEngineError):
    """The engine would refuse this setup; every fact of the refusal is an attribute.

    ``stage`` is ``"setup"`` when the engine's own configuration is refused (a cache dtype, a
    block size), ``"plan"`` when the cache cannot be laid out or does not fit. Sizes are bytes
    on one rank. ``path`` is the option to change, when there is one.
    """

    def __init__(
        self,
        stage: Literal["setup", "plan"],
        code: str,
        message: str,
        hint: str = "",
        *,
        need_bytes: int | None = None,
        available_bytes: int | None = None,
        num_blocks_unchecked: int | None = None,
        estimated_max_model_len: int | None = None,
        path: Path = (),
    ) -> None:
        super().__init__(stage, code, message, hint)
        self.stage = stage
        self.code = code
        self.message = message
        self.hint = hint
        self.need_bytes = need_bytes
        self.available_bytes = available_bytes
        self.num_blocks_unchecked = num_blocks_unchecked
        self.estimated_max_model_len = estimated_max_model_len
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]" + (f"\n  hint: {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, Any]:
        """The refusal in the shape that ``plan --json`` prints under ``error``."""
        facts = {
            "need_bytes": self.need_bytes,
            "available_bytes": self.available_bytes,
            "num_blocks_unchecked": self.num_blocks_unchecked,
            "estimated_max_model_len": self.estimated_max_model_len,
        }
        return {
            "stage": self.stage,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            **{name: value for name, value in facts.items() if value is not None},
        }


_NAME = r"(?:passw(?:or)?d|secret|token|(?:api|access|secret)[-_]?key)"
_PLAIN = r"(?!(?:null|none|true|false|[0-9.]+)\b)[^\s\"',{}\[\]\\]+"
_SECRETS = (
    r"""(://)([^\s"'<>/]{1,200})(?=@)""",
    r"""(://)([^\s"'<>/@]{0,100}:[^\s"'<>]{1,200})(?=@)""",
    rf"""({_NAME}\\*["']?\s*[:=]\s*)(\\*"[^"\\]*|'[^']*|{_PLAIN})""",
    rf"""(--[a-z-]{{0,30}}{_NAME}["',\s]+)([^\s"',]+)""",
)
"""What is before a secret, and the secret: in a url, behind a name, behind a flag."""


def show(value: Any) -> str:
    """A value as a message quotes it: JSON without secrets, cut at 60 characters."""
    text = masked(json.dumps(value, ensure_ascii=False, default=str)[:4096])
    return text if len(text) <= 60 else text[:57] + "..."


def _starred(found: re.Match[str]) -> str:
    return found[1] + re.sub(r"""[^"'\\]""", "*", found[2])


def masked(text: str) -> str:
    """The text with a star for every character of what looks like a secret.

    Those are the user and password of a url, and what is given to a name that ends with password,
    token, secret or key: messages and excerpts end up in the logs of CI.
    """
    for pattern in _SECRETS:
        text = re.sub(pattern, _starred, text, flags=re.IGNORECASE)
    return text
