"""What a program makes of the value it finds: conversions, as data.

vLLM calls ``int()`` on one option, tests the truth of another and compares a third with a text.
Each :class:`Reading` says what comes out for any JSON value, and which values a JSON Schema has
to accept so that it rejects exactly those that the program would refuse or misread.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from attrs import frozen

from kvengine.errors import show
from kvengine.rules.patterns import (
    FALSE_WORDS,
    FLOAT_TEXT,
    INT_TEXT,
    SIZE_TEXT,
    TRUE_WORDS,
    any_case,
    float_text,
    int_text,
)
from kvengine.units import parse_bytes

__all__ = [
    "AS_IT_IS",
    "NO_BOUNDS",
    "Bounds",
    "FileOrTable",
    "FloatCall",
    "IntCall",
    "LenientBool",
    "LenientFloat",
    "LenientInt",
    "OnlyTrue",
    "Outcome",
    "Raw",
    "Reading",
    "Size",
    "SwitchText",
    "TrueText",
    "Truth",
]

_LONGEST_NUMBER = 400

Verdict = Literal["exact", "coerced", "surprising", "inverted", "raises"]


@frozen
class Outcome:
    """What one value becomes. ``says`` completes "*this option* ..." where it is not exact.

    ``code`` is that of the problem where the value is refused.
    """

    verdict: Verdict
    value: Any = None
    says: str = ""
    code: str = "type"


@frozen
class Bounds:
    """Limits of a number, both ends included; above ``gt`` without it."""

    ge: float | None = None
    le: float | None = None
    gt: float | None = None

    def schema(self) -> dict[str, Any]:
        """The limits in JSON Schema."""
        named = {"minimum": self.ge, "maximum": self.le, "exclusiveMinimum": self.gt}
        return {name: value for name, value in named.items() if value is not None}


NO_BOUNDS = Bounds()


class Reading:
    """How a value is taken. ``name`` is how the reference page says it."""

    name: str = "as it is"

    def read(self, value: Any) -> Outcome | None:
        """The outcome for ``value``, or None where its JSON type must be the declared one."""
        return None

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any] | None:
        """JSON Schema of what is not refused; None where the declared type says it."""
        return None

    def strict_schema(self) -> dict[str, Any] | None:
        """The same for documents that are judged strictly; None as above."""
        return None


class Raw(Reading):
    """Used as it is: a wrong type is a fault."""


AS_IT_IS = Raw()


@frozen
class IntCall(Reading):
    """``int(value)``: texts of digits, fractions (cut off) and booleans are converted.

    With ``or_default`` it is ``int(value or default)``: 0, null and an empty text are not given.
    """

    or_default: bool = False
    name = "int()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``int(value)``."""
        if self.or_default and not value:
            return Outcome("coerced", None, f"is {show(value)}, replaced by the default")
        match value:
            case bool():
                return Outcome("surprising", int(value), f"is {show(value)}, read as {int(value)}")
            case int():
                return Outcome("exact", value)
            case float() if math.isfinite(value):
                cut = int(value)
                if cut == value:
                    return Outcome("coerced", cut, f"is {value}, read as {cut}")
                return Outcome("surprising", cut, f"is {value}, cut to {cut}")
            case str() if re.match(INT_TEXT, value) and len(value) < _LONGEST_NUMBER:
                return Outcome(
                    "coerced", int(value), f"is the text {show(value)}, read as a number"
                )
        return Outcome("raises", None, f"is {show(value)}, which int() refuses")

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Numbers, booleans and texts of digits, in range after the conversion."""
        ge, le = bounds.ge, bounds.le
        schema: dict[str, Any] = {
            "type": ["number", "string", "boolean"],
            "pattern": int_text(ge, le),
        }
        if ge is not None:
            schema |= {"minimum": ge} if ge > 0 else {"exclusiveMinimum": ge - 1}
        if le is not None:
            schema["exclusiveMaximum"] = le + 1
        if ge is not None and ge > 0:
            schema["not"] = {"enum": [False]}
        if self.or_default:
            return {"anyOf": [{"enum": [None, 0, "", False, [], {}]}, schema]}
        return schema


class FloatCall(Reading):
    """``float(value)``: texts of a number and booleans are converted."""

    name = "float()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``float(value)``."""
        match value:
            case bool():
                return Outcome("surprising", float(value), f"is {show(value)}, read as a number")
            case int() | float():
                return Outcome("exact", value)
            case str() if re.match(FLOAT_TEXT, value):
                return Outcome(
                    "coerced", float(value), f"is the text {show(value)}, read as a number"
                )
        return Outcome("raises", None, f"is {show(value)}, which float() refuses")

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Numbers, booleans and texts of a number."""
        schema = {
            "type": ["number", "string", "boolean"],
            "pattern": float_text(bounds.gt),
            **bounds.schema(),
        }
        return {**schema, "not": {"enum": [False]}} if bounds.gt is not None else schema


class Truth(Reading):
    """``bool(value)``, or a bare ``if value``: every text but the empty one is true."""

    name = "bool()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``bool(value)``."""
        match value:
            case bool():
                return Outcome("exact", value)
            case str() if re.match(FALSE_WORDS, value):
                return Outcome(
                    "inverted", True, f"is the text {show(value)}, which bool() reads as true"
                )
            case str() if re.match(TRUE_WORDS, value) or not value:
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

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Anything but a text that says no and is read as yes."""
        return {"not": {"type": "string", "pattern": FALSE_WORDS}}


@frozen
class TrueText(Reading):
    """``str(value).lower() in words``: only true itself, or one of the words, switches it on."""

    name: str = 'equal to "true" as text'
    words: tuple[str, ...] = ("true",)
    strip: bool = False

    def read(self, value: Any) -> Outcome | None:
        """The outcome of the comparison."""
        text = str(value).lower()
        on = (text.strip() if self.strip else text) in self.words
        match value:
            case bool():
                return Outcome("exact", value)
            case str() | int() | float() if on:
                what = f"the text {show(value)}" if isinstance(value, str) else show(value)
                return Outcome("coerced", True, f"is {what}, read as true")
            case str() if re.match(FALSE_WORDS, value) or not value:
                return Outcome("coerced", False, f"is the text {show(value)}, read as false")
            case None | 0:
                return Outcome("coerced", False, f"is {show(value)}, read as false")
            case str() if not re.match(TRUE_WORDS, value):
                return Outcome("surprising", False, f"is the text {show(value)}, read as false")
        return Outcome(
            "inverted", False, f'is {show(value)}, which is not "true" and reads as false'
        )

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Booleans, null, 0 and texts, but none that says yes without being a right word."""
        space = r"\s*" if self.strip else ""
        words = "|".join(map(any_case, self.words))
        numbers = [int(word) for word in self.words if word.isdigit()]
        return {
            "anyOf": [
                {"type": ["boolean", "null"]},
                {"enum": [0, *numbers]},
                {"type": "string", "pattern": f"^{space}({words}){space}$"},
                {"type": "string", "not": {"pattern": TRUE_WORDS}},
            ]
        }


