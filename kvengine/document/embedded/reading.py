"""The text of a transfer config, read as vLLM reads the value of its flag."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from attrs import Factory, define

from kvengine.document.depth import check_brackets, check_values
from kvengine.document.embedded.arguments import CONFIG_FLAG, Flag
from kvengine.document.embedded.strand import Hole, Strand
from kvengine.document.json import built, scan
from kvengine.document.text import Fault
from kvengine.document.tree import Entry, Node
from kvengine.errors import Path, show

__all__ = ["QUOTES_LOST", "Reading", "read_dotted", "read_object"]

QUOTES_LOST = "has lost its double quotes to the shell"
"""The message about a text that went through a shell without quotes."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_SUFFIXED = re.compile(r"(?<![\w.\"+-])(-?[0-9]+)(\.[0-9]+)?([kmgtKMGT])(?![\w.])")
_MISSING = re.compile(
    r"<[A-Za-z_][^<>\"{}\n]{0,80}>|\{\{[^{}]{0,200}\}\}|(?<![\w.])\.\.\.(?![\w.])"
)
_GAP = re.compile(r"(?:,\s*)?(?<![\w.])(\.\.\.)(?![\w.])(?:\s*,)?")
_INSIDE_TEXT = re.compile(r"<[A-Za-z_][\w ./-]{0,80}>|\{\{[^{}]{0,200}\}\}")
_BARE_KEY = re.compile(r"[{,]\s*[A-Za-z_][\w.-]*\s*:")
_ESCAPED_QUOTE = re.compile(r'[{\[]\s*\\+"')
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


@define
class Reading:
    """What a config's text says.

    ``tree`` counts characters of ``strand``, which is the text after suffixed numbers were
    written out and unknown parts were put in quotes; ``faults`` and the holes of ``unresolved``
    (values that depend on something not known here) count characters of the file. ``data`` is
    None where there is no config, or none that can be read. ``is_json`` says that the strand is
    the config's JSON; ``yaml`` that it is a YAML text: the number of the document in it, and the
    config's path in that.
    """

    strand: Strand
    data: Any = None
    tree: Node | None = None
    faults: list[Fault] = Factory(list)
    unresolved: list[tuple[Path, Hole]] = Factory(list)
    yaml: tuple[int, Path] | None = None
    is_json: bool = False

    def fault(self, strand: Strand, fault: Fault) -> None:
        """Remember a fault of ``strand`` at its place in the file."""
        start, end = fault.start, fault.end
        first, last = strand.range(start, start + 1 if end is None else end)
        self.faults.append(
            Fault(fault.code, fault.message, first, last, hint=fault.hint, path=fault.path)
        )

    def hole(self, strand: Strand, path: Path, hole: Hole) -> None:
        """Remember that the value at ``path`` is not known."""
        first, last = strand.range(hole.start, hole.end)
        self.unresolved.append((path, Hole(first, last, hole.name)))


def read_object(source: Strand) -> Reading:
    """Read the JSON text of a flag, an environment variable or a YAML value."""
    strand = source.stripped()
    reading = Reading(strand, is_json=True)
    if strand.text in ("", "None"):
        what = "is the word None" if strand.text else "is empty"
        message = f"{what}, which vLLM takes for no KV transfer at all, without a message"
        reading.fault(strand if strand.text else source, Fault("missing", message, 0, 4))
        return reading
    if strand.holes and (strand.holes[0].start, strand.holes[0].end) == (0, len(strand)):
        reading.hole(strand, (), strand.holes[0])
        return reading
    reading.strand = _filled(_without_gaps(_mended(strand, reading), reading))
    _parse(reading)
    return reading


def _mended(strand: Strand, reading: Reading) -> Strand:
    """Take away quotes and backslashes that should not have reached vLLM, and say so."""
    text = strand.text
    if text[0] in "'\"" and text[1:2] in ("{", "[") and text[-1] == text[0]:
        message = f"reaches vLLM with the quotes {text[0]} around it"
        hint = "quotes that come out of a variable are part of the value; quote where it is used"
        reading.fault(strand, Fault("syntax", message, 0, 1, hint=hint))
        strand = strand.cut(1, len(text) - 1)
    if not _ESCAPED_QUOTE.match(strand.text):
        return strand
    message = "reaches vLLM with backslashes before its quotes"
    hint = "inside single quotes nothing is escaped: take the backslashes out"
    reading.fault(strand, Fault("syntax", message, strand.text.index("\\"), hint=hint))
    kept = [
        strand.cut(*match.span())
        for match in re.finditer(r"[^\\]+|\\+", strand.text)
        if match[0][0] != "\\" or not strand.text.startswith('"', match.end())
    ]
    return Strand.joined(kept)


def _without_gaps(strand: Strand, reading: Reading) -> Strand:
    """Leave out ``...`` between entries, and say so."""
    outside = _outside(strand)
    parts: list[Strand] = []
    done = 0
    for match in _GAP.finditer(outside):
        before = outside[max(match.start() - 200, 0) : match.start()].rstrip()[-1:]
        behind = outside[match.end() : match.end() + 200].lstrip()[:1]
        if before == ":":
            continue
        dots = match.start(1)
        message = "still has a gap"
        reading.fault(strand, Fault("placeholder", message, dots, dots + 3, hint="fill it in"))
        parts.append(strand.cut(done, match.start()))
        if before not in ("{", "[", "") and behind not in ("}", "]", "") and "," in match[0]:
            comma = match.start() + match[0].index(",")
            parts.append(strand.cut(comma, comma + 1))
        done = match.end()
    if parts:
        reading.hole(strand, (), Hole(0, len(strand), "..."))
    return Strand.joined([*parts, strand.cut(done)]) if parts else strand


def _outside(strand: Strand) -> str:
    """The text with nothing but quotes in the place of its strings."""
    return _STRING.sub(lambda match: '"' * len(match[0]), strand.blanked())


def _filled(strand: Strand) -> Strand:
    """Write out ``8G``, and put in quotes what is not known and stands outside of strings."""
    parts: list[Strand] = []
    done = 0
    for start, end, text, hole in _replacements(strand):
        if start < done:
            continue
        parts += [strand.cut(done, start), Strand.written(text, strand, start, end, hole=hole)]
        done = end
    return Strand.joined([*parts, strand.cut(done)]) if parts else strand


def _replacements(strand: Strand) -> list[tuple[int, int, str, str]]:
    """Ranges of the text, what to put there, and the name of what is unknown."""
    outside = _outside(strand)
    found: list[tuple[int, int, str, str]] = []
    for hole in strand.holes:
        quoted = _quoted(strand.text[hole.start : hole.end])
        inside = outside[hole.start] != "$"
        found.append((hole.start, hole.end, quoted[1:-1] if inside else quoted, hole.name))
    for match in _MISSING.finditer(outside):
        name = strand.text[match.start() : match.end()]
        found.append((*match.span(), _quoted(name), name))
    for match in _SUFFIXED.finditer(outside):
        number = _expanded(match)
        if number is not None:
            found.append((*match.span(), number, ""))
    return sorted(found)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _expanded(match: re.Match[str]) -> str | None:
    """``8G`` as a whole number: small letters count in 1000, large ones in 1024."""
    whole, fraction, suffix = match[1], match[2] or "", match[3]
    if len(whole) > 30 or len(fraction) > 30:
        return None
    if suffix.isupper():
        return None if fraction else str(int(whole) * 1024 ** _POWERS[suffix.lower()])
    digits = fraction[1:]
    sign = -1 if whole.startswith("-") else 1
    scaled = int(whole.lstrip("-") + digits) * 1000 ** _POWERS[suffix]
    return str(sign * (scaled // 10 ** len(digits)))


def _parse(reading: Reading) -> None:
    strand = reading.strand
    tolerated: list[Fault] = []
    try:
        check_brackets(strand.text, _BRACKET)
        tree = scan(strand.text, tolerated)
        data = built(strand.text, tree)
        bad = check_values(data)
        if bad is not None:
            raise Fault("syntax", "is no number, or no text, that can be held", tree.start)
        if not isinstance(data, dict):
            message = f"is {show(data)}, not an object"
            raise Fault("type", message, tree.start, tree.end)
    except Fault as fault:
        reason = _reason(strand, fault)
        for one in [reason] if reason is not fault else [*tolerated, fault]:
            reading.fault(strand, one)
        return
    for one in tolerated:
        reading.fault(strand, one)
    reading.data, reading.tree = data, tree
    for path, hole in _unresolved(strand, tree, ()):
        reading.hole(strand, path, hole)


def _reason(strand: Strand, fault: Fault) -> Fault:
    """The reason behind a fault: a shell that took the quotes, an unknown part; or the fault."""
    if '"' not in strand.blanked() and _BARE_KEY.search(strand.text):
        hint = "put single quotes around the JSON, or a backslash before each double quote"
        return Fault("syntax", QUOTES_LOST, 0, len(strand), hint=hint)
    outside = [hole for hole in strand.holes if strand.text[hole.start : hole.start + 1] == '"']
    if outside:
        message = f"cannot be read without knowing {outside[0].name}"
        return Fault("placeholder", message, outside[0].start, outside[0].end)
    return fault


def _unresolved(strand: Strand, node: Node, path: Path) -> Iterator[tuple[Path, Hole]]:
    """Values and keys that hold something unknown."""
    for entry in node.entries:
        below = (*path, entry.key)
        start, end = entry.start, entry.end
        if entry.node.kind == "scalar":
            end = entry.node.end
        else:
            yield from _unresolved(strand, entry.node, below)
            if isinstance(entry.key, int):
                continue
        hole = strand.first_hole(start, end)
        match = _INSIDE_TEXT.search(strand.text, start, end)
        if hole is not None:
            yield below, hole
        elif match is not None:
            yield below, Hole(*match.span(), match[0])


def read_dotted(flags: list[Flag]) -> Reading:
    """The config that dotted flags make: each dot nests, a trailing + adds to a list."""
    parts: list[Strand] = []
    spans: list[tuple[int, int, int]] = []
    at = 0
    for flag in flags:
        word_end = at + len(flag.word)
        end = word_end + (len(flag.value) if flag.value is not None else 0)
        parts += [flag.word, *([] if flag.value is None else [flag.value])]
        spans.append((at, word_end, end))
        at = end
    reading = Reading(Strand.joined(parts), {}, Node("map", 0, at, "flow"))
    for flag, span in zip(flags, spans, strict=True):
        if flag.value is None:
            reading.fault(
                flag.word, Fault("syntax", f"{flag.name} has no value", 0, len(flag.word))
            )
        else:
            names = flag.name.removeprefix(CONFIG_FLAG + ".").split(".")
            _set(reading, names, flag.value, span)
    return reading


def _set(reading: Reading, names: list[str], value: Strand, span: tuple[int, int, int]) -> None:
    start, word_end, end = span
    table, node = reading.data, reading.tree
    assert node is not None
    *outer, last = names
    key = last.removesuffix("+")
    for name in outer[:100]:
        entry = node.entry(name)
        if entry is None or not isinstance(table.get(name), dict):
            entry = Entry(name, start, word_end, Node("map", start, end, "flow"))
            node.add(entry)
            table[name] = {}
        table, node = table[name], entry.node
    made: Any = _value(value.text)
    if last.endswith("+"):
        before = table.get(key)
        made = [*(before if isinstance(before, list) else []), *value.text.split(",")]
    table[key] = made
    node.add(Entry(key, start, word_end, _spread(made, word_end, end)))
    for hole in value.holes[:1]:
        reading.hole(value, (*outer, key), hole)


def _spread(value: Any, start: int, end: int) -> Node:
    """A tree in which everything stands at the same place."""
    if not isinstance(value, (dict, list)):
        return Node("scalar", start, end, "")
    node = Node("map" if isinstance(value, dict) else "list", start, end, "flow")
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        node.add(Entry(key, start, end, _spread(item, start, end)))
    return node


def _value(text: str) -> Any:
    """The value of a dotted flag: JSON, or a number with a suffix, or else the text itself."""
    try:
        check_brackets(text, _BRACKET)
        value = json.loads(text)
        return text if check_values(value) is not None else value
    except (ValueError, Fault):
        match = _SUFFIXED.fullmatch(text)
        number = _expanded(match) if match else None
        return text if number is None else int(number)
