"""Manifests, compose files and option files: a walk through the data of a YAML or JSON text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import define, evolve

from kvengine.document.embedded.arguments import CONFIG_FLAG
from kvengine.document.embedded.reading import Reading
from kvengine.document.embedded.scalars import scalar
from kvengine.document.embedded.scope import TRIGGER, Collector, Scope, looks_like_config
from kvengine.document.embedded.scripts import add_script, shell_script_of
from kvengine.document.embedded.shell import read_shell
from kvengine.document.embedded.source import Origin
from kvengine.document.embedded.strand import Strand
from kvengine.document.tree import Node
from kvengine.errors import Path, Problem

__all__ = ["Walker", "origin_of"]

_KUBERNETES = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_COMPOSE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(?::?([-?+])([^{}]*))?\}|\$([A-Za-z_]\w*)")
_TWO_IN_ONE = re.compile(r"--[\w.-]+\s+\S")
_TWO_BARE = re.compile(r"(--[\w.-]+)\s+(\{.*)", re.DOTALL)
_SIZE_FLAGS = ("--kv-offloading-size",)
_WORD_KEYS = ("command", "entrypoint", "args")

Flags = Mapping[str, str | Literal[True]]


def origin_of(data: Any) -> Origin:
    """What kind of YAML a document is."""
    if isinstance(data, dict):
        if "apiVersion" in data or "containers" in data:
            return "k8s"
        if "services" in data or "environment" in data:
            return "compose"
    return "yaml-config"


@define(eq=False)
class Walker:
    """Goes through one document; ``base`` is the text that its tree counts characters of."""

    base: Strand
    form: str
    collector: Collector
    index: int = 0
    outer: Path | None = None

    def where(self, path: Path) -> Path:
        """A path as one of the file's own document: that of the text which holds this one."""
        return path if self.outer is None else self.outer

    def walk(self, node: Node, value: Any, path: Path, scope: Scope) -> None:
        """Keep every config at or below this value."""
        if self.collector.full:
            return
        if isinstance(value, dict):
            self._table(node, value, path, scope)
        elif isinstance(value, list):
            if self._is_words(value):
                self._words(self._strands(node, value, scope), scope, self._spots(node, path), path)
                return
            for number, item in enumerate(value):
                entry = node.entry(number)
                if entry is not None:
                    self.walk(entry.node, item, (*path, number), scope)
        elif isinstance(value, str) and TRIGGER.search(value):
            self._text(node, value, path, scope)

    def _is_words(self, value: list[Any]) -> bool:
        plain = all(isinstance(item, (str, int, float)) for item in value)
        return plain and any(isinstance(item, str) and TRIGGER.search(item) for item in value)

    def _strand(self, node: Node, value: Any) -> Strand:
        if isinstance(value, str):
            return scalar(self.base, node, value, form=self.form)
        return self.base.cut(node.content_start, node.end)

    def _strands(self, node: Node, value: list[Any], scope: Scope) -> list[Strand]:
        strands = (self._strand(entry.node, item) for entry, item in zip(node.entries, value))  # noqa: B905
        return [_filled(strand, scope) for strand in strands]

    def _spots(self, node: Node, path: Path) -> list[tuple[int, int, Path]]:
        """Where each entry of a list stands, and its path."""
        spans = [self.base.range(entry.node.start, entry.node.end) for entry in node.entries]
        return [(*span, self.where((*path, number))) for number, span in enumerate(spans)]

    def _text(self, node: Node, value: str, path: Path, scope: Scope) -> None:
        from kvengine.document.embedded.texts import SHELL_LINE, add_text

        strand = self._strand(node, value)
        if scope.origin == "compose":
            strand = _filled(strand, scope)
        name = str(path[-1]) if path else ""
        if looks_like_config(value):
            mark = f"env:{name}" if name.isupper() else ""
            inner = evolve(scope, path=self.where(path))
            self.collector.add_object(strand, inner, mark=mark, weak=True)
        else:
            loose = SHELL_LINE.search(value) is None
            inner = scope.inner(path=self.where(path), loose=loose)
            add_text(strand, inner, self.collector, name=name, weak=True)

    def _table(self, node: Node, value: dict[str, Any], path: Path, scope: Scope) -> None:
        scope = self._around(node, value, path, scope)
        if "kv_connector" in value:
            reading = Reading(self.base, value, node, yaml=(self.index, path))
            inner = evolve(scope, path=self.where(path))
            self.collector.add_table(
                reading, inner, {}, {"": self.base.range(node.start, node.end)}
            )
            return
        done = self._options(node, value, path, scope) | self._program(node, value, path, scope)
        for key, item in value.items():
            entry = node.entry(key)
            if entry is None or key in done:
                continue
            if key.startswith("--kv") and isinstance(item, (str, int)):
                self._split_by_yaml(entry.start, entry.end, scope)
                continue
            self.walk(entry.node, item, (*path, key), _named(scope, path, key))

    def _split_by_yaml(self, start: int, end: int, scope: Scope) -> None:
        """A flag with JSON in a plain scalar, of which ``: `` has made a key and a value."""
        message = "is cut by YAML at the first ': ' and becomes a key with a value"
        place = self.collector.text.place(*self.base.range(start, end))
        hint = "put the whole entry in single quotes"
        problem = Problem("syntax", (f"flag:{CONFIG_FLAG}",), message, hint, place=place)
        self.collector.add_problem(problem, self.base.range(start, end), scope)

    def _around(self, node: Node, value: dict[str, Any], path: Path, scope: Scope) -> Scope:
        """The scope with what this table says of image, variables and names."""
        image = _image(value)
        if image is not None:
            scope = evolve(scope, image=image)
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and isinstance(value.get("kind"), str):
            scope = evolve(scope, label=f"{value['kind']} {metadata.get('name', '')}".strip())
        elif isinstance(value.get("name"), str) and "image" in value:
            scope = evolve(scope, label=f"{scope.label} {value['name']}".strip())
        for key in ("env", "environment"):
            entry = node.entry(key)
            if entry is not None:
                scope = self._variables(entry.node, value[key], (*path, key), scope)
        return scope

    def _variables(self, node: Node, value: Any, path: Path, scope: Scope) -> Scope:
        """The scope with the variables of ``env`` (a list or a map) on top."""
        env, paths = dict(scope.env), dict(scope.env_paths)
        if not isinstance(value, (dict, list)):
            return scope
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            entry = node.entry(key)
            if entry is None:
                continue
            name, strand = self._variable(key, item, entry.node)
            if name is not None and strand is not None:
                env[name] = _filled(strand, evolve(scope, env=env))
                paths[name] = (*path, key)
        return evolve(scope, env=env, env_paths=paths)

    def _variable(self, key: Any, item: Any, node: Node) -> tuple[str | None, Strand | None]:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            held = node.entry("value")
            if held is not None and not isinstance(item["value"], (dict, list)):
                return item["name"], self._strand(held.node, item["value"])
            shown = f"$({item['name']})"
            return item["name"], Strand.written(shown, self.base, node.start, node.end, hole=shown)
        if isinstance(key, str) and not isinstance(item, (dict, list)) and item is not None:
            return key, self._strand(node, item)
        if isinstance(item, str) and "=" in item:
            name = item.partition("=")[0]
            return name, self._strand(node, item).cut(len(name) + 1)
        return None, None

    def _options(self, node: Node, value: dict[str, Any], path: Path, scope: Scope) -> set[str]:
        """Keys that are flags of the engine, as in vLLM's ``--config`` file."""
        names = {"--" + key.replace("_", "-"): key for key in value}
        key = names.get(CONFIG_FLAG)
        if key is None and not any(name in names for name in _SIZE_FLAGS):
            return set()
        flags: dict[str, str | Literal[True]] = {
            name: True if value[one] is True else _shown(value[one])
            for name, one in names.items()
            if not isinstance(value[one], (dict, list)) and value[one] not in (None, False)
        }
        flags |= {"--no-" + name[2:]: True for name, one in names.items() if value[one] is False}
        marks = {}
        for name, one in names.items():
            entry = node.entry(one)
            if entry is not None:
                marks[f"flag:{name}"] = self.base.range(entry.start, entry.end)
        entry = node.entry(key) if key is not None else None
        inner = evolve(scope, path=self.where((*path, key) if key is not None else path))
        if key is None or entry is None or value[key] is None:
            empty = Reading(self.base, None, None)
            main = min(marks.values(), default=(0, 0))
            self.collector.add_table(empty, inner, flags, {"": main, **marks})
        elif isinstance(value[key], dict):
            reading = Reading(self.base, value[key], entry.node, yaml=(self.index, (*path, key)))
            marks[""] = self.base.range(entry.node.start, entry.node.end)
            self.collector.add_table(reading, inner, flags, marks)
        elif isinstance(value[key], str):
            strand = _filled(self._strand(entry.node, value[key]), scope)
            self.collector.add_object(strand, inner, flags=flags, marks=marks)
        return {key} if key is not None else set()

    def _program(self, node: Node, value: dict[str, Any], path: Path, scope: Scope) -> set[str]:
        """Keys that make up a command line: ``command`` and ``args``, ``entrypoint``."""
        keys = [key for key in ("entrypoint", "command", "args") if key in value]
        if not any(TRIGGER.search(str(value[key])) for key in keys):
            return set()
        words: list[Strand] = []
        where = path
        spots: list[tuple[int, int, Path]] = []
        done: set[str] = set()
        for key in keys:
            entry = node.entry(key)
            item = value[key]
            if entry is None:
                continue
            if isinstance(item, str):
                strand = _filled(self._strand(entry.node, item), scope)
                words += [word for one in read_shell(strand).commands for word in one.words]
            elif isinstance(item, list) and all(isinstance(one, (str, int, float)) for one in item):
                words += self._strands(entry.node, item, scope)
                spots += self._spots(entry.node, (*path, key))
            else:
                continue
            done.add(key)
            if where == path or TRIGGER.search(str(item)):
                where = (*path, key)
        self._words(words, scope, spots, where)
        return done

    def _words(
        self,
        words: list[Strand],
        scope: Scope,
        spots: list[tuple[int, int, Path]],
        path: Path,
    ) -> None:
        """Keep what a list of arguments says, or the script that it hands to a shell."""
        scope = evolve(scope, path=self.where(path), spots=tuple(spots))
        script = shell_script_of(words)
        if script is not None:
            add_script(script, scope, self.collector)
            return
        scope = evolve(scope, literal=scope.origin == "k8s" and scope.image is not None)
        flat: list[Strand] = []
        problems: list[Problem] = []
        for word in words:
            if not _TWO_IN_ONE.match(word.text) or not TRIGGER.search(word.text):
                flat.append(word)
                continue
            bare = _TWO_BARE.match(word.text)
            if bare is not None:
                flat += [word.cut(*bare.span(1)), word.cut(*bare.span(2))]
            else:
                flat += [part for one in read_shell(word).commands for part in one.words]
            problems.append(self._two_in_one(word, scope))
        scripts = [
            word
            for word in flat
            if "\n" in word.text and not word.text.lstrip().startswith(("{", "--"))
        ]
        if not self.collector.add_command(flat, scope, problems=problems):
            for word in scripts or flat:
                if TRIGGER.search(word.text) and re.search(r"\s", word.text.strip()):
                    add_script(word, scope, self.collector)

    def _two_in_one(self, word: Strand, scope: Scope) -> Problem:
        message = "stands in one list entry with its value, which reaches vLLM as one argument"
        hint = "make two entries of it, or put '=' between flag and value"
        place = self.collector.text.place(*word.range(0, len(word)))
        severity: Literal["error", "warning"] = "error" if scope.literal else "warning"
        return Problem("syntax", (f"flag:{CONFIG_FLAG}",), message, hint, severity, place=place)


