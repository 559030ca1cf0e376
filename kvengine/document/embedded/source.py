"""Source: one transfer config as it was found in a file, and the way back into that file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from kvengine.document.document import Document
from kvengine.document.embedded.reading import Reading
from kvengine.document.text import Text
from kvengine.document.tree import walk
from kvengine.errors import Edit, Path, Place, Problem

if TYPE_CHECKING:
    from kvengine.document.changes import Change

__all__ = ["Origin", "Source"]

Origin = Literal[
    "bare", "engine", "k8s", "compose", "yaml-config", "shell", "env", "dockerfile", "python"
]


@frozen(kw_only=True)
class Source:
    """One transfer config in a file, with what stands around it.

    ``data`` is the config as vLLM would read it (for origin ``engine`` the whole engine
    document), None where the command has none or it cannot be read; ``problems`` then say why,
    each already with its place. ``flags`` maps ``--name`` (with dashes) to the text of its
    value, True for a switch; ``env`` the variables that the process would see. ``image`` is the
    container image, ``vllm`` the release that the image tag or a pinned package names.
    ``unresolved`` are paths whose values depend on something not known here: what a check says
    of these values, or of keys below them, means nothing.

    ``document`` and ``path`` are the file's own document and the place in it of the config, or
    of the text that holds it; a script has none. ``head`` is then ``flag:--kv-transfer-config``,
    or ``env:NAME`` of the variable that holds the config. ``index`` counts the configs of the file.
    """

    origin: Origin
    text: Text = field(repr=False)
    raw: bytes = field(repr=False)
    index: int = 0
    data: Any = None
    flags: Mapping[str, str | Literal[True]] = field(factory=dict)
    env: Mapping[str, str] = field(factory=dict)
    image: str | None = None
    model: str | None = None
    vllm: str | None = None
    label: str = ""
    problems: tuple[Problem, ...] = ()
    unresolved: tuple[Path, ...] = ()
    document: Document | None = field(default=None, repr=False)
    path: Path = ()
    head: str = ""
    reading: Reading | None = field(default=None, repr=False)
    marks: Mapping[str, tuple[int, int]] = field(factory=dict, repr=False)
    env_paths: Mapping[str, Path] = field(factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.text.name

    def place(self, path: Path, *, key: bool = True) -> Place:
        """Where a path inside the config is written in the file.

        ``("flag:--name",)`` and ``("env:NAME",)`` are placed at the flag or the variable. What
        does not exist is placed at its nearest ancestor, in the end at the config or its flag.
        """
        head = str(path[0]) if path else ""
        if head.startswith(("flag:", "env:")):
            return self.text.place(*self.marks.get(head, self.marks.get("", (0, 0))))
        if self.reading is None:
            if self.document is not None and self.data is not None:
                return self.document.place((*self.path, *path), key=key)
        elif self.reading.tree is not None:
            way = list(walk(self.reading.tree, path))
            if way:
                last = way[-1]
                span = (last.start, last.end)
                if not key and len(way) == len(path):
                    span = (last.node.start, last.node.end)
                return self.text.place(*self.reading.strand.range(*span))
        return self.text.place(*self.marks.get("", (0, 0)))

    def outer_path(self, path: Path) -> Path:
        """A path inside the config as a path of the file's own document.

        Inside a quoted text it is the path of that text; in a script, the flag or variable.
        """
        if path and str(path[0]).startswith(("flag:", "env:")):
            return path
        if self.reading is None and self.document is not None:
            return (*self.path, *path)
        if self.path:
            return self.path
        return (self.head,) if self.head else ()

    def edits(self, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The changes to the config as edits of the file, through all layers of quoting.

        ``Drop(("env:NAME",))`` takes a variable out of a manifest. Once applied, the file holds
        exactly the changed config and every other config as before; else CannotEdit says why.
        """
        from kvengine.document.embedded.edit import source_edits

        return source_edits(self, changes)
