"""Dockerfiles: the image, the variables, and the command that it starts."""

from __future__ import annotations

import re

from attrs import evolve

from kvengine.document.embedded.scalars import scalar
from kvengine.document.embedded.scope import Collector, Scope
from kvengine.document.embedded.scripts import add_script, add_variable, shell_script_of
from kvengine.document.embedded.shell import read_shell
from kvengine.document.embedded.strand import Strand
from kvengine.document.json import built, scan
from kvengine.document.text import Fault

__all__ = ["add_dockerfile"]

_INSTRUCTION = re.compile(r"^[ \t]*([A-Za-z]+)[ \t]+((?:[^\\\n]|\\.|\\\n)*)", re.MULTILINE)
_OLD_ENV = re.compile(r"([A-Za-z_]\w*)[ \t]+(.*)", re.DOTALL)


def add_dockerfile(source: Strand, scope: Scope, collector: Collector) -> None:
    """Keep what ENV, RUN, ENTRYPOINT and CMD say of KV transfer."""
    program: dict[str, list[Strand]] = {}
    for match in _INSTRUCTION.finditer(source.text):
        keyword = match[1].upper()
        rest = source.cut(*match.span(2))
        if keyword == "FROM":
            names = [word for word in rest.text.split() if not word.startswith("--")]
            scope = evolve(scope, image=names[0] if names else None)
            program.clear()
        elif keyword == "ENV":
            scope = evolve(scope, env={**scope.env, **_variables(rest)})
        elif keyword == "RUN":
            add_script(rest, scope, collector)
        elif keyword in ("ENTRYPOINT", "CMD"):
            words_of_it = _exec_form(rest)
            if words_of_it is None:
                add_script(rest, scope, collector)
            else:
                program[keyword] = words_of_it
    words_all = [*program.get("ENTRYPOINT", []), *program.get("CMD", [])]
    script = shell_script_of(words_all)
    if script is not None:
        add_script(script, scope, collector)
    elif words_all:
        collector.add_command(words_all, evolve(scope, literal=True))
    for name, value in scope.env.items():
        add_variable(name, value, scope, collector)


def _variables(rest: Strand) -> dict[str, Strand]:
    script = read_shell(rest)
    if script.assignments:
        return {one.name: one.value for one in script.assignments}
    match = _OLD_ENV.fullmatch(rest.text)
    return {match[1]: rest.cut(*match.span(2))} if match else {}


def _exec_form(rest: Strand) -> list[Strand] | None:
    """The words of ``["program", "argument"]``; None where it is a shell command."""
    body = re.sub(r"\\\n", "  ", rest.text)
    if not body.lstrip().startswith("["):
        return None
    try:
        tree = scan(body.strip())
        value = built(body.strip(), tree)
    except Fault:
        return None
    base = rest.cut(len(body) - len(body.lstrip()))
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    pairs = zip(tree.entries, value, strict=True)
    return [scalar(base, entry.node, item, form="json") for entry, item in pairs]
