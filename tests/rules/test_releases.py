"""Releases of vLLM and ranges of them."""

from __future__ import annotations

import pytest

from kvengine.rules.releases import KNOWN, NEWEST, Release, Releases, release


@pytest.mark.parametrize(
    "text", ["0.28", "0.28.1", "v0.28.0", "0.28.1rc2", "0.28.0.post1", " 0.28 "]
)
def test_a_release_is_its_minor(text):
    """Patch releases, candidates and builds count as the minor they belong to."""
    assert release(text) == Release(0, 28)


@pytest.mark.parametrize("text", ["", "latest", "28", "0.x", "0.28-foo bar", "nightly"])
def test_other_texts_are_no_release(text):
    """The error names a release that would do."""
    with pytest.raises(ValueError, match=f"is not a vLLM release such as {NEWEST}"):
        release(text)


def test_a_range_includes_its_start_and_not_its_end():
    """since is in, until is out."""
    span = Releases(since="0.24", until="0.29")

    inside = [str(known) for known in KNOWN if known in span]

    assert inside == ["0.24", "0.25", "0.26", "0.27", "0.28"]
    assert str(span) == "0.24 up to, not including, 0.29"
    assert [str(Releases(since="0.26")), str(Releases(until="0.32"))] == [
        "since 0.26",
        "before 0.32",
    ]


def test_releases_are_ordered_as_numbers():
    """0.9 comes before 0.21."""
    assert release("0.9") < release("0.21") <= KNOWN[0]
