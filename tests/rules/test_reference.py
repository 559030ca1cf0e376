"""Declarations -> Markdown, compared whole."""

from __future__ import annotations

from attrs import frozen

from kvengine.rules.options import option
from kvengine.rules.readings import IntCall
from kvengine.rules.reference import anchor, table_section
from kvengine.rules.relations import AtMostOne, rules
from kvengine.rules.releases import Releases, release


@rules(AtMostOne(("blocks", "tokens"), because="both size a chunk", vllm=Releases(since="0.26")))
@frozen(kw_only=True)
class Store:
    """Where chunks go."""

    blocks: int | None = option(
        "Blocks per chunk.",
        unit="blocks",
        ge=1,
        default=None,
        default_text="1",
        reading=IntCall(),
        vllm=Releases(since="0.26"),
        instead="tokens",
        traps=("before 0.26 it is ignored",),
    )
    tokens: int = option("Tokens per chunk.", unit="tokens")


SECTION = """\
## Store

Where chunks go.

- **`blocks`** (whole number, blocks, at least 1; default: 1; read as: int(); vLLM: since 0.26). \
Blocks per chunk.
  - Before: tokens.
  - Beware: before 0.26 it is ignored.
- **`tokens`** (whole number, tokens; required). Tokens per chunk.

Rules:

- At most one of blocks, tokens: both size a chunk. (vLLM: since 0.26)
"""


def test_a_section_says_all_that_the_declaration_says():
    """Type, unit, bounds, default, reading, releases, successor, traps and rules."""
    assert "\n".join(table_section("Store", Store)) == SECTION


def test_a_section_for_one_release_leaves_out_what_it_does_not_read():
    """0.25 has no blocks."""
    text = "\n".join(table_section("Store", Store, release=release("0.25")))

    assert "**`blocks`**" not in text
    assert "**`tokens`**" in text


def test_anchors_are_those_of_github():
    """Lower case, dashes for spaces, nothing else."""
    assert anchor("NixlConnector, NixlPullConnector") == "nixlconnector-nixlpullconnector"
