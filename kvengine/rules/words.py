"""Readings of text: ``str()`` of anything, and words in any case."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from kvengine.errors import show
from kvengine.rules.patterns import any_case
from kvengine.rules.readings import NO_BOUNDS, Bounds, Outcome, Reading

__all__ = ["TextCall", "Word"]


class TextCall(Reading):
    """``str(value)``: numbers become text, null becomes the word None."""

    name = "str()"

    def read(self, value: Any) -> Outcome | None:
        """The outcome of ``str(value)``."""
        match value:
            case str():
                return Outcome("exact", value)
            case int() | float() if not isinstance(value, bool):
                return Outcome("coerced", str(value), f"is {value}, read as text")
        return Outcome("surprising", str(value), f"is {show(value)}, read as the text {value}")

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """Anything."""
        return {}


@frozen
class Word(Reading):
    """One of a few words, in any case; with ``or_none`` an empty or false value is none."""

    words: tuple[str, ...] = ()
    or_none: bool = False
    name = "one of a few words, in any case"

    def read(self, value: Any) -> Outcome | None:
        """The word that is meant, as we write it."""
        if self.or_none and not value:
            return Outcome("coerced", None, f"is {show(value)}, read as not given")
        meant = next((word for word in self.words if word.lower() == str(value).lower()), None)
        if meant is None:
            choices = ", ".join(map(show, self.words))
            return Outcome("raises", None, f"must be one of {choices}, not {show(value)}", "choice")
        if value == meant:
            return Outcome("exact", meant)
        return Outcome("coerced", meant, f"is {show(value)}, read as {show(meant)}")

    def schema(self, bounds: Bounds = NO_BOUNDS) -> dict[str, Any]:
        """The words, in any case."""
        text = {"type": "string", "pattern": f"^({'|'.join(map(any_case, self.words))})$"}
        nothing: dict[str, Any] = {"enum": [None, "", False, 0, [], {}]}
        return {"anyOf": [text, nothing]} if self.or_none else text

    def strict_schema(self) -> dict[str, Any]:
        """As :meth:`schema`, without the empty values."""
        return {"type": "string", "pattern": f"^({'|'.join(map(any_case, self.words))})$"}
