"""A text of unknown kind -> the reader that fits it."""

from __future__ import annotations

import re

from kvengine.document.embedded.manifest import Walker, origin_of
from kvengine.document.embedded.scope import TRIGGER, Collector, Scope, looks_like_config
from kvengine.document.embedded.scripts import add_dotenv, add_script, is_dotenv
from kvengine.document.embedded.strand import Strand
from kvengine.document.text import Fault

__all__ = ["SHELL_LINE", "add_text", "add_yaml"]

SHELL_LINE = re.compile(
    r"^\s*(?:#!|export\s|exec\s|set\s+-|vllm\s|python3?\s|docker\s|nohup\s|--[a-z]|if\s|for\s)"
    r"|^\s*[A-Z_][A-Z0-9_]*=|\\$|<<-?\s*['\"]?\w",
    re.MULTILINE,
)
_YAML_LINE = re.compile(r"^\s*(?:- )?[\w.\"'/-]+:(?:\s|$)", re.MULTILINE)


def add_text(
    source: Strand, scope: Scope, collector: Collector, *, name: str = "", weak: bool = False
) -> None:
    """Keep what a text inside another file says; its name, if it has one, may tell the kind."""
    if scope.depth > 6 or collector.full or not TRIGGER.search(source.text):
        return
    scope = scope.inner()
    if looks_like_config(source.text):
        collector.add_object(source, scope, weak=weak)
        return
    is_yaml = name.endswith((".yaml", ".yml", ".json"))
    looks_like_yaml = not SHELL_LINE.search(source.text) and _YAML_LINE.search(source.text)
    if (is_yaml or looks_like_yaml) and add_yaml(source, scope, collector):
        return
    if is_dotenv(source.text, name):
        add_dotenv(source, scope, collector)
    else:
        add_script(source, scope, collector)


def add_yaml(source: Strand, scope: Scope, collector: Collector) -> bool:
    """Keep what YAML inside another text says; False where it is no YAML with tables."""
    from kvengine.document.yaml import load_all

    try:
        loaded = load_all(source.text, strict=False)
    except Fault:
        return False
    for one in loaded:
        if isinstance(one.data, (dict, list)):
            origin = origin_of(one.data)
            inner = scope.inner(origin=origin, document=None, literal=False)
            walker = Walker(source, "yaml", collector, one.index, outer=scope.path)
            walker.walk(one.tree, one.data, (), inner)
    return any(isinstance(one.data, (dict, list)) for one in loaded)
