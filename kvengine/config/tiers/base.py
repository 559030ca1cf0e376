"""Keys that every secondary tier of vLLM takes."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.tiers.backpressure import Backpressure
from kvengine.rules.conditions import Given
from kvengine.rules.options import option
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import Releases

__all__ = ["SINCE_BACKPRESSURE", "Entry", "KnownTier", "ThrottledTier"]

SINCE_BACKPRESSURE = Releases(since="0.31")


@frozen(kw_only=True, slots=False)
class Entry:
    """One element of ``secondary_tiers``."""

    type: str = option(
        "Which tier: fs, obj, p2p, kvcr, example, or a class of module_path.", examples=("fs",)
    )
    module_path: str | None = option(
        "Python module that holds the tier's class, for tiers outside vLLM. kvengine never"
        " imports it.",
        default=None,
        nullable=True,
        vllm=Releases(since="0.28"),
        examples=("my_tiers",),
    )


@rules(
    Fault(
        at=Given("module_path"),
        says="is ignored: vLLM has a tier of this type itself",
        because="vLLM looks there only for a type that is none of its own",
        code="ignored",
        severity="warning",
        vllm=Releases(since="0.28"),
    ),
)
@frozen(kw_only=True, slots=False)
class KnownTier(Entry):
    """A tier of vLLM."""


@frozen(kw_only=True, slots=False)
class ThrottledTier(KnownTier):
    """A tier whose stores can be throttled."""

    backpressure: Backpressure | None = option(
        "Throttling of stores to this tier, laid over what backpressure beside secondary_tiers"
        " says.",
        default=None,
        vllm=SINCE_BACKPRESSURE,
        examples=({"backpressure_cls": "EMABackpressureDetector"},),
        traps=("an empty table counts as given and lacks its backpressure_cls",),
    )
