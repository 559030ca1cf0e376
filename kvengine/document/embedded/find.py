"""A file -> the transfer configs in it, whatever kind of file it is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Literal

from attrs import evolve

from kvengine.document.document import Document, Form
from kvengine.document.embedded.manifest import Walker, origin_of
from kvengine.document.embedded.scope import TRIGGER, Collector, Scope, looks_like_config
from kvengine.document.embedded.scripts import add_dotenv, add_script, is_dotenv
from kvengine.document.embedded.source import Source
from kvengine.document.embedded.strand import Strand
from kvengine.document.embedded.texts import SHELL_LINE, add_text, add_yaml
from kvengine.document.embedded.words import MAX_SCRIPT_CHARACTERS
from kvengine.document.read import parse, parse_all
from kvengine.document.text import Text, decode, refuse
from kvengine.errors import DocumentError
from kvengine.units import format_bytes

__all__ = ["find"]

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
_SHELL_FENCES = ("bash", "sh", "shell", "console", "zsh", "")
_PROSE = (".md", ".rst", ".txt", ".markdown", ".adoc", ".html")
_SCRIPTS = (".sh", ".bash", ".zsh", ".service", ".sbatch", ".slurm", ".mk")
_ENGINE_LINE = re.compile(r"^schema[ \t]*[=:][ \t]*[0-9]+[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_PYTHON_CALL = re.compile(r"\w\s*\([^()]*(?:=|\{|['\"])")
_DOCUMENTS = (".toml", ".json", ".jsonc", ".json5", ".yaml", ".yml")


def find(raw: bytes, *, name: str) -> list[Source]:
    """Every transfer config in a file, in the order in which they stand there.

    The kind of file is told by its name and content: engine documents and bare configs;
    Kubernetes manifests and what Helm renders; compose files; vLLM's ``--config`` files; shell
    scripts and command lines; files of variables; Dockerfiles; Python calls; code blocks in
    Markdown. Nothing is run, imported or fetched. A file without any gives an empty list.

    Raises DocumentError when the file is no text, or is a TOML, JSON or YAML file that cannot be
    read and mentions KV transfer.
    """
    text = decode(raw, name)
    collector = Collector(text, raw)
    _collect(text, raw, name, collector)
    ordered = sorted(collector.found, key=lambda one: one.marks.get("", (0, 0))[0])
    return [evolve(source, index=index) for index, source in enumerate(ordered)]


def _collect(text: Text, raw: bytes, name: str, collector: Collector) -> None:
    lower = name.lower()
    base = lower.rpartition("/")[2]
    body = text.body
    relevant = TRIGGER.search(body) is not None
    if lower.endswith(_DOCUMENTS):
        _documents(raw, name, collector, relevant=relevant)
    elif not relevant and "schema" not in body:
        return
    elif lower.endswith(".py") or body.startswith("#!/usr/bin/env python"):
        from kvengine.document.embedded.python import add_python

        add_python(Strand.of(body), Scope(origin="python"), collector)
    elif base.startswith(("dockerfile", "containerfile")) or base.endswith(".dockerfile"):
        from kvengine.document.embedded.dockerfile import add_dockerfile

        add_dockerfile(Strand.of(body), Scope(origin="dockerfile"), collector)
    elif lower.endswith(_PROSE) and (not lower.endswith(".txt") or "```" in body):
        _fenced(body, collector)
    elif lower.endswith(_SCRIPTS) or body.startswith("#!"):
        _script(text, collector, loose=False)
    else:
        _by_content(text, raw, name, collector)


def _by_content(text: Text, raw: bytes, name: str, collector: Collector) -> None:
    body = text.body
    whole = Strand.of(body)
    if body.lstrip()[:1] == "{" or _ENGINE_LINE.search(body):
        _documents(raw, name, collector, relevant=True)
    elif _PYTHON_CALL.search(body) and _is_python(whole, collector):
        return
    elif is_dotenv(body, name):
        add_dotenv(whole, Scope(origin="env"), collector)
    else:
        if not SHELL_LINE.search(body):
            with contextlib.suppress(DocumentError):
                _documents(raw, name, collector, relevant=True, form="yaml")
        if not collector.found:
            _script(text, collector, loose=SHELL_LINE.search(body) is None)


def _script(text: Text, collector: Collector, *, loose: bool) -> None:
    if len(text.body) > MAX_SCRIPT_CHARACTERS:
        hint = f"scripts of up to {format_bytes(MAX_SCRIPT_CHARACTERS)} are read"
        raise refuse(text.name, "limit", f"has {len(text.body)} characters", hint)
    add_script(Strand.of(text.body), Scope(origin="shell", loose=loose), collector)


def _is_python(whole: Strand, collector: Collector) -> bool:
    from kvengine.document.embedded.python import add_python

    add_python(whole, Scope(origin="python"), collector)
    return bool(collector.found)


def _documents(
    raw: bytes, name: str, collector: Collector, *, relevant: bool, form: Form | None = None
) -> None:
    """Sources of a TOML, JSON or YAML file."""
    try:
        documents = parse_all(raw, name=name, form=form, strict=False)
    except DocumentError as error:
        body = collector.text.body
        if not looks_like_config(body) or error.problems[0].code == "limit":
            raise
        collector.add_object(Strand.of(body), Scope(origin="bare"))
        return
    if len(documents) == 1:
        kind = _own_kind(documents[0].data)
        if kind is not None:
            document = documents[0]
            if document.form == "yaml":
                document = parse(raw, name=name, form="yaml")
            collector.add(_own(document, kind, collector), None)
            return
    if not relevant:
        return
    tables = [one for one in documents if isinstance(one.data, (dict, list))]
    base = Strand.of(collector.text.body)
    if not tables:
        add_text(base, Scope(origin="shell", loose=not SHELL_LINE.search(base.text)), collector)
    for document in tables:
        origin = origin_of(document.data)
        scope = Scope(origin=origin, document=document)
        Walker(base, document.form, collector).walk(document.tree, document.data, (), scope)


def _own_kind(data: Any) -> Literal["engine", "bare"] | None:
    """Whether a document is one of kvengine's own kinds."""
    if not isinstance(data, dict):
        return None
    if "schema" in data:
        version = type(data["schema"]) is int and "apiVersion" not in data
        return "engine" if version or "kv_transfer" in data else None
    return "bare" if "kv_connector" in data else None


