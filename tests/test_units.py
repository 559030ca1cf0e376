"""Whole-number arithmetic and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.units import align_up, ceil_div, format_bytes, parse_bytes


@given(st.integers(0, 10**18), st.integers(1, 10**9))
def test_rounding_up_is_the_least_that_covers(value, unit):
    """ceil_div and align_up never fall short and never waste a whole unit."""
    assert (ceil_div(value, unit) - 1) * unit < value <= ceil_div(value, unit) * unit
    assert align_up(value, unit) == ceil_div(value, unit) * unit


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("40 GiB", 40 << 30),
        ("1.5GB", 1_500_000_000),
        ("0.5 kib", 512),
        (" 8 g ", 8 * 10**9),
        ("64MiB", 64 << 20),
        ("7 bytes", 7),
    ],
)
def test_a_size_is_read_as_people_write_it(text, count):
    """Decimal units count thousands, binary ones 1024."""
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "8 XB", "0.3 B", "1 2", "٤"])
def test_what_is_no_size_is_refused(text):
    """Neither a guess nor a rounding."""
    with pytest.raises(ValueError, match="is n"):
        parse_bytes(text)


@given(st.integers(0, 2**60))
def test_a_size_for_people_has_at_most_three_digits_behind_the_point(count):
    """The text is short, and right to its last digit."""
    number, unit = format_bytes(count).split()

    assert len(number.partition(".")[2]) <= 3
    assert float(number) * parse_bytes(f"1 {unit}") == pytest.approx(count, rel=1e-3)
