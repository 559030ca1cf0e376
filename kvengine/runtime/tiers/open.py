"""From ``secondary_tiers`` of a transfer config to tiers that are open, each under guard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isfinite
from typing import Any, TypeAlias, cast

from attrs import asdict

from kvengine.config.tiers import OWN_TIERS, OwnTier
from kvengine.config.tiers.own import DiskOptions, ValkeyOptions
from kvengine.errors import Problem, dotted, show, stopping
from kvengine.rules.check import check
from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.health import Guarded
from kvengine.runtime.tiers.identity import Identity
from kvengine.units import parse_bytes

__all__ = ["TierConfig", "open_tier", "open_tiers", "options_of"]

TierConfig: TypeAlias = Mapping[str, Any] | OwnTier
"""A table as in ``secondary_tiers``, or what a loaded config has there."""


def open_tiers(configs: Sequence[TierConfig], identity: Identity) -> list[Tier]:
    """The tiers in the order of the config, nearest first; a second one of a type is ``fs-2``.

    Raises TierError, with no tier left open, when one is configured wrongly or cannot be used.
    """
    tiers: list[Tier] = []
    seen: Counter[str] = Counter()
    try:
        for options in [options_of(config) for config in configs]:
            seen[options.type] += 1
            count = seen[options.type]
            name = f"{options.type}-{count}" if count > 1 else options.type
            tiers.append(open_tier(options, identity, name=name))
    except BaseException:
        for tier in tiers:
            tier.close()
        raise
    return tiers


def open_tier(
    options: DiskOptions | ValkeyOptions, identity: Identity, *, name: str | None = None
) -> Tier:
    """One tier, guarded, with options that :func:`options_of` gave. Raises TierError."""
    if isinstance(options, DiskOptions):
        from kvengine.runtime.tiers.disk.tier import DiskTier

        try:
            return Guarded(DiskTier(options, identity, name=name or options.type))
        except ValueError as error:  # a path that no system takes
            raise TierError(f"{show(options.root_dir)} cannot be used: {error}") from error
    if find_spec("redis") is None:
        raise TierError("a valkey tier needs: pip install 'kvengine[valkey]'")
    from kvengine.runtime.tiers.valkey.tier import ValkeyTier

    return Guarded(ValkeyTier(options, identity, name=name or options.type))


def options_of(config: TierConfig) -> DiskOptions | ValkeyOptions:
    """The options of one tier, judged as in a document. Raises TierError for what is wrong.

    Sizes may be written ``"40 GiB"``.
    """
    if isinstance(config, OwnTier):
        config = asdict(config, recurse=False)
    if not isinstance(config, Mapping):
        raise TierError(f"a tier is a table of options, not {show(config)}")
    kind = config.get("type")
    model = OWN_TIERS.get(str(kind))
    given = {
        str(key): [*value] if isinstance(value, tuple) else value for key, value in config.items()
    }
    try:
        for key, value in given.items():
            if key.endswith("_bytes") and isinstance(value, str):
                given[key] = parse_bytes(value)
    except ValueError as error:
        raise TierError(f"a tier of type {kind!r}: {error}") from error
    endless = [
        key for key, value in given.items() if isinstance(value, float) and not isfinite(value)
    ]
    if endless:
        raise TierError(f"a tier of type {kind!r}: {endless[0]} must be finite")
    wrong = stopping(check(OwnTier, given, mode="release", release=None))
    if wrong or model is None:
        raise TierError(f"a tier of type {kind!r}: {'; '.join(map(_told, wrong))}")
    return cast("DiskOptions | ValkeyOptions", model(**given))


def _told(problem: Problem) -> str:
    """One problem in one line."""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{dotted(problem.path)} {problem.message}{hint}"
