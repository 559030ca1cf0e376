"""What vLLM makes of a value, and what JSON Schema has to accept for that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from kvengine.rules.readings import (
    FloatCall,
    IntCall,
    LenientBool,
    LenientFloat,
    LenientInt,
    Size,
    SwitchText,
    TrueText,
    Truth,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=6)
    | st.sampled_from(["4", "-4", "4.0", "true", "False", "no", "0", "1", "yes", "", " 4 ", "1_0"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)
READINGS = [
    IntCall(),
    FloatCall(),
    Truth(),
    TrueText(),
    LenientInt(),
    LenientFloat(),
    LenientBool(),
]


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.name)
def test_schema_rejects_what_is_refused_or_misread(reading):
    """The schema of a reading and its outcome agree on every JSON value."""
    validator = Draft7Validator(reading.schema())

    @given(JSON)
    def agrees(value):
        verdict = reading.read(value).verdict
        assert validator.is_valid(value) == (verdict not in ("inverted", "raises"))

    agrees()


@given(JSON)
def test_int_call_does_what_int_does(value):
    """Every value that int() takes gives the same number, and no other is taken."""
    outcome = IntCall().read(value)
    try:
        real = int(value)
    except (TypeError, ValueError):
        real = None
    if isinstance(value, str) and not value.isascii():
        return

    assert outcome.value == real


@given(JSON)
def test_truth_does_what_bool_does(value):
    """Truth reports what bool() gives."""
    assert Truth().read(value).value is bool(value)


@given(JSON)
def test_true_text_does_what_the_comparison_does(value):
    """TrueText reports whether the value, as text in lower case, is true."""
    assert TrueText().read(value).value is (str(value).lower() == "true")


@pytest.mark.parametrize(
    ("reading", "value", "verdict", "says"),
    [
        (IntCall(), "4", "coerced", 'is the text "4", read as a number'),
        (IntCall(), 4.0, "coerced", "is 4.0, read as 4"),
        (IntCall(), 4.5, "surprising", "is 4.5, cut to 4"),
        (IntCall(), True, "surprising", "is true, read as 1"),
        (IntCall(), "8GB", "raises", 'is "8GB", which int() refuses'),
        (IntCall(), None, "raises", "is null, which int() refuses"),
        (Truth(), "false", "inverted", 'is the text "false", which bool() reads as true'),
        (Truth(), "true", "coerced", 'is the text "true", read as true'),
        (Truth(), "maybe", "surprising", 'is "maybe", read as true'),
        (TrueText(), "True", "coerced", 'is the text "True", read as true'),
        (TrueText(), 1, "inverted", 'is 1, which is not "true" and reads as false'),
        (LenientInt(), 4.5, "raises", "is 4.5, not a whole number"),
        (LenientBool(), "false", "coerced", 'is the text "false", read as false'),
        (LenientBool(), "maybe", "raises", 'is "maybe", not a boolean'),
        (SwitchText(), "TRUE", "exact", ""),
        (SwitchText(), "on", "raises", 'is "on", neither 1/true nor 0/false/empty'),
    ],
)
def test_each_conversion_is_said_in_words(reading, value, verdict, says):
    """The outcome completes "this option ..."."""
    outcome = reading.read(value)

    assert (outcome.verdict, outcome.says) == (verdict, says)


@pytest.mark.parametrize("reading", [Size(), SwitchText()], ids=lambda reading: reading.name)
@given(text=st.text(max_size=8) | st.sampled_from(["40 GiB", "1.5", "0.3", "1", "", "False"]))
def test_strict_schema_accepts_what_is_read(reading, text):
    """Our own spellings are described by a pattern that refuses what cannot be read."""
    accepted = Draft7Validator(reading.strict_schema()).is_valid(text)

    if reading.read(text).verdict == "exact":
        assert accepted, json.dumps(text)
