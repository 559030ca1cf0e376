"""The arguments of a command -> flags, as vLLM's own parser sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from attrs import define, field, frozen

from kvengine.document.embedded.strand import Strand

__all__ = ["CONFIG_FLAG", "Arguments", "Flag", "flag_name", "read_arguments"]

CONFIG_FLAG = "--kv-transfer-config"

_FLAG = re.compile(r"--[A-Za-z][\w.-]*\+?")
_NUMBER = re.compile(r"-[0-9.]+")
_SWITCHES = frozenset(
    {
        "--async-scheduling",
        "--calculate-kv-scales",
        "--disable-chunked-mm-input",
        "--disable-custom-all-reduce",
        "--disable-hybrid-kv-cache-manager",
        "--disable-log-requests",
        "--disable-log-stats",
        "--disable-uvicorn-access-log",
        "--enable-auto-tool-choice",
        "--enable-chunked-prefill",
        "--enable-cumem-allocator",
        "--enable-dbo",
        "--enable-eplb",
        "--enable-expert-parallel",
        "--enable-lora",
        "--enable-log-requests",
        "--enable-prefix-caching",
        "--enable-prompt-embeds",
        "--enable-sleep-mode",
        "--enforce-eager",
        "--headless",
        "--help",
        "--kv-sharing-fast-prefill",
        "--language-model-only",
        "--skip-mm-profiling",
        "--trust-remote-code",
        "--use-v2-block-manager",
        "--version",
    }
)
"""Flags without a value: what follows them is not theirs."""

_MODULES = re.compile(r"(?:vllm\.entrypoints\.|vllm_omni\.|dynamo\.vllm)[\w.]*")


@frozen
class Flag:
    """A flag as given: its word, and its value (None for a switch).

    ``cut`` says that white space has cut the value into several words.
    """

    name: str
    word: Strand
    value: Strand | None
    cut: bool = False


@define
class Arguments:
    """What a command line gives: flags in order, a later one winning over an earlier one."""

    flags: list[Flag] = field(factory=list)
    model: Strand | None = None
    is_vllm: bool = False

    def last(self, name: str) -> Flag | None:
        """The flag that counts when a name is given several times."""
        return next((one for one in reversed(self.flags) if one.name == name), None)

    @property
    def values(self) -> dict[str, str | Literal[True]]:
        """Name -> text of the value, True for a switch."""
        return {one.name: True if one.value is None else one.value.text for one in self.flags}

    @property
    def dotted(self) -> list[Flag]:
        """The flags that set one field of the transfer config each."""
        return [one for one in self.flags if one.name.startswith(CONFIG_FLAG + ".")]


def flag_name(text: str) -> str:
    """A flag's name with dashes, as vLLM normalises it; behind the first dot it stays as it is."""
    head, dot, rest = text.partition(".")
    return head.replace("_", "-") + dot + rest


def read_arguments(words: Sequence[Strand]) -> Arguments:
    """The flags among the words of a command."""
    found = Arguments()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        match = _FLAG.match(word.text)
        if match is None or (match.end() < len(word) and word.text[match.end()] != "="):
            _positional(found, words, at - 1)
            continue
        name = flag_name(match[0])
        value: Strand | None = None
        if match.end() < len(word):
            value = word.cut(match.end() + 1)
        elif not _is_switch(name) and at < len(words) and not _is_flag(words[at]):
            value = words[at]
            at += 1
        behind = at
        if value is not None and name == CONFIG_FLAG:
            value, at = _whole_object(value, words, at)
        found.flags.append(Flag(name, word, value, cut=at > behind))
        if name == "--model" and value is not None:
            found.model = value
    return found


def _is_switch(name: str) -> bool:
    return name in _SWITCHES or name.startswith("--no-")


def _is_flag(word: Strand) -> bool:
    return word.text.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word.text)


def _positional(found: Arguments, words: Sequence[Strand], at: int) -> None:
    text = words[at].text
    before = words[at - 1].text if at else ""
    if text == "serve" and before.rpartition("/")[2] == "vllm":
        found.is_vllm = True
        if at + 1 < len(words) and not _is_flag(words[at + 1]):
            found.model = words[at + 1]
    elif before == "-m" and _MODULES.fullmatch(text):
        found.is_vllm = True


def _whole_object(value: Strand, words: Sequence[Strand], at: int) -> tuple[Strand, int]:
    """An object that white space has cut into several words, put together again."""
    parts = [value]
    depth = value.text.count("{") - value.text.count("}")
    while value.text.lstrip("'").startswith("{") and depth > 0 and at < len(words):
        if _FLAG.match(words[at].text):
            break
        parts += [Strand.written(" ", words[at], 0, 0), words[at]]
        depth += words[at].text.count("{") - words[at].text.count("}")
        at += 1
    return Strand.joined(parts), at
