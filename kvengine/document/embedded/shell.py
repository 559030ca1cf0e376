"""Shell text -> simple commands with their variables, as far as can be told without running it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field, frozen

from kvengine.document.embedded.strand import Strand
from kvengine.document.embedded.words import MAX_SCRIPT_CHARACTERS, Value, Words

__all__ = ["Assignment", "Command", "Script", "read_shell"]

_MAX_VARIABLES = 2_000
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_HEREDOC = re.compile(r"<<(-?)[ \t]*(\\?)(['\"]?)([^\s'\";&|<>()]+)\3")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w. /-]{0,60}>(?=[\s;&|)]|$)")
_REDIRECT = re.compile(r"[0-9]*(?:&?>>?[|&]?|<<<|<>|<&|<)")
_KEYWORD = re.compile(
    r"(?:if|while|until|for|select|case|then|else|elif|do|fi|done|esac|!|\{|\}|time|in)(?=[\s;]|$)"
)
_OPENS = ("if", "while", "until", "for", "select", "case")
_TURNS = ("then", "else", "elif", "do", "in")
_CLOSES = ("fi", "done", "esac")
_DECLARES = ("export", "declare", "local", "readonly", "typeset")


@frozen
class Assignment:
    """``NAME=value``, as a statement of its own or in front of a command.

    ``words`` are the items of an array. ``before`` are variables that were exported by then,
    ``beside`` those of the same command.
    """

    name: str
    value: Strand
    words: tuple[Strand, ...]
    before: Mapping[str, Strand]
    beside: Mapping[str, Strand]

    @property
    def env(self) -> Mapping[str, Strand]:
        """What a program would see that is started with the variable."""
        return {**self.before, **self.beside}


@frozen
class Command:
    """One simple command: its words, the variables that it sees, and its here-documents."""

    words: tuple[Strand, ...]
    env: Mapping[str, Strand]
    heredocs: tuple[Strand, ...] = ()


@frozen
class Script:
    """The commands of a text in order, and all that it assigns."""

    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]


def read_shell(source: Strand, env: Mapping[str, Strand] | None = None) -> Script:
    """Read shell text; ``env`` are variables known from outside. Nothing is run."""
    reader = _Reader(source.cut(0, MAX_SCRIPT_CHARACTERS), env or {})
    reader.read("")
    return Script(tuple(reader.commands), tuple(reader.assignments))


@define(eq=False)
class _Variable:
    value: Value
    branch: tuple[int, ...] = ()
    exported: bool = False


@define(eq=False)
class _Line:
    """A simple command while it is read."""

    words: list[Strand] = field(factory=list)
    env: dict[str, Strand] = field(factory=dict)
    heredocs: list[Strand] = field(factory=list)
    visible: Mapping[str, Strand] = field(factory=dict)
    branch: tuple[int, ...] = ()
    started: bool = False

    def command(self) -> Command:
        return Command(tuple(self.words), {**self.visible, **self.env}, tuple(self.heredocs))


class _Reader(Words):
    """Reads and evaluates in one pass; every step moves forward in the text."""

    def __init__(self, source: Strand, env: Mapping[str, Strand]) -> None:
        super().__init__(source)
        self.variables = {name: _Variable(value, (), True) for name, value in env.items()}
        self.visible: dict[str, Strand] | None = None
        self.commands: list[Command] = []
        self.assignments: list[Assignment] = []
        self.branch: tuple[int, ...] = ()
        self.branches = 0
        self.line = _Line()
        self.waiting: list[tuple[_Line, str, bool, bool]] = []
        self.all_exported = False

    def known(self, name: str) -> bool:
        return name in self.variables

    def lookup(self, name: str) -> Value | None:
        variable = self.variables.get(name)
        if variable is None:
            return None
        # A value given in a branch that need not have been taken is not the value.
        if self.line.branch[: len(variable.branch)] != variable.branch:
            return None
        if isinstance(variable.value, list):
            return [one.within("var") for one in variable.value]
        return variable.value.within("var")

    def substitution(self) -> Strand | None:
        outer, waiting = self.line, self.waiting
        self.waiting = []
        self.at += 2
        lines = self.read(")")
        self.at = min(self.at + 1, self.end)
        self.line, self.waiting = outer, waiting
        return _printed(lines)

    def read(self, closing: str) -> list[_Line]:
        """Read commands up to ``closing``."""
        lines: list[_Line] = []
        self.line = _Line(branch=self.branch)
        while self.at < self.end:
            char = self.text[self.at]
            if char == closing:
                break
            if char in " \t\r":
                self.at += 1
            elif self._continued():
                pass
            elif char == "#":
                stop = self.text.find("\n", self.at, self.end)
                self.at = self.end if stop < 0 else stop
            elif self._placeholder():
                pass
            elif _HEREDOC.match(self.text, self.at, self.end):
                self._heredoc_starts()
            elif _REDIRECT.match(self.text, self.at, self.end):
                self._redirected()
            elif char in "\n;&|()":
                self._ended(lines, char)
            else:
                self._word()
        self._ended(lines, "")
        self.commands += [line.command() for line in lines]
        return lines

    def _ended(self, lines: list[_Line], operator: str) -> None:
        """Close the command at its operator and start the next one."""
        operator = self.text[self.at : self.at + 2] if operator else ""
        operator = operator if operator in ("&&", "||", ";;") else operator[:1]
        if (
            self.line.words
            or self.line.heredocs
            or any(one[0] is self.line for one in self.waiting)
        ):
            self.line.visible = self._exported()
            lines.append(self.line)
        elif self.line.env:
            for name, value in self.line.env.items():
                self._set(name, value, exported=False)
        self.at += len(operator)
        if operator == "\n":
            self._read_heredocs()
        if operator == ";;":
            self._turn()
        branch = self.branch
        if operator in ("&&", "||"):
            self.branches += 1
            branch = (*self.branch, self.branches)
        self.line = _Line(branch=branch)

    def _exported(self) -> Mapping[str, Strand]:
        if self.visible is None:
            self.visible = {
                name: one.value
                for name, one in self.variables.items()
                if (one.exported or self.all_exported) and isinstance(one.value, Strand)
            }
        return self.visible

    def _turn(self) -> None:
        """Enter the next branch of the innermost compound command."""
        self.branches += 1
        if self.branch:
            self.branch = (*self.branch[:-1], self.branches)

    def _word(self) -> None:
        if not self.line.started:
            keyword = _KEYWORD.match(self.text, self.at, self.end)
            if keyword is not None:
                self._keyword(keyword[0])
                self.at = keyword.end()
                return
        head = self.line.words[0].text if self.line.words else ""
        if not head or head in (*_DECLARES, "env"):
            assign = _ASSIGN.match(self.text, self.at, self.end)
            if assign is not None:
                self._assign(assign[1], assign[2] == "+=", assign.end(), head)
                return
        start = self.at
        self.line.words += self.word()
        self.line.started = True
        if self.at == start:
            self.at += 1
        if head == "export":
            for word in self.line.words[-1:]:
                if word.text in self.variables:
                    self.variables[word.text].exported = True
                    self.visible = None
        if head == "set" and self.line.words[-1].text in ("-a", "allexport"):
            self.all_exported, self.visible = True, None

    def _keyword(self, word: str) -> None:
        if word in _OPENS:
            self.branches += 1
            self.branch = (*self.branch, self.branches)
        elif word in _TURNS:
            self._turn()
        elif word in _CLOSES:
            self.branch = self.branch[:-1]
        self.line.branch = self.branch

    def _assign(self, name: str, append: bool, behind: int, head: str) -> None:
        self.at = behind
        value: Value
        if self.text.startswith("(", self.at):
            self.at += 1
            value = self._array()
        else:
            fields = self.word(split=False)
            value = fields[0] if fields else self.source.cut(self.at, self.at)
        self._remember(name, value)
        before = self.affordable(name) if append else None
        if isinstance(before, list) and isinstance(value, list):
            value = [*before, *value]
        elif isinstance(before, Strand) and isinstance(value, Strand):
            value = Strand.joined([before, value])
        if head == "env" or (not head and self._continues()):
            if isinstance(value, Strand):
                self.line.env[name] = value
            return
        self._set(name, value, exported=head in ("export", "declare"))

    def _set(self, name: str, value: Value, *, exported: bool) -> None:
        old = self.variables.get(name)
        exported = exported or (old is not None and old.exported)
        if old is not None or len(self.variables) < _MAX_VARIABLES:
            self.variables[name] = _Variable(value, self.line.branch, exported)
            self.visible = None

    def _remember(self, name: str, value: Value) -> None:
        words = tuple(value) if isinstance(value, list) else ()
        one = Strand.joined(words) if isinstance(value, list) else value
        self.assignments.append(Assignment(name, one, words, self._exported(), self.line.env))

    def _continues(self) -> bool:
        """Whether a command follows on the same line, which alone then sees the variable."""
        at = self.at
        while at < self.end and (self.text[at] in " \t\r" or self.text.startswith("\\\n", at)):
            at += 2 if self.text[at] == "\\" else 1
        return at < self.end and self.text[at] not in "\n;&|)#"

    def _array(self) -> list[Strand]:
        items: list[Strand] = []
        while self.at < self.end and self.text[self.at] != ")":
            if self.text[self.at] in " \t\r\n":
                self.at += 1
            elif self.text[self.at] == "#":
                stop = self.text.find("\n", self.at, self.end)
                self.at = self.end if stop < 0 else stop
            else:
                start = self.at
                items += self.word()
                self.at += self.at == start
        self.at = min(self.at + 1, self.end)
        return items

    def _placeholder(self) -> bool:
        """Take ``<MODEL>``, as documentation writes it, for a word and not for redirections."""
        match = _PLACEHOLDER.match(self.text, self.at, self.end)
        if match is None:
            return False
        word = Strand.written(match[0], self.source, *match.span(), hole=match[0])
        self.line.words.append(word)
        self.line.started = True
        self.at = match.end()
        return True

    def _redirected(self) -> None:
        match = _REDIRECT.match(self.text, self.at, self.end)
        assert match is not None
        self.at = match.end()
        while self.at < self.end and self.text[self.at] in " \t":
            self.at += 1
        words = self.word()
        if match[0].endswith("<<<"):
            self.line.heredocs += words

    def _heredoc_starts(self) -> None:
        match = _HEREDOC.match(self.text, self.at, self.end)
        assert match is not None
        literal = bool(match[2] or match[3])
        self.waiting.append((self.line, match[4], bool(match[1]), literal))
        self.at = match.end()

    def _read_heredocs(self) -> None:
        for line, delimiter, indented, literal in self.waiting:
            start = self.at
            stop = self.end
            while self.at < self.end:
                newline = self.text.find("\n", self.at, self.end)
                newline = self.end if newline < 0 else newline
                written = self.text[self.at : newline].rstrip("\r")
                if (written.lstrip("\t") if indented else written) == delimiter:
                    stop = self.at
                    self.at = min(newline + 1, self.end)
                    break
                self.at = min(newline + 1, self.end)
            body = self.source.cut(start, stop) if literal else self.heredoc(start, stop)
            line.heredocs.append(body)
        self.waiting = []


def _printed(lines: list[_Line]) -> Strand | None:
    """What ``cat`` of a here-document, ``echo`` and ``printf '%s'`` print."""
    if len(lines) != 1:
        return None
    line = lines[0]
    words = [word.text for word in line.words]
    if words == ["cat"] and len(line.heredocs) == 1:
        body = line.heredocs[0]
        return body.cut(0, len(body.text.rstrip("\n")))
    if words[:1] == ["echo"] and len(words) == 2:
        return line.words[1]
    if words[:2] in (["printf", "%s"], ["printf", "%s\\n"]) and len(words) == 3:
        return line.words[2]
    return None