def _named(scope: Scope, path: Path, key: str) -> Scope:
    return evolve(scope, label=key) if path == ("services",) else scope


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _image(value: Mapping[str, Any]) -> str | None:
    """The image that a table names, also as Helm values do, in two or three parts."""
    held = value.get("image", value)
    if isinstance(held, str):
        return held
    if not isinstance(held, dict):
        return None
    repository = held.get("repository", value.get("repository"))
    tag = held.get("tag", value.get("tag"))
    if isinstance(repository, str) and isinstance(tag, (str, float)):
        return f"{repository}:{tag}"
    return None


def _filled(strand: Strand, scope: Scope) -> Strand:
    """Fill in ``$(NAME)`` as Kubernetes does, or ``${NAME}`` as compose does."""
    pattern = {"k8s": _KUBERNETES, "compose": _COMPOSE}.get(scope.origin)
    if pattern is None or "$" not in strand.text:
        return strand
    parts: list[Strand] = []
    done = 0
    for match in pattern.finditer(strand.text):
        start, end = match.span()
        if match[0] == "$$":
            made = Strand.written("$", strand, start, end)
        elif scope.origin == "k8s":
            known = scope.env.get(match[1])
            made = Strand.written(match[0], strand, start, end, hole=match[0])
            if known is not None and not known.holes:
                made = known.within("var")
        elif match[2] == "-":
            made = strand.cut(match.start(3), match.end(3)).within("var")
        else:
            made = Strand.written(match[0], strand, start, end, hole=match[0])
        parts += [strand.cut(done, start), made]
        done = end
    return Strand.joined([*parts, strand.cut(done)]) if parts else strand
