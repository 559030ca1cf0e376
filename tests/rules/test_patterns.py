"""Regular expressions for numbers in texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.rules.patterns import any_case, float_text, int_text


@pytest.mark.parametrize(("ge", "le"), [(0, 65535), (1, 65535), (0, 9), (1, 100), (0, 1)])
@given(number=st.integers(-10, 70000))
def test_a_bounded_number_matches_when_it_is_inside(ge, le, number):
    """Both ends included."""
    assert bool(re.search(int_text(ge, le), str(number))) == (ge <= number <= le)


@pytest.mark.parametrize("ge", [0, 1])
@given(number=st.integers(-(10**12), 10**12))
def test_a_number_without_a_greatest_matches_above_its_least(ge, number):
    """As long as it likes."""
    assert bool(re.search(int_text(ge, None), str(number))) == (number >= ge)


@pytest.mark.parametrize(
    ("text", "number", "positive"),
    [
        ("1", True, True),
        ("0.5", True, True),
        (".5e3", True, True),
        ("0", True, False),
        ("0.0", True, False),
        ("-1", True, False),
        ("1e", False, False),
        ("", False, False),
        ("8GB", False, False),
    ],
)
def test_a_fraction_matches_as_float_reads_it(text, number, positive):
    """Above zero where that is asked."""
    assert bool(re.search(float_text(None), text)) is number
    assert bool(re.search(float_text(0), text)) is positive


def test_a_word_in_any_case_matches_every_mixture():
    """Letter by letter; digits stay."""
    assert any_case("a1") == "[Aa]1"
    assert re.fullmatch(any_case("rdma"), "RdMa")