def _own(document: Document, kind: Literal["engine", "bare"], collector: Collector) -> Source:
    tree = document.tree
    return Source(
        origin=kind,
        text=collector.text,
        raw=document.raw,
        data=document.data,
        document=document,
        marks={"": (max(tree.start, 0), tree.end)},
    )


def _code_blocks(body: str) -> Iterator[tuple[str, int, int]]:
    """Language and range of every fenced block, in one pass over the lines."""
    at, start, fence, language = 0, -1, "", ""
    for line in body.splitlines(keepends=True):
        match = _FENCE.match(line)
        if match is not None and start < 0:
            start, fence, language = at + len(line), match[1], match[2].lower()
        elif match is not None and match[1].startswith(fence) and not match[2]:
            yield language, start, at
            start = -1
        at += len(line)


def _fenced(body: str, collector: Collector) -> None:
    """Sources of the code blocks of a Markdown text."""
    for language, start, stop in _code_blocks(body):
        block = Strand.of(body, start, stop)
        if not TRIGGER.search(block.text):
            continue
        if language in ("json", "jsonc") or looks_like_config(block.text):
            if looks_like_config(block.text):
                collector.add_object(block, Scope(origin="bare"))
        elif language in ("yaml", "yml"):
            add_yaml(block, Scope(origin="yaml-config"), collector)
        elif language in ("python", "py"):
            from kvengine.document.embedded.python import add_python

            add_python(block, Scope(origin="python"), collector)
        elif language in _SHELL_FENCES:
            loose = not language
            add_script(block, Scope(origin="shell", loose=loose), collector)
