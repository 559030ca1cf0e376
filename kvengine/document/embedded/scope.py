"""What surrounds a command, and the making of a Source from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from kvengine.document.document import Document
from kvengine.document.embedded.arguments import CONFIG_FLAG, Arguments, Flag, read_arguments
from kvengine.document.embedded.reading import QUOTES_LOST, Reading, read_dotted, read_object
from kvengine.document.embedded.source import Origin, Source
from kvengine.document.embedded.strand import Hole, Strand
from kvengine.document.text import Fault, Text
from kvengine.errors import Path, Problem, Severity

__all__ = ["TRIGGER", "Collector", "Scope", "looks_like_config", "release_of"]

_VARIABLES = r"(?:VLLM_(?:NIXL|P2P|MOONCAKE|MORIIO|KV|USE_SIMPLE|USE_PACKED)|LM_?CACHE_|MOONCAKE_)"
VARIABLE = re.compile(_VARIABLES)
"""Variables that bear on KV transfer."""

TRIGGER = re.compile(
    r"kv[-_]transfer[-_]config|KVTransferConfig|kv[-_]offloading[-_](?:size|backend)|kv_connector"
    r"|\bvllm serve\b|vllm\.entrypoints|dynamo\.vllm|--disaggregation-mode"
    rf"|\b{_VARIABLES}"
)
"""What a file must mention for it to be worth a closer look."""

_MAX_SOURCES = 1000
_MAX_VARIABLES = 200
_KNOWN_VARIABLE = re.compile(r"VLLM_|LM_?CACHE_|MOONCAKE_|MC_|PYTHON|PYTORCH_|NIXL_|UCX_|NCCL_")
_IMAGE = re.compile(r"(?:^|/)[\w.-]*vllm[\w.-]*:v?(0\.[0-9]+)(?:\.[0-9]+)*[\w.+-]*$")
_PINNED = re.compile(r"\bvllm\s*==\s*(0\.[0-9]+)")
_LITERAL = re.compile(r"\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*")
_LITERALLY = "="
"""In front of a hole's name: nothing will fill it in."""

_CONNECTOR = re.compile(r"kv_connector\\*[\"']?\s*:")


@frozen(kw_only=True)
class Scope:
    """What is known where a command stands.

    ``literal`` says that no shell sees the words, so that ``$NAME`` in them stays as it is;
    ``loose`` that the text may be prose, which only mentions commands. ``spots`` are ranges of
    the file with the paths that stand there: the entries of a list of arguments.
    """

    origin: Origin
    env: Mapping[str, Strand] = field(factory=dict)
    image: str | None = None
    label: str = ""
    document: Document | None = None
    path: Path = ()
    literal: bool = False
    loose: bool = False
    spots: tuple[tuple[int, int, Path], ...] = ()
    env_paths: Mapping[str, Path] = field(factory=dict)
    depth: int = 0

    def inner(self, **changes: Any) -> Scope:
        """The scope one level further in."""
        return evolve(self, depth=self.depth + 1, **changes)


def release_of(image: str) -> str | None:
    """The vLLM release that an image's tag names: ``vllm/vllm-openai:v0.28.0`` -> ``0.28``."""
    match = _IMAGE.search(image)
    return match[1] if match else None


