"""The tiers behind host memory, opened as ``secondary_tiers`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvengine.runtime.tiers.base import Tier
from kvengine.runtime.tiers.identity import Identity

__all__ = ["open_tiers"]


def open_tiers(wanted: Sequence[Mapping[str, Any]], identity: Identity) -> list[Tier]:
    """Open every tier in order; all are closed again when one cannot be opened (TierError)."""
    from kvengine.runtime.tiers.open import open_tier

    opened: list[Tier] = []
    try:
        for options in wanted:
            opened += [open_tier(options, identity)]
    except BaseException:
        for tier in opened:
            tier.close()
        raise
    return opened
