"""What a program makes of the value it finds: conversions, as data.

vLLM calls ``int()`` on one option, tests the truth of another and compares a third with a text.
Each :class:`Reading` says what comes out for any JSON value, and which values a JSON Schema has
to accept so that it rejects exactly those that the program would refuse or misread.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from attrs import frozen

from kvengine.errors import show
from kvengine.units import parse_bytes

__all__ = [
    "AS_IT_IS",
    "FileOrTable",
    "FloatCall",
    "IntCall",
    "LenientBool",
    "LenientFloat",
    "LenientInt",
    "Outcome",
    "Raw",
    "Reading",
    "Size",
    "SwitchText",
    "TrueText",
    "Truth",
]

Verdict = Literal["exact", "coerced", "surprising", "inverted", "raises"]

_INT_TEXT = r"^\s*[+-]?[0-9]+(_[0-9]+)*\s*$"
_POSITIVE_TEXT = r"^\s*\+?[0_]*[1-9][0-9]*(_[0-9]+)*\s*$"
_NOT_NEGATIVE_TEXT = r"^\s*(\+?[0-9]+(_[0-9]+)*|-0+)\s*$"
_FLOAT_TEXT = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_FALSE_WORDS = (
    r"^\s*([Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff]|0|[Nn][Oo][Nn][Ee]|[Nn][Uu][Ll][Ll])\s*$"
)
_TRUE_WORDS = r"^\s*([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|1)\s*$"
_SIZE_TEXT = r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtTpP]i?)?([bB]|[bB]ytes?)?\s*$"


@frozen
class Outcome:
    """What one value becomes. ``says`` completes "*this option* ..." where it is not exact."""

    verdict: Verdict
    value: Any = None
    says: str = ""


@frozen
class Reading:
    """How a value is taken. ``name`` is how the reference page says it."""

    name: str = "as it is"

    def read(self, value: Any) -> Outcome | None:
        """The outcome for ``value``, or None where its JSON type must be the declared one."""
        return None

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any] | None:
        """JSON Schema of what is not refused; None where the declared type says it."""
        return None

    def strict_schema(self) -> dict[str, Any] | None:
        """The same for documents that are judged strictly; None as above."""
        return None


@frozen
class Raw(Reading):
    """Used as it is: a wrong type is a fault."""


AS_IT_IS = Raw()


@frozen
class IntCall(Reading):
    """``int(value)``: texts of digits, fractions (cut off) and booleans are converted."""

    name: str = "int()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``int(value)``."""
        match value:
            case bool():
                return Outcome("surprising", int(value), f"is {show(value)}, read as {int(value)}")
            case int():
                return Outcome("exact", value)
            case float():
                cut = int(value)
                if cut == value:
                    return Outcome("coerced", cut, f"is {value}, read as {cut}")
                return Outcome("surprising", cut, f"is {value}, cut to {cut}")
            case str() if re.match(_INT_TEXT, value):
                return Outcome(
                    "coerced", int(value), f"is the text {show(value)}, read as a number"
                )
        return Outcome("raises", None, f"is {show(value)}, which int() refuses")

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Numbers, booleans and texts of digits, in range after the conversion."""
        text = {1: _POSITIVE_TEXT, 0: _NOT_NEGATIVE_TEXT}.get(int(ge) if ge is not None else -1)
        return {
            "type": ["number", "string", "boolean"],
            "pattern": text or _INT_TEXT,
            **({"not": {"enum": [False]}} if ge is not None and ge > 0 else {}),
        }


@frozen
class FloatCall(Reading):
    """``float(value)``: texts of a number and booleans are converted."""

    name: str = "float()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``float(value)``."""
        match value:
            case bool():
                return Outcome("surprising", float(value), f"is {show(value)}, read as a number")
            case int() | float():
                return Outcome("exact", value)
            case str() if re.match(_FLOAT_TEXT, value):
                return Outcome(
                    "coerced", float(value), f"is the text {show(value)}, read as a number"
                )
        return Outcome("raises", None, f"is {show(value)}, which float() refuses")

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Numbers, booleans and texts of a number."""
        return {"type": ["number", "string", "boolean"], "pattern": _FLOAT_TEXT}


@frozen
class Truth(Reading):
    """``bool(value)``, or a bare ``if value``: every text but the empty one is true."""

    name: str = "bool()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``bool(value)``."""
        match value:
            case bool():
                return Outcome("exact", value)
            case str() if re.match(_FALSE_WORDS, value):
                return Outcome(
                    "inverted", True, f"is the text {show(value)}, which bool() reads as true"
                )
            case str() if re.match(_TRUE_WORDS, value) or not value:
                return Outcome(
                    "coerced",
                    bool(value),
                    f"is the text {show(value)}, read as {show(bool(value))}",
                )
            case int() | None:
                return Outcome(
                    "coerced", bool(value), f"is {show(value)}, read as {show(bool(value))}"
                )
        return Outcome("surprising", bool(value), f"is {show(value)}, read as {show(bool(value))}")

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Anything but a text that says no and is read as yes."""
        return {"not": {"type": "string", "pattern": _FALSE_WORDS}}


@frozen
class TrueText(Reading):
    """``str(value).lower() == "true"``: only true itself, or the word, switches it on."""

    name: str = 'equal to "true" as text'

    def read(self, value: Any) -> Outcome | None:
        """The outcome of the comparison."""
        match value:
            case bool():
                return Outcome("exact", value)
            case str() if value.lower() == "true":
                return Outcome("coerced", True, f"is the text {show(value)}, read as true")
            case str() if re.match(_FALSE_WORDS, value) or not value:
                return Outcome("coerced", False, f"is the text {show(value)}, read as false")
            case None | 0:
                return Outcome("coerced", False, f"is {show(value)}, read as false")
            case str() if not re.match(_TRUE_WORDS, value):
                return Outcome("surprising", False, f"is the text {show(value)}, read as false")
        return Outcome(
            "inverted", False, f'is {show(value)}, which is not "true" and reads as false'
        )

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Booleans, null, 0 and texts, but none that says yes without being "true"."""
        return {
            "anyOf": [
                {"type": ["boolean", "null"]},
                {"enum": [0]},
                {"type": "string", "pattern": r"^[Tt][Rr][Uu][Ee]$"},
                {"type": "string", "not": {"pattern": _TRUE_WORDS}},
            ]
        }