class OnlyTrue(Reading):
    """``value is True``: nothing but the boolean itself switches it on."""

    name = "true itself, nothing else"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of the comparison."""
        match value:
            case bool():
                return Outcome("exact", value)
            case str() if re.match(FALSE_WORDS, value) or not value:
                return Outcome("coerced", False, f"is the text {show(value)}, read as false")
            case None | 0:
                return Outcome("coerced", False, f"is {show(value)}, read as false")
        return Outcome("inverted", False, f"is {show(value)}; nothing but true switches it on")

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Booleans and what plainly says no."""
        no = {"type": "string", "pattern": f"{FALSE_WORDS}|^$"}
        return {"anyOf": [{"type": ["boolean", "null"]}, {"enum": [0]}, no]}


class LenientInt(Reading):
    """Pydantic's lax integer: texts of digits, whole floats and booleans are converted."""

    name = "a lenient integer"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of pydantic's conversion."""
        outcome = IntCall().read(value)
        if isinstance(value, float) and not value.is_integer():
            return Outcome("raises", None, f"is {value}, not a whole number")
        if outcome is not None and outcome.verdict == "raises":
            return Outcome("raises", None, f"is {show(value)}, not a whole number")
        return outcome

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Whole numbers, booleans and texts of digits."""
        kinds = ["number", "string", "boolean"]
        return {"type": kinds, "multipleOf": 1, "pattern": INT_TEXT, **bounds.schema()}


class LenientFloat(FloatCall):
    """Pydantic's lax float: as ``float()``."""

    name = "a lenient number"


class LenientBool(Reading):
    """Pydantic's lax boolean: true/false, 1/0, yes/no, on/off, as text in any case too."""

    name = "a lenient boolean"

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

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Booleans, 0 and 1, and the words."""
        words = ("true", "yes", "on", "t", "y", "false", "no", "off", "f", "n")
        either = map(any_case, words)
        return {
            "anyOf": [
                {"type": "boolean"},
                {"enum": [0, 1]},
                {"type": "string", "pattern": f"^({'|'.join(either)}|0|1)$"},
            ]
        }


class Size(Reading):
    """Bytes as an integer or as a text with a unit: kvengine's own options only."""

    name = "bytes, or a text such as 40 GiB"

    def read(self, value: Any) -> Outcome | None:
        """The size in bytes."""
        if isinstance(value, str):
            try:
                return Outcome("exact", parse_bytes(value))
            except ValueError as error:
                return Outcome("raises", None, f"is no size: {error}")
        return None

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """As :meth:`strict_schema`."""
        return {**self.strict_schema(), **bounds.schema()}

    def strict_schema(self) -> dict[str, Any]:
        """Integers and texts of a size."""
        return {"type": ["integer", "string"], "pattern": SIZE_TEXT}


class FileOrTable(Reading):
    """A path relative to the document, or the content itself as a table."""

    name = "a path, or a table"

    def read(self, value: Any) -> Outcome | None:
        """A path, for whoever opens it; an empty one is none."""
        if isinstance(value, str):
            return Outcome("exact", value) if value else Outcome("raises", None, "is an empty path")
        return None

    def strict_schema(self) -> dict[str, Any]:
        """Texts and objects."""
        return {"type": ["string", "object"], "minLength": 1}


class SwitchText(Reading):
    """A switch in the environment: on for 1/true in any case, off for 0/false/empty."""

    name = "1/true or 0/false/empty, in any case"

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
