"""From ``secondary_tiers`` of a transfer config to tiers that are open, each under guard."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import NOTHING, fields

from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.disk.options import DiskOptions
from kvengine.runtime.tiers.health import Guarded
from kvengine.runtime.tiers.identity import Identity
from kvengine.runtime.tiers.valkey.options import ValkeyOptions
from kvengine.units import parse_bytes

__all__ = ["TIER_TYPES", "open_tier", "open_tiers", "options_of"]

TIER_TYPES = ("fs", "valkey")
_FOR_VLLM = ("type", "enable_kv_events", "locality", "backpressure")
"""Keys that vLLM knows for every tier and that mean nothing to a tier of ours."""


def open_tiers(configs: Sequence[Mapping[str, Any]], identity: Identity) -> list[Tier]:
    """The tiers in the order of the config, nearest first; a second one of a type is ``fs-2``.

    Raises TierError, with no tier left open, when one is configured wrongly or cannot be used.
    """
    tiers: list[Tier] = []
    try:
        for index, config in enumerate(configs):
            name = str(config.get("type"))
            count = sum(other.get("type") == name for other in configs[: index + 1])
            tiers.append(open_tier(config, identity, name=f"{name}-{count}" if count > 1 else name))
    except BaseException:
        for tier in tiers:
            tier.close()
        raise
    return tiers


def open_tier(config: Mapping[str, Any], identity: Identity, *, name: str | None = None) -> Tier:
    """One tier, guarded; sizes may be written ``"40 GiB"``. Raises TierError."""
    options = options_of(config)
    name = name or str(config["type"])
    if isinstance(options, DiskOptions):
        from kvengine.runtime.tiers.disk.tier import DiskTier

        return Guarded(DiskTier(options, identity, name=name))
    from kvengine.runtime.tiers.valkey.tier import ValkeyTier

    return Guarded(ValkeyTier(options, identity, name=name))


def options_of(config: Mapping[str, Any]) -> Any:
    """The options of one tier, of the class that its type has. Raises TierError."""
    kind = config.get("type")
    if kind == "fs":
        return _options(DiskOptions, config)
    if kind == "valkey":
        try:
            import redis  # noqa: F401
        except ImportError as error:
            raise TierError("a valkey tier needs: pip install 'kvengine[valkey]'") from error
        return _options(ValkeyOptions, config)
    raise TierError(f"a tier's type must be one of {', '.join(TIER_TYPES)}, not {kind!r}")


def _options(cls: type[Any], config: Mapping[str, Any]) -> Any:
    known = [field.name for field in fields(cls)]
    given = {key: value for key, value in config.items() if key not in _FOR_VLLM}
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TierError(f"a tier of type {config['type']!r} has no key {key!r}{hint}")
    for field in fields(cls):
        if field.default is NOTHING and field.name not in given:
            raise TierError(f"a tier of type {config['type']!r} needs the key {field.name!r}")
    try:
        for key, value in given.items():
            if key.endswith("_bytes") and isinstance(value, str):
                given[key] = parse_bytes(value)
        return cls(**given)
    except (TypeError, ValueError) as error:
        reason = error.args[0]  # attrs appends objects to what it says
        raise TierError(f"a tier of type {config['type']!r}: {reason}") from error
