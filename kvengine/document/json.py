"""JSON: values by the standard library, places and clear faults by a scanner of our own."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from kvengine.document.depth import MAX_DIGITS, check_brackets, too_long
from kvengine.document.text import Fault
from kvengine.document.tree import Entry, Node
from kvengine.errors import show

__all__ = ["built", "load", "scan"]

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERAL = re.compile(r"true|false|null")
_WORD = re.compile(r"[^\s,:\[\]{}\"']+")
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_SPELLINGS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_COMMENTS = ("//", "/*", "#")
_QUOTES = "'\u2018\u2019\u201c\u201d`"


def load(body: str) -> Any:
    """The value that ``body`` writes; a Fault where it is not JSON or gives a key twice."""
    check_brackets(body, _BRACKET)
    try:
        return json.loads(body, object_pairs_hook=_object, parse_constant=_constant)
    except ValueError as error:
        scan(body)
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        raise Fault("syntax", f"is not JSON: {error.args[0]}", at) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is given twice")
    return made


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def scan(body: str, tolerated: list[Fault] | None = None) -> Node:
    """Where every key and value of a JSON text stands; a Fault where it is not JSON.

    With a list ``tolerated``, comments, trailing commas and keys given twice go there, and
    reading goes on.
    """
    scanner = _Scanner(body, tolerated)
    root = scanner.value(scanner.skip(0))
    end = scanner.skip(root.end)
    if end < len(body):
        raise Fault(
            "syntax", "goes on behind the end of its value", end, hint="one file, one value"
        )
    return root


def built(body: str, node: Node) -> Any:
    """The value that a scanned text writes; of a key given twice the last."""
    if node.kind == "map":
        return {entry.key: built(body, entry.node) for entry in node.entries}
    if node.kind == "list":
        return [built(body, entry.node) for entry in node.entries]
    return json.loads(body[node.start : node.end])


class _Scanner:
    def __init__(self, body: str, tolerated: list[Fault] | None) -> None:
        self.body = body
        self.tolerated = tolerated

    def _tolerate(self, fault: Fault) -> None:
        if self.tolerated is None:
            raise fault
        self.tolerated.append(fault)

    def skip(self, at: int) -> int:
        """Behind the white space at ``at``; a comment is a fault."""
        while True:
            match = _SPACE.match(self.body, at)
            assert match is not None
            at = match.end()
            if not self.body.startswith(_COMMENTS, at):
                return at
            end = self.body.find("*/", at) + 2 if self.body.startswith("/*", at) else 0
            end = end if end > 1 else self._line_end(at)
            message = "has a comment, which JSON does not allow"
            self._tolerate(Fault("syntax", message, at, end, hint="remove it"))
            at = end

    def value(self, at: int) -> Node:
        first = self.body[at : at + 1]
        if first == "{":
            return self._object(at)
        if first == "[":
            return self._array(at)
        if first == '"':
            return Node("scalar", at, self._string(at), '"')
        match = _NUMBER.match(self.body, at) or _LITERAL.match(self.body, at)
        word = _WORD.match(self.body, at)
        if match is None or word is None or word.end() != match.end():
            self._no_value(at, word[0] if word else "")
        if match[0].lstrip("-").isdigit() and len(match[0].lstrip("-")) > MAX_DIGITS:
            raise too_long(at, match.end())
        return Node("scalar", at, match.end(), "")

    def _object(self, start: int) -> Node:
        node = Node("map", start, start, "flow")
        seen: set[str] = set()
        at = self.skip(start + 1)
        while self.body[at : at + 1] != "}":
            at = self._comma(node, at, "}")
            if self.body[at : at + 1] == "}":
                break
            key_end = self._key(at)
            key = json.loads(self.body[at:key_end])
            if key in seen:
                message = f"gives the key {show(key)} twice"
                self._tolerate(Fault("duplicate-key", message, at, key_end))
            seen.add(key)
            colon = self.skip(key_end)
            if self.body[colon : colon + 1] != ":":
                raise Fault("syntax", f"has no ':' behind the key {show(key)}", colon)
            child = self.value(self.skip(colon + 1))
            node.add(Entry(key, at, key_end, child))
            at = self.skip(child.end)
        node.end = at + 1
        return node

    def _array(self, start: int) -> Node:
        node = Node("list", start, start, "flow")
        at = self.skip(start + 1)
        while self.body[at : at + 1] != "]":
            at = self._comma(node, at, "]")
            if self.body[at : at + 1] == "]":
                break
            child = self.value(at)
            node.add(Entry(len(node.entries), child.start, child.end, child))
            at = self.skip(child.end)
        node.end = at + 1
        return node

    def _comma(self, node: Node, at: int, closing: str) -> int:
        """Where the next entry starts, behind the comma that must part it from the last."""
        if at == len(self.body):
            opening = self.body[node.start]
            raise Fault("syntax", f"never closes this '{opening}'", node.start)
        if not node.entries:
            return at
        if self.body[at] != ",":
            if self.body[at] in "]}":
                raise Fault("syntax", f"has '{self.body[at]}' where '{closing}' closes", at)
            raise Fault("syntax", "has no comma between two entries", node.entries[-1].node.end)
        behind = self.skip(at + 1)
        if behind == len(self.body):
            raise Fault("syntax", f"never closes this '{self.body[node.start]}'", node.start)
        if self.body[behind : behind + 1] == closing:
            message = f"has a trailing comma before '{closing}', which JSON does not allow"
            self._tolerate(Fault("syntax", message, at, hint="remove it"))
        return behind

    def _key(self, at: int) -> int:
        if self.body[at] == '"':
            return self._string(at)
        if self.body[at] in _QUOTES:
            self._wrong_quote(at)
        word = _WORD.match(self.body, at)
        if word is None:
            raise Fault("syntax", f"has {show(self.body[at])} where a key belongs", at)
        message = f"has the key {show(word[0])} without double quotes"
        raise Fault("syntax", message, at, word.end(), hint=f'write "{word[0][:60]}"')

    def _string(self, start: int) -> int:
        """The end of the string that opens at ``start``."""
        match = _STRING.match(self.body, start)
        if match is not None:
            return match.end()
        at = start + 1
        while at < len(self.body) and self.body[at] >= " ":
            if self.body[at] == "\\":
                escape = _STRING.match('"' + self.body[at : at + 6][:2] + '"')
                if self.body[at + 1 : at + 2] == "u":
                    escape = _STRING.match('"' + self.body[at : at + 6] + '"')
                if escape is None:
                    shown = self.body[at : at + 2]
                    message = f"has the escape {shown} in a string, which JSON does not know"
                    raise Fault("syntax", message, at, at + 2)
                at += 1
            at += 1
        if at < len(self.body) and self.body[at] not in "\r\n":
            message = f"has the control character {show(self.body[at])} inside a string"
            raise Fault("syntax", message, at)
        raise Fault("syntax", "has a string that its line does not close", start, at)

    def _wrong_quote(self, at: int) -> NoReturn:
        kind = "single quotes" if self.body[at] == "'" else "typographic quotes"
        raise Fault("syntax", f"uses {kind}", at, hint='strings in JSON stand in "double quotes"')

    def _no_value(self, at: int, word: str) -> NoReturn:
        end = at + max(len(word), 1)
        if at >= len(self.body):
            raise Fault("syntax", "ends where a value belongs", at)
        if self.body[at] in _QUOTES:
            self._wrong_quote(at)
        if word in _SPELLINGS:
            hint = f"write {_SPELLINGS[word]}"
            raise Fault("syntax", f"has {word}, which is Python and not JSON", at, end, hint=hint)
        if word.lstrip("+-") in ("NaN", "Infinity", "nan", "inf"):
            raise Fault("syntax", f"has {word}, which is no JSON number", at, end)
        if word[:1] in "+-.0123456789" and word:
            raise Fault("syntax", f"has {show(word)}, which is no JSON number", at, end)
        if not word:
            raise Fault("syntax", f"has {show(self.body[at])} where a value belongs", at)
        hint = 'text stands in "double quotes"'
        raise Fault("syntax", f"has {show(word)} where a value belongs", at, end, hint=hint)

    def _line_end(self, at: int) -> int:
        end = self.body.find("\n", at)
        return len(self.body) if end < 0 else end
