"""Shell scripts, command lines and files of variables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from kvengine.document.embedded.scope import TRIGGER, Collector, Scope, looks_like_config
from kvengine.document.embedded.shell import Command, read_shell
from kvengine.document.embedded.strand import Strand
from kvengine.document.embedded.words import split_words
from kvengine.errors import Problem

__all__ = ["add_dotenv", "add_script", "add_variable", "is_dotenv", "shell_script_of"]

_MAX_DEPTH = 5
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_VARIABLE = re.compile(r"(?:export[ \t]+)?([A-Za-z_]\w*)=(.*)")
_SHELL_ONLY = re.compile(r"[;&|]|\$\(|`|\\$")
_QUOTED_OBJECT = re.compile(r"['\"]\s*[{\[]")
_OWN_FLAG = re.compile(r"--kv[-_](?:transfer|offloading)")
_KEEPS_QUOTES = (
    "keeps its quotes until a shell reads the variable once more",
    "without quotes and blanks the JSON survives an unquoted variable",
)
_CONFIG_PATH = ("flag:--kv-transfer-config",)


def add_script(source: Strand, scope: Scope, collector: Collector) -> None:
    """Keep what the commands and variables of a shell text say of KV transfer."""
    if scope.depth > _MAX_DEPTH or collector.full:
        return
    script = read_shell(source, scope.env)
    for command in script.commands:
        _add(command, scope.inner(env=command.env, literal=False), collector)
    for one in script.assignments:
        if one.words:
            inner = scope.inner(env=one.env, literal=False)
            collector.add_command(one.words, inner, weak=True)
            continue
        add_variable(one.name, one.value, scope.inner(env=one.env, literal=False), collector)
    if scope.depth == 0 and not collector.found:
        env = {**scope.env, **{one.name: one.value for one in script.assignments}}
        collector.add_variables(evolve(scope, env=env))


def _add(command: Command, scope: Scope, collector: Collector) -> None:
    from kvengine.document.embedded.texts import add_text

    words = command.words
    if words and any(word.text in _CONTAINERS for word in words[:2]):
        scope = _in_container(words, scope)
    inner = [word for word in words if _is_command_text(word.text)]
    collector.add_command(words, scope)
    for text in (*inner, *command.heredocs):
        if TRIGGER.search(text.text):
            add_text(text, scope, collector, weak=True)


def _is_command_text(text: str) -> bool:
    """Whether a word is a command line of its own, as for ``bash -c``, ``ssh`` and ``eval``."""
    return not text.startswith(("-", "{", "[")) and re.search(r"\s", text.strip()) is not None


def _in_container(words: Sequence[Strand], scope: Scope) -> Scope:
    """What ``docker run`` gives its program: variables of ``-e``, and the image."""
    env = dict[str, Strand]()
    image = scope.image
    for number, word in enumerate(words):
        option, _, value = word.text.partition("=")
        text = word.cut(len(option) + 1) if value and option == "--env" else None
        if option in ("-e", "--env") and not value and number + 1 < len(words):
            text = words[number + 1]
        if text is not None and "=" in text.text:
            at = text.text.index("=")
            env[text.text[:at]] = text.cut(at + 1)
        elif image is None and re.fullmatch(r"[\w./-]*vllm[\w./-]*:[\w.+-]+", word.text):
            image = word.text
    return scope.inner(env=env, image=image)


def add_variable(name: str, value: Strand, scope: Scope, collector: Collector) -> None:
    """Keep a config, or flags, that a variable holds for somebody else to use."""
    if looks_like_config(value.text):
        collector.add_object(value, scope, mark=f"env:{name}", weak=True)
        return
    if not _OWN_FLAG.search(value.text):
        return
    if not _QUOTED_OBJECT.search(value.text):
        collector.add_command(split_words(value), scope, weak=True)
        return
    place = collector.text.place(*value.range(0, len(value)))
    note = Problem("syntax", _CONFIG_PATH, *_KEEPS_QUOTES, "info", place=place)
    for command in read_shell(value, scope.env).commands:
        collector.add_command(command.words, scope, weak=True, notes=[note])


def shell_script_of(words: Sequence[Strand]) -> Strand | None:
    """The script of ``sh -c SCRIPT``, if the words are that."""
    if not words or words[0].text.rpartition("/")[2] not in _SHELLS:
        return None
    for number, word in enumerate(words[1:-1], start=1):
        if _COMMAND_OPTION.fullmatch(word.text):
            return words[number + 1]
    return None


def is_dotenv(text: str, name: str = "") -> bool:
    """Whether a text is a list of ``NAME=value`` lines for something that is no shell."""
    base = name.rpartition("/")[2]
    if base.endswith(".env") or base.startswith(".env"):
        return True
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return bool(lines) and all(map(_is_dotenv_line, lines))


def _is_dotenv_line(line: str) -> bool:
    match = _VARIABLE.fullmatch(line)
    if match is None:
        return False
    value = match[2]
    if value[:1] in ("'", '"'):
        return False
    if value.startswith(("{", "--")):
        return True
    return not re.search(r"\s", value) and not _SHELL_ONLY.search(value)


def add_dotenv(source: Strand, scope: Scope, collector: Collector) -> None:
    """Keep what the variables of an environment file say of KV transfer."""
    env = dict(scope.env)
    start = 0
    for line in source.text.splitlines(keepends=True):
        match = _VARIABLE.match(line.strip())
        if match is not None:
            at = start + line.index(match[0]) + match.start(2)
            value = source.cut(at, start + line.index(match[0]) + match.end(2)).stripped()
            text = value.text
            if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
                value = value.cut(1, len(text) - 1)
            env[match[1]] = value
        start += len(line)
    scope = scope.inner(env=env)
    for name, value in env.items():
        if not collector.full:
            add_variable(name, value, scope, collector)
    if not collector.found:
        collector.add_variables(scope)
