"""The tiers behind host memory, opened as ``secondary_tiers`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.identity import Identity

__all__ = ["open_tiers"]


def open_tiers(wanted: Sequence[Mapping[str, Any]], identity: Identity) -> list[Tier]:
    """Open every tier in order; all are closed again when one cannot be opened (TierError).

    Tiers of one type are told apart in metrics by their number: ``fs``, ``fs-2``.
    """
    opened: list[Tier] = []
    try:
        for options in wanted:
            kind = str(options.get("type"))
            count = 1 + sum(tier.name.split("-")[0] == kind for tier in opened)
            name = kind if count == 1 else f"{kind}-{count}"
            opened += [_open(kind, options, identity, name)]
    except BaseException:
        for tier in opened:
            tier.close()
        raise
    return opened


def _open(kind: str, options: Mapping[str, Any], identity: Identity, name: str) -> Tier:
    mine = {key: value for key, value in options.items() if key != "type" and value is not None}
    try:
        if kind == "fs":
            from kvengine.runtime.tiers.disk.options import DiskOptions
            from kvengine.runtime.tiers.disk.tier import DiskTier

            return DiskTier(DiskOptions(**mine), identity, name=name)
        if kind == "valkey":
            from kvengine.runtime.tiers.valkey.options import ValkeyOptions
            from kvengine.runtime.tiers.valkey.tier import ValkeyTier

            return ValkeyTier(ValkeyOptions(**mine), identity, name=name)
    except (TypeError, ValueError) as error:
        raise TierError(f"secondary_tiers: tier {name}: {error}") from error
    raise TierError(f"secondary_tiers: kvengine has no tier of type {kind!r}")