@frozen
class LenientInt(Reading):
    """Pydantic's lax integer: texts of digits, whole floats and booleans are converted."""

    name: str = "a lenient integer"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of pydantic's conversion."""
        outcome = IntCall().read(value)
        if isinstance(value, float) and value != int(value):
            return Outcome("raises", None, f"is {value}, not a whole number")
        if outcome is not None and outcome.verdict == "raises":
            return Outcome("raises", None, f"is {show(value)}, not a whole number")
        return outcome

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Whole numbers, booleans and texts of digits."""
        return {"type": ["number", "string", "boolean"], "multipleOf": 1, "pattern": _INT_TEXT}


@frozen
class LenientFloat(FloatCall):
    """Pydantic's lax float: as ``float()``."""

    name: str = "a lenient number"


@frozen
class LenientBool(Reading):
    """Pydantic's lax boolean: true/false, 1/0, yes/no, on/off, as text in any case too."""

    name: str = "a lenient boolean"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of pydantic's conversion."""
        words = {"true": True, "1": True, "yes": True, "on": True, "t": True, "y": True}
        words |= {"false": False, "0": False, "no": False, "off": False, "f": False, "n": False}
        match value:
            case bool():
                return Outcome("exact", value)
            case int() | float() if value in (0, 1):
                return Outcome("coerced", bool(value), f"is {value}, read as {show(bool(value))}")
            case str() if value.lower() in words:
                meant = words[value.lower()]
                return Outcome(
                    "coerced", meant, f"is the text {show(value)}, read as {show(meant)}"
                )
        return Outcome("raises", None, f"is {show(value)}, not a boolean")

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """Booleans, 0 and 1, and the words."""
        words = ("true", "yes", "on", "t", "y", "false", "no", "off", "f", "n")
        either = ["".join(f"[{letter.upper()}{letter}]" for letter in word) for word in words]
        return {
            "anyOf": [
                {"type": "boolean"},
                {"enum": [0, 1]},
                {"type": "string", "pattern": f"^({'|'.join(either)}|0|1)$"},
            ]
        }


@frozen
class Size(Reading):
    """Bytes as an integer or as a text with a unit: kvengine's own options only."""

    name: str = "bytes, or a text such as 40 GiB"

    def read(self, value: Any) -> Outcome | None:
        """The size in bytes."""
        if isinstance(value, str):
            try:
                return Outcome("exact", parse_bytes(value))
            except ValueError as error:
                return Outcome("raises", None, f"is no size: {error}")
        return None

    def schema(self, ge: float | None, le: float | None) -> dict[str, Any]:
        """As :meth:`strict_schema`."""
        return self.strict_schema()

    def strict_schema(self) -> dict[str, Any]:
        """Integers and texts of a size."""
        return {"type": ["integer", "string"], "pattern": _SIZE_TEXT}


@frozen
class FileOrTable(Reading):
    """A path relative to the document, or the content itself as a table."""

    name: str = "a path, or a table"

    def read(self, value: Any) -> Outcome | None:
        """A path, for whoever opens it; an empty one is none."""
        if isinstance(value, str):
            return Outcome("exact", value) if value else Outcome("raises", None, "is an empty path")
        return None

    def strict_schema(self) -> dict[str, Any]:
        """Texts and objects."""
        return {"type": ["string", "object"], "minLength": 1}


@frozen
class SwitchText(Reading):
    """A switch in the environment: on for 1/true in any case, off for 0/false/empty."""

    name: str = "1/true or 0/false/empty, in any case"

    def read(self, value: Any) -> Outcome | None:
        """Whether the switch is on."""
        match value:
            case bool():
                return Outcome("exact", value)
            case str() if value.lower() in ("1", "true"):
                return Outcome("exact", True)
            case str() if value.lower() in ("0", "false", ""):
                return Outcome("exact", False)
        return Outcome("raises", None, f"is {show(value)}, neither 1/true nor 0/false/empty")

    def strict_schema(self) -> dict[str, Any]:
        """The accepted words."""
        words = r"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|1|0)?$"
        return {"type": ["string", "boolean"], "pattern": words}