@define(eq=False)
class Collector:
    """The sources of one file while they are found."""

    text: Text
    raw: bytes
    found: list[Source] = field(factory=list)
    anchors: dict[int, bool] = field(factory=dict)
    pinned: str | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        match = _PINNED.search(self.text.body)
        self.pinned = match[1] if match else None

    @property
    def full(self) -> bool:
        """Whether the file has more sources than anybody looks at."""
        return len(self.found) >= _MAX_SOURCES

    def add(self, source: Source, anchor: int | None, *, weak: bool = False) -> None:
        """Keep a source; a weak one (a variable that may be used elsewhere) only once."""
        if self.full or (weak and anchor in self.anchors):
            return
        if anchor is not None:
            if not weak and self.anchors.get(anchor):
                self.found = [one for one in self.found if one.marks.get("", (-1,))[0] != anchor]
            self.anchors[anchor] = weak
        self.found.append(source)

    def add_command(
        self,
        words: Sequence[Strand],
        scope: Scope,
        *,
        weak: bool = False,
        wanted: bool = False,
        problems: Sequence[Problem] = (),
        notes: Sequence[Problem] = (),
    ) -> bool:
        """Keep what a command says of KV transfer; whether it says anything.

        ``problems`` are known already; ``notes`` count only where the config has no others.
        """
        arguments = read_arguments(words)
        if scope.loose:
            arguments.flags = [flag for flag in arguments.flags if _is_meant(flag)]
            arguments.is_vllm &= bool(arguments.flags)
        flags = arguments.values
        named = any(name.startswith((CONFIG_FLAG, "--kv-offloading-")) for name in flags)
        starts = arguments.is_vllm or "--disaggregation-mode" in flags or wanted
        if not named and not starts:
            return False
        marks = {
            f"flag:{flag.name}": flag.word.range(0, len(flag.word)) for flag in arguments.flags
        }
        reading, found = self._config(arguments, scope)
        found = [*problems, *(found or notes)]
        if reading is not None and len(reading.strand):
            main = reading.strand.range(0, len(reading.strand))
        else:
            main = min(marks.values(), default=words[0].range(0, len(words[0])))
        source = self._source(scope, reading, found, {"": main, **marks})
        known = arguments.model is not None and not arguments.model.holes
        unknown = [
            (f"flag:{flag.name}",)
            for flag in arguments.flags
            if flag.value is not None and flag.value.holes and flag.name != CONFIG_FLAG
        ]
        source = evolve(
            source,
            flags=flags,
            model=arguments.model.text if arguments.model is not None and known else None,
            head=f"flag:{CONFIG_FLAG}",
            unresolved=(*source.unresolved, *unknown),
        )
        self.add(source, main[0], weak=weak)
        return True

    def _config(self, arguments: Arguments, scope: Scope) -> tuple[Reading | None, list[Problem]]:
        path: Path = (f"flag:{CONFIG_FLAG}",)
        if arguments.dotted:
            reading = read_dotted(arguments.dotted)
            return reading, self._problems(reading, scope, path)
        given = arguments.last(CONFIG_FLAG)
        if given is None:
            return None, []
        if given.value is None:
            place = self.text.place(*given.word.range(0, len(given.word)))
            return None, [Problem("syntax", path, "has no value", place=place)]
        reading = read_object(_with_literals(given.value) if scope.literal else given.value)
        word = given.word.range(0, len(given.word))
        if given.cut and not any(fault.message == QUOTES_LOST for fault in reading.faults):
            message = "is cut into several arguments at its blanks"
            fault = Fault("syntax", message, 0, 1, hint="put quotes around it")
            reading.fault(given.value, fault)
        return reading, self._problems(reading, scope, path, word)

    def add_object(
        self,
        value: Strand,
        scope: Scope,
        *,
        flags: Mapping[str, str | Literal[True]] | None = None,
        mark: str = "",
        marks: Mapping[str, tuple[int, int]] | None = None,
        weak: bool = False,
    ) -> None:
        """Keep a config that stands alone as a text: a YAML value, a variable."""
        reading = read_object(value)
        main = value.range(0, max(len(value), 1))
        if len(reading.strand):
            main = reading.strand.range(0, len(reading.strand))
        path: Path = (mark,) if mark else ()
        marks = {**(marks or {}), "": main, **({mark: main} if mark else {})}
        given = marks.get(f"flag:{CONFIG_FLAG}", main)
        problems = self._problems(reading, scope, path, given)
        source = self._source(scope, reading, problems, marks)
        self.add(evolve(source, flags=flags or {}, head=mark), main[0], weak=weak)

    def add_table(
        self,
        reading: Reading,
        scope: Scope,
        flags: Mapping[str, str | Literal[True]],
        marks: Mapping[str, tuple[int, int]],
    ) -> None:
        """Keep a config that is a table of a YAML text or a Python program."""
        problems = self._problems(reading, scope, ())
        source = self._source(scope, reading, problems, marks)
        if scope.document is not None:
            source = evolve(source, reading=None)
        self.add(evolve(source, flags=flags), None)

    def add_problem(self, problem: Problem, span: tuple[int, int], scope: Scope) -> None:
        """Keep a place where a config was meant, and what makes it none."""
        self.add(self._source(scope, None, [problem], {"": span}), span[0])

    def add_variables(self, scope: Scope) -> None:
        """Keep a text that does no more than set variables which bear on KV transfer."""
        names = [name for name in scope.env if VARIABLE.match(name)]
        if names:
            strand = scope.env[names[0]]
            main = strand.range(0, len(strand))
            self.add(self._source(scope, None, [], {"": main}), main[0])

    def _source(
        self,
        scope: Scope,
        reading: Reading | None,
        problems: list[Problem],
        marks: Mapping[str, tuple[int, int]],
    ) -> Source:
        env = scope.env
        if len(env) > _MAX_VARIABLES:
            env = {name: one for name, one in env.items() if _KNOWN_VARIABLE.match(name)}
        variables = {f"env:{name}": one.range(0, len(one)) for name, one in env.items()}
        image = scope.image
        unknown = [path for path, _ in reading.unresolved] if reading is not None else []
        unknown += [(f"env:{name}",) for name, one in env.items() if one.holes]
        return Source(
            origin=scope.origin,
            text=self.text,
            raw=self.raw,
            data=reading.data if reading is not None else None,
            env={name: value.text for name, value in env.items()},
            image=image,
            vllm=(release_of(image) if image else None) or self.pinned,
            label=scope.label,
            problems=tuple(problems),
            unresolved=tuple(unknown),
            document=scope.document,
            path=_spot(scope, marks[""][0]),
            reading=reading,
            marks={**variables, **marks},
            env_paths=scope.env_paths,
        )

    def _problems(
        self, reading: Reading, scope: Scope, path: Path, empty: tuple[int, int] = (0, 0)
    ) -> list[Problem]:
        """The faults of a config; ``empty`` is where an empty text is placed."""
        found: list[Problem] = []
        for fault in reading.faults:
            span = (fault.start, fault.end) if len(reading.strand) else empty
            severity: Severity = "error"
            if fault.code in ("missing", "duplicate-key"):
                severity = "warning"
            place = self.text.place(*span)
            found.append(
                Problem(fault.code, path, fault.message, fault.hint, severity, place=place)
            )
        for inner, hole in reading.unresolved:
            if hole.name == "..." and not inner:
                continue
            found.append(self._unknown(inner or path, hole, scope))
        return found

    def _unknown(self, path: Path, hole: Hole, scope: Scope) -> Problem:
        place = self.text.place(hole.start, hole.end)
        known_later = hole.name[0] in "$`"
        if hole.name.startswith(_LITERALLY):
            hint = "arguments in a list pass no shell; Kubernetes fills in $(NAME)"
            return Problem(
                "placeholder", path, f"holds {hole.name[1:]} as it is", hint, place=place
            )
        if known_later:
            message = f"depends on {hole.name}, which is not known here"
            return Problem("placeholder", path, message, "", "info", place=place)
        message = f"still holds the placeholder {hole.name}"
        return Problem("placeholder", path, message, "fill it in", place=place)


def _spot(scope: Scope, at: int) -> Path:
    """The path of the entry that holds the character ``at`` of the file."""
    inside = (path for start, end, path in scope.spots if start <= at < end)
    return next(inside, scope.path)


def _is_meant(flag: Flag) -> bool:
    """Whether a flag in what may be prose is more than mentioned."""
    if flag.name != CONFIG_FLAG:
        return True
    return flag.value is not None and flag.value.text[:1] in tuple("{['\"$<")


def _with_literals(value: Strand) -> Strand:
    """The value with every ``$NAME`` that nothing will fill in marked as not known."""
    holes = [
        Hole(*match.span(), _LITERALLY + match[0]) for match in _LITERAL.finditer(value.blanked())
    ]
    taken = [*value.holes, *holes]
    return evolve(value, holes=tuple(sorted(taken, key=lambda hole: hole.start)))


def looks_like_config(text: str) -> bool:
    """Whether a text is meant to be a transfer config."""
    return text.lstrip(" \t\r\n'\"")[:1] == "{" and _CONNECTOR.search(text) is not None
