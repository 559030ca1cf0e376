"""The ``example`` tier: keeps nothing but the names of chunks."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.tiers.base import ThrottledTier
from kvengine.rules.options import option, refuses_unknown

__all__ = ["ExampleTier"]


@refuses_unknown
@frozen(kw_only=True, slots=False)
class ExampleTier(ThrottledTier):
    """Shows how a tier works; stores nothing."""

    custom_param: int = option("A number that is logged.", default=0, examples=(1,))
