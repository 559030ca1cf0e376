"""Words of shell text: quotes taken off, known variables filled in, the unknown kept as holes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kvengine.document.embedded.strand import Strand
from kvengine.document.embedded.sums import parsed, whole_number

__all__ = ["MAX_SCRIPT_CHARACTERS", "Value", "Words", "split_words"]

MAX_SCRIPT_CHARACTERS = 1 << 20
"""Script text that is read for commands; variables may add twice as much to it."""

_MAX_DEPTH = 25
_RUN = re.compile(r"[^\s'\"\\$`;&|<>()]+")
_DOUBLE_RUN = re.compile(r"[^\"\\$`]+")
_HERE_RUN = re.compile(r"[^\\$`]+")
_DEFAULT_RUN = re.compile(r"[^\"'\\$`}]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[0-9@*#?$!-]")
_ARRAY = re.compile(r'"\$\{([A-Za-z_][A-Za-z0-9_]*)\[@\]\}"')
_SUBSCRIPT = re.compile(r"\[[@*]\]\}")
_DEFAULT = re.compile(r":?[-=]")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}
_ENDS_WORD = " \t\r\n;&|()<>"

Value = Strand | list[Strand]
"""What a variable holds: a text, or an array of them."""


def split_words(source: Strand) -> list[Strand]:
    """The text cut at white space, as the shell does with a variable that is not quoted."""
    return [source.cut(*match.span()) for match in re.finditer(r"\S+", source.blanked())]


class Words:
    """A position in shell text, and the reading of one word from there."""

    def __init__(self, source: Strand) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.end = len(source.text)
        self.depth = 0
        self.budget = 2 * MAX_SCRIPT_CHARACTERS

    def known(self, name: str) -> bool:
        """Whether the text gives the variable a value at all."""
        raise NotImplementedError

    def lookup(self, name: str) -> Value | None:
        """The variable's value, None where it cannot be told."""
        raise NotImplementedError

    def affordable(self, name: str) -> Value | None:
        """The variable's value, unless values have made the text too long already."""
        value = self.lookup(name)
        for one in value if isinstance(value, list) else [value]:
            self.budget -= len(one) + 1 if one is not None else 0
        return value if self.budget > 0 else None

    def substitution(self) -> Strand | None:
        """What the command in ``$(...)`` prints, None where it cannot be told; moves behind it."""
        raise NotImplementedError

    def word(self, *, split: bool = True) -> list[Strand]:
        """The fields that the word at this place becomes: none, one, or more by splitting."""
        fields: list[list[Strand]] = []
        glue = False
        while self.at < self.end and self.text[self.at] not in _ENDS_WORD:
            if self._continued():
                continue
            char = self.text[self.at]
            if char == '"':
                made, quoted = self._double_fields(), True
            elif char == "'":
                made, quoted = [self._single()], True
            elif char == "$" and self.text.startswith("$'", self.at):
                made, quoted = [self._ansi()], True
            elif char in "$`":
                made, quoted = self._dollar(), not split
            elif char == "\\":
                made, quoted = [self._escaped("sh")], True
            else:
                made, quoted = [self._literal(_RUN, "sh")], True
            for number, part in enumerate(made):
                glue = glue and number == 0
                pieces = [part] if quoted else split_words(part)
                starts_apart = not quoted and part.text[:1].isspace()
                for order, piece in enumerate(pieces):
                    if glue and not (order == 0 and starts_apart) and order == 0:
                        fields[-1].append(piece)
                    else:
                        fields.append([piece])
                    glue = True
                if not quoted and part.text[-1:].isspace():
                    glue = False
        return [Strand.joined(field) for field in fields]

    def _continued(self) -> bool:
        """Pass over a line break that a backslash takes back."""
        if self.text.startswith(("\\\n", "\\\r\n"), self.at):
            self.at = self.text.index("\n", self.at) + 1
            return True
        return False

    def _literal(self, pattern: re.Pattern[str], layer: str) -> Strand:
        match = pattern.match(self.text, self.at, self.end)
        start = self.at
        self.at = match.end() if match else start + 1
        return self.source.cut(start, self.at).within(layer)

    def _escaped(self, layer: str) -> Strand:
        """The character behind a backslash."""
        start = self.at
        self.at = min(start + 2, self.end)
        if self.at == start + 1:
            return self.source.cut(start, self.at).within(layer)
        return self._stands_for(self.text[start + 1], start, layer)

    def _stands_for(self, char: str, start: int, layer: str) -> Strand:
        """One character that was written with the two (or more) from ``start`` to here."""
        one = self.source.cut(start, start + 1).within(layer)
        first, last = self.source.range(start, self.at)
        one.starts[0], one.ends[0] = first, last
        return Strand(char, one.starts, one.ends, one.contexts)

    def _single(self) -> Strand:
        start = self.at + 1
        stop = self.text.find("'", start, self.end)
        stop = self.end if stop < 0 else stop
        self.at = min(stop + 1, self.end)
        return self.source.cut(start, stop).within("sh'")

    def _ansi(self) -> Strand:
        self.at += 2
        parts: list[Strand] = []
        while self.at < self.end and self.text[self.at] != "'":
            start = self.at
            if self.text[start] == "\\" and start + 1 < self.end:
                self.at += 2
                char = self.text[start + 1]
                parts.append(self._stands_for(_ANSI.get(char, char), start, "sh$'"))
            else:
                parts.append(self._literal(re.compile(r"[^'\\]+"), "sh$'"))
        self.at = min(self.at + 1, self.end)
        return Strand.joined(parts)

    def _double_fields(self) -> list[Strand]:
        match = _ARRAY.match(self.text, self.at, self.end)
        value = self.affordable(match[1]) if match else None
        if match is not None and isinstance(value, list):
            self.at = match.end()
            return value
        return [self._double()]

    def _double(self) -> Strand:
        self.at += 1
        parts: list[Strand] = []
        while self.at < self.end and self.text[self.at] != '"':
            parts.append(self._inside(_DOUBLE_RUN, 'sh"', '$`"\\'))
        self.at = min(self.at + 1, self.end)
        return Strand.joined(parts)

    def _inside(self, pattern: re.Pattern[str], layer: str, escapable: str) -> Strand:
        """The next part of a text in which only some characters are special."""
        char = self.text[self.at]
        if char == "\\":
            if self._continued():
                return self.source.cut(self.at, self.at)
            if self.text[self.at + 1 : self.at + 2] in tuple(escapable):
                return self._escaped(layer)
            self.at += 1
            return self.source.cut(self.at - 1, self.at).within(layer)
        if char in "$`":
            return _one(self._dollar())
        return self._literal(pattern, layer)

    def heredoc(self, start: int, stop: int) -> Strand:
        """The here-document at ``start:stop``, variables filled in."""
        at, end = self.at, self.end
        self.at, self.end = start, stop
        parts: list[Strand] = []
        while self.at < self.end:
            parts.append(self._inside(_HERE_RUN, "sh<", "$`\\"))
        self.at, self.end = at, end
        return Strand.joined(parts)

    def _dollar(self) -> list[Strand]:
        """The fields of ``$NAME``, ``${...}``, ``$(...)`` or a back-quoted command."""
        start = self.at
        if self.depth >= _MAX_DEPTH:
            self.at = self.end
            return [self._hole(start)]
        self.depth += 1
        made = self._expansion(start)
        self.depth -= 1
        return made

    def _expansion(self, start: int) -> list[Strand]:
        if self.text[start] == "`":
            stop = self.text.find("`", start + 1, self.end)
            self.at = self.end if stop < 0 else stop + 1
            return [self._hole(start)]
        if self.text.startswith("$((", start):
            return [self._arithmetic()]
        if self.text.startswith("$(", start):
            made = self.substitution()
            return [self._hole(start) if made is None else made]
        if self.text.startswith("${", start):
            return self._braced()
        name = _NAME.match(self.text, start + 1, self.end)
        if name is not None:
            self.at = name.end()
            return self._value(name[0], start)
        special = _SPECIAL.match(self.text, start + 1, self.end)
        if special is not None:
            self.at = special.end()
            return [self._hole(start)]
        self.at += 1
        return [self.source.cut(start, self.at).within("sh")]

    def _value(self, name: str, start: int) -> list[Strand]:
        value = self.affordable(name)
        if value is None:
            return [self._hole(start)]
        return [value[0] if isinstance(value, list) else value] if value else [self._empty()]

    def _empty(self) -> Strand:
        return self.source.cut(self.at, self.at)

    def _hole(self, start: int) -> Strand:
        text = self.text[start : self.at]
        return Strand.written(text, self.source, start, self.at, hole=text)

    def _braced(self) -> list[Strand]:
        start = self.at
        name = _NAME.match(self.text, start + 2, self.end)
        self.at = name.end() if name else start + 2
        if name is not None:
            subscript = _SUBSCRIPT.match(self.text, self.at, self.end)
            value = self.affordable(name[0]) if subscript is not None else None
            if subscript is not None and isinstance(value, list):
                self.at = subscript.end()
                return value
            if self.text.startswith("}", self.at):
                self.at += 1
                return self._value(name[0], start)
            default = _DEFAULT.match(self.text, self.at, self.end)
            if default is not None:
                return self._or_default(name[0], start, default.end())
        self._skip_braces()
        return [self._hole(start)]

    def _or_default(self, name: str, start: int, behind: int) -> list[Strand]:
        """``${NAME:-default}``: the default, unless the text gives the variable a value."""
        self.at = behind
        parts: list[Strand] = []
        while self.at < self.end and self.text[self.at] != "}":
            char = self.text[self.at]
            if char == '"':
                parts.append(self._double())
            elif char == "'":
                parts.append(self._single())
            else:
                parts.append(self._inside(_DEFAULT_RUN, 'sh"', '$`"\\}'))
        self.at = min(self.at + 1, self.end)
        if self.known(name):
            return self._value(name, start)
        return [Strand.joined(parts).within("var")]

    def _skip_braces(self) -> None:
        depth = 1
        while self.at < self.end and depth:
            char = self.text[self.at]
            depth += (char == "{") - (char == "}")
            self.at += 2 if char == "\\" else 1
        self.at = min(self.at, self.end)

    def _arithmetic(self) -> Strand:
        start = self.at
        depth = 0
        while self.at < self.end:
            char = self.text[self.at]
            depth += (char == "(") - (char == ")")
            self.at += 1
            if char == ")" and depth == 0:
                break
        result = self._sum(self.text[start + 3 : self.at - 2])
        if result is None:
            return self._hole(start)
        return Strand.written(str(result), self.source, start, self.at)

    def _sum(self, text: str) -> int | None:
        """The value of an arithmetic expression on whole numbers that are known."""
        if len(text) > 200:
            return None
        tree = parsed(re.sub(r"\$\{?(\w+)\}?", r"\1", text.strip()), "eval")
        if not isinstance(tree, ast.Expression):
            return None
        try:
            return whole_number(tree.body, self._number)
        except (ValueError, RecursionError):
            return None

    def _number(self, name: str) -> int:
        value = self.lookup(name)
        if not isinstance(value, Strand) or value.holes:
            raise ValueError(name)
        return int(value.text)


def _one(fields: list[Strand]) -> Strand:
    """Fields inside double quotes: one text, parted by spaces."""
    if len(fields) == 1:
        return fields[0]
    return Strand.joined([*_parted(fields)])


def _parted(fields: list[Strand]) -> Iterator[Strand]:
    for number, one in enumerate(fields):
        if number and len(one):
            yield Strand.written(" ", one, 0, 0)
        yield one
