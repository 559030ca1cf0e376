"""YAML: values and places from the events of PyYAML, in one pass and without recursion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from attrs import Factory, define, frozen

from kvengine.document.depth import too_deep, too_long
from kvengine.document.text import MAX_DEPTH, Fault
from kvengine.document.tree import Entry, Node
from kvengine.errors import Path, show

__all__ = ["MAX_ALIAS_NODES", "Loaded", "load_all"]

MAX_ALIAS_NODES = 100_000
"""Values that aliases may add to a document; more are refused."""

_TAG = "tag:yaml.org,2002:"
_PROPERTIES = re.compile(r"(?:[&!]\S*\s*(?:#[^\n]*\n\s*)*)*")
_FLAG_WITH_OBJECT = re.compile(r"[ \t]*-[ \t]+--[\w.-]+[= ]\{")
_OLD_BOOLEAN = re.compile(r"yes|no|on|off", re.IGNORECASE)
_OLD_NUMBER = re.compile(r"[-+]?0[0-7_]+|.*:.*|.*_.*|[-+]?0b.*", re.IGNORECASE)
_TEXT_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+|0o[0-7]+")


@frozen
class Loaded:
    """One document of a stream: its number, its data and tree, and what is worth a warning."""

    index: int
    data: Any
    tree: Node
    notes: tuple[Fault, ...]


@define(eq=False)
class _Frame:
    """A collection that is still open."""

    node: Node
    value: Any
    anchor: str | None
    size: int = 1
    height: int = 1
    end: int = 0
    key: tuple[str, int, int] | None = None
    merges: list[tuple[Any, Node]] = Factory(list)


@define(eq=False)
class _Done:
    """A finished value; ``size`` and ``height`` count it and what it holds."""

    node: Node
    value: Any
    size: int = 1
    height: int = 0


def load_all(body: str, *, strict: bool = True) -> list[Loaded]:
    """The documents of a YAML stream that are not empty; a Fault where it is not YAML."""
    import yaml

    unprintable = yaml.reader.Reader.NON_PRINTABLE.search(body)
    if unprintable is not None:
        message = f"holds the control character {show(unprintable[0])}"
        raise Fault("syntax", message, unprintable.start())
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(body)
    try:
        found = _Stream(body, loader, strict).documents()
    except yaml.MarkedYAMLError as error:
        raise _fault(body, error) from None
    finally:
        loader.dispose()
    if not found:
        raise Fault("syntax", "holds no document")
    return [loaded for loaded in found if loaded.data is not None] or found[:1]


def _fault(body: str, error: Any) -> Fault:
    mark = error.problem_mark or error.context_mark
    at = mark.index if mark is not None else 0
    if "nesting" in str(error.problem):
        return too_deep(at)
    context = f" {error.context}" if error.context else ""
    hint = ""
    if body[at : at + 1] == "\t":
        hint = "indent with spaces: YAML takes no tabs there"
    elif _FLAG_WITH_OBJECT.search(body, body.rfind("\n", 0, at) + 1, at + 1):
        hint = "put the whole entry in single quotes: ': ' in plain text ends a key"
    elif "{{" in body:
        hint = "this looks like a template; check what it renders to (helm template)"
    return Fault("syntax", f"is not YAML: {error.problem}{context}", at, hint=hint)


class _Stream:
    """Turns events into documents."""

    def __init__(self, body: str, loader: Any, strict: bool) -> None:
        import yaml.events

        self.events = yaml.events
        self.body = body
        self.loader = loader
        self.strict = strict
        self.frames: list[_Frame] = []
        self.anchors: dict[str, _Done | None] = {}
        self.notes: list[Fault] = []
        self.alias_nodes = 0
        self.root: _Done | None = None

    def documents(self) -> list[Loaded]:
        events = self.events
        handlers: dict[type, Callable[[Any], None]] = {
            events.ScalarEvent: self._scalar,
            events.AliasEvent: self._alias,
            events.MappingStartEvent: self._open,
            events.SequenceStartEvent: self._open,
            events.MappingEndEvent: self._close_map,
            events.SequenceEndEvent: self._close,
        }
        found: list[Loaded] = []
        while self.loader.check_event():
            event = self.loader.get_event()
            kind = type(event)
            if kind in handlers:
                handlers[kind](event)
            elif kind is events.DocumentStartEvent:
                self.anchors, self.notes, self.alias_nodes = {}, [], 0
            elif kind is events.DocumentEndEvent:
                assert self.root is not None
                notes = tuple(self.notes)
                found.append(Loaded(len(found), self.root.value, self.root.node, notes))
        return found

    def _open(self, event: Any) -> None:
        if len(self.frames) >= MAX_DEPTH:
            raise too_deep(event.start_mark.index)
        is_map = isinstance(event, self.events.MappingStartEvent)
        self._check_tag(event, ("map",) if is_map else ("seq",))
        start = event.start_mark.index
        style = "flow" if event.flow_style else "block"
        node = Node("map" if is_map else "list", start, start, style)
        node.content = self._content(event)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.frames.append(_Frame(node, {} if is_map else [], event.anchor))

    def _content(self, event: Any) -> int:
        start: int = event.start_mark.index
        if not (event.anchor or event.tag):
            return start
        match = _PROPERTIES.match(self.body, start)
        assert match is not None
        return match.end()

    def _check_tag(self, event: Any, known: tuple[str, ...]) -> None:
        tag = event.tag
        if not tag or tag == "!" or not self.strict:
            return
        if tag.removeprefix(_TAG) not in known or not tag.startswith(_TAG):
            shown = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
            start = event.start_mark.index
            raise Fault("syntax", f"uses the tag {show(shown)[1:-1]}, which is not read", start)

    def _close(self, event: Any) -> None:
        frame = self.frames.pop()
        node = frame.node
        node.end = event.end_mark.index if node.style == "flow" else max(frame.end, node.start)
        done = _Done(node, frame.value, frame.size, frame.height)
        if frame.anchor:
            self.anchors[frame.anchor] = done
        self._put(done, node.start, node.end)

    def _close_map(self, event: Any) -> None:
        frame = self.frames[-1]
        for value, node in frame.merges:
            for key, item in value.items():
                if key not in frame.value:
                    frame.value[key] = item
                    source = node.entry(key)
                    assert source is not None
                    frame.node.add(Entry(key, source.start, source.end, source.node, "merge"))
        self._close(event)

    def _alias(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if event.anchor not in self.anchors:
            raise Fault("syntax", f"refers to *{event.anchor}, which is not defined", start, end)
        done = self.anchors[event.anchor]
        if done is None:
            raise Fault("limit", f"has a value that holds itself, *{event.anchor}", start, end)
        self.alias_nodes += done.size
        if self.alias_nodes > MAX_ALIAS_NODES:
            message = f"has aliases that expand to more than {MAX_ALIAS_NODES} values"
            raise Fault("limit", message, start, end)
        if len(self.frames) + done.height > MAX_DEPTH:
            raise too_deep(start)
        self._put(done, start, end, "alias")

    def _scalar(self, event: Any) -> None:
        self._check_tag(event, ("str", "int", "float", "bool", "null", "timestamp"))
        start, end = event.start_mark.index, event.end_mark.index
        while end > start and self.body[end - 1] in " \t\r\n":
            end -= 1
        style = event.style or ""
        node = Node("scalar", start, end, style, content=self._content(event))
        tag = self._tag(event)
        frame = self.frames[-1] if self.frames else None
        if frame is not None and frame.node.kind == "map" and frame.key is None:
            self._key(frame, event, tag, start, end)
            return
        value = self._construct(tag, event)
        if not style and not event.tag:
            self._note(value, event.value, start, end)
        done = _Done(node, value)
        if event.anchor:
            self.anchors[event.anchor] = done
        self._put(done, start, end)

    def _tag(self, event: Any) -> str:
        """The kind of a scalar: ``str``, ``int``, ``merge``, ..."""
        import yaml

        tag = event.tag
        if not tag or (tag == "!" and event.implicit[0]):
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        return str(tag).removeprefix(_TAG)

    def _construct(self, tag: str, event: Any) -> Any:
        import yaml

        makers: dict[str, Callable[[Any], Any]] = {
            "int": self.loader.construct_yaml_int,
            "float": self.loader.construct_yaml_float,
            "bool": self.loader.construct_yaml_bool,
            "null": self.loader.construct_yaml_null,
        }
        if tag not in makers:
            return event.value
        try:
            return makers[tag](yaml.ScalarNode(_TAG + tag, event.value))
        except (ValueError, KeyError, IndexError, OverflowError):
            start, end = event.start_mark.index, event.end_mark.index
            if len(event.value) > 4300:
                raise too_long(start, end) from None
            message = f"has {show(event.value)}, which is no {tag}"
            raise Fault("syntax", message, start, end) from None

    def _key(self, frame: _Frame, event: Any, tag: str, start: int, end: int) -> None:
        key = event.value
        if tag == "merge":
            frame.key = ("<<", start, -1)
            return
        if tag not in ("str", "value", "timestamp") and self.strict:
            value = self._construct(tag, event)
            message = f"has the key {key}, which YAML reads as {show(value)} and not as text"
            raise Fault("type", message, start, end, hint=f'write "{key}"')
        if key in frame.value:
            message = f"gives the key {show(key)} twice"
            raise Fault("duplicate-key", message, start, end, path=self._path())
        if event.anchor:
            self.anchors[event.anchor] = _Done(Node("scalar", start, end, ""), key)
        frame.key = (key, start, end)

    def _put(self, done: _Done, start: int, end: int, shared: Literal["", "alias"] = "") -> None:
        """Hand a finished value to the collection that it stands in."""
        if not self.frames:
            self.root = done
            return
        frame = self.frames[-1]
        frame.size += done.size
        frame.height = max(frame.height, done.height + 1)
        frame.end = max(frame.end, end)
        if frame.node.kind == "list":
            frame.node.add(Entry(len(frame.value), start, end, done.node, shared, end))
            frame.value.append(done.value)
            return
        if frame.key is None:
            hint = ""
            if self.body.startswith("{{", start - 1) or self.body.startswith("{{", start):
                hint = "this looks like a template; check what it renders to (helm template)"
            message = "has a key that is no plain text"
            raise Fault("type", message, start, end, hint=hint, path=self._path())
        key, key_start, key_end = frame.key
        frame.key = None
        if key_end < 0:
            self._merge(frame, done, start, end)
            return
        frame.node.add(Entry(key, key_start, key_end, done.node, shared, end))
        frame.value[key] = done.value

    def _merge(self, frame: _Frame, done: _Done, start: int, end: int) -> None:
        sources = [(done.value, done.node)]
        if isinstance(done.value, list):
            nodes = [entry.node for entry in done.node.entries]
            sources = list(zip(done.value, nodes, strict=True))
        for value, node in sources:
            if not isinstance(value, dict):
                message = f"merges {show(value)}, which is no mapping"
                raise Fault("syntax", message, start, end, path=self._path())
            frame.merges.append((value, node))

    def _path(self) -> Path:
        """The way to the collection or value that is being read."""
        path: list[str | int] = []
        for frame in self.frames:
            if frame.node.kind == "list":
                path.append(len(frame.value))
            elif frame.key is not None:
                path.append(frame.key[0])
        return tuple(path)

    def _note(self, value: Any, text: str, start: int, end: int) -> None:
        """Remember a plain scalar that YAML 1.1 reads unlike most people."""
        if isinstance(value, bool):
            odd = _OLD_BOOLEAN.fullmatch(text) is not None
        elif isinstance(value, (int, float)):
            odd = _OLD_NUMBER.fullmatch(text) is not None
        elif isinstance(value, str):
            odd = _TEXT_NUMBER.fullmatch(text) is not None
        else:
            return
        if odd:
            message = f"is written {text} and read as {show(value)}"
            if isinstance(value, str):
                message = f"is written {text} and read as the text {show(value)}, not as a number"
                hint = "YAML 1.1 wants a point and a sign, as in 1.0e+9; better, write it out"
            else:
                hint = f'write {show(value)}, or "{text}" if the text is meant'
            self.notes.append(Fault("coerced", message, start, end, hint=hint, path=self._path()))
