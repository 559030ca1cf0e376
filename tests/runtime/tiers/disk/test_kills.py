"""kill -9 at any moment: no wrong byte, nothing stored is lost, no space leaks (R14, R17)."""

from __future__ import annotations

import pytest

from tests.runtime.tiers.kit import killed


@pytest.mark.parametrize(
    ("kills", "seed", "max_mib", "writers"),
    [
        pytest.param(90, 1, 64, 1, id="one writer, nothing evicted"),
        pytest.param(60, 2, 6, 1, id="one writer, always full"),
        pytest.param(60, 3, 64, 3, id="three writers at a time"),
    ],
)
def test_kills(tmp_path, kills, seed, max_mib, writers):
    """210 kills in all, while opening, checking, writing, sealing, evicting and adopting."""
    facts = killed(tmp_path, kills, seed, max_mib, writers)

    assert facts["checked"] >= kills / 3
    assert facts["stored"] > 100
    assert facts["wrong"] == 0
    assert facts["over_limit"] == 0
    assert facts["leaked_bytes"] == 0
    assert facts["lanes"] == 1
    if max_mib == 64:
        assert facts["lost_at_the_end"] == 0
        assert writers > 1 or facts["lost"] == 0  # a live peer may be taking chunks over just now
        assert facts["readable_at_the_end"] == 240
