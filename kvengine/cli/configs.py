"""A file -> the configs in it: an engine document, a transfer config, or whatever holds some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from kvengine.document import Document, parse
from kvengine.errors import DocumentError

if TYPE_CHECKING:
    from kvengine.document.embedded import Source

__all__ = ["STDIN", "Configs", "read_configs", "text_of"]

STDIN = "<stdin>"
"""The name of standard input in findings."""

_BARE = (b"kv_role", b"kv_connector_extra_config")


@frozen(kw_only=True)
class Configs:
    """``document`` is an engine document or a transfer config; other files have ``sources``.

    A file that has neither holds no config, and was not meant to.
    """

    document: Document | None = None
    sources: tuple[Source, ...] = ()


def read_configs(raw: bytes, name: str) -> Configs:
    """The configs of a file; DocumentError for one that cannot be read as what it is.

    TOML and JSON are mostly documents of ours: they spare the machinery for all other files.
    """
    if name.lower().endswith((".toml", ".json")):
        document = _own(raw, name)
        if document is not None:
            return Configs(document=document)
    from kvengine.document.embedded import find

    sources = tuple(find(raw, name=name))
    if len(sources) == 1 and sources[0].origin in ("engine", "bare") and _is_whole(sources[0]):
        return Configs(document=sources[0].document)
    if sources and all(source.origin == "bare" and source.data is None for source in sources):
        raise DocumentError([problem for source in sources for problem in source.problems])
    if sources or not _is_meant(raw, name):
        return Configs(sources=sources)
    return Configs(document=parse(raw, name=name))


def _own(raw: bytes, name: str) -> Document | None:
    try:
        document = parse(raw, name=name)
    except DocumentError:
        return None
    return document if _is_own(document.data) else None


def _is_own(data: Any) -> bool:
    return isinstance(data, dict) and ("schema" in data or "kv_connector" in data)


def _is_whole(source: Source) -> bool:
    return source.document is not None and source.reading is None and not source.path


def _is_meant(raw: bytes, name: str) -> bool:
    """Whether a file without a config is one that somebody meant to be a document of ours.

    Any TOML or JSON is; YAML and scripts are written for many other purposes.
    """
    lower = name.lower()
    if lower.endswith((".toml", ".json")) or any(word in raw for word in _BARE):
        return True
    return name == STDIN or "." not in lower.rpartition("/")[2]


def text_of(raw: bytes, name: str) -> Document | None:
    """What excerpts of a file are cut from; None for one that is no text."""
    source = Document(name=name, form="toml", raw=raw, data=None)
    try:
        return source if source.text else None
    except DocumentError:
        return None
