"""docs/reference is made from the declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvengine.config.connectors import CONNECTORS
from kvengine.config.reference import PAGES, page
from kvengine.config.tiers import TIERS

FOLDER = Path(__file__).parent.parent.parent / "docs/reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_not_stale(name):
    """After a change of a declaration: scripts/write_reference.py."""
    assert (FOLDER / f"{name}.md").read_text("utf-8") == page(name)


def test_every_connector_and_tier_of_a_known_release_has_a_section():
    """Under the name that the newest release gives it."""
    text = page("connectors") + page("tiers")

    for registry in (CONNECTORS, TIERS):
        for name in registry:
            if registry.today(name) == name and registry.facts(name).vllm.known:
                assert any(
                    name in line.replace(",", "").split()
                    for line in text.split("\n")
                    if "##" in line
                ), name
