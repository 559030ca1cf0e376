"""Throttling of stores to a slow tier (vLLM 0.31 and later)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from attrs import frozen

from kvengine.errors import Path, Problem
from kvengine.rules.conditions import Unlike
from kvengine.rules.options import Variant, open_keys, option, refuses_unknown, tagged
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import Releases

__all__ = ["Backpressure", "DetectorNamed", "EMABackpressure", "OtherDetector"]

_CLS = "backpressure_cls"
_TIERS = "secondary_tiers"
_TOP = "backpressure"
_SINCE = Releases(since="0.31")


@rules(
    Fault(
        at=Unlike("policy_cls", r"^(DropStorePolicy|ThrottledDropPolicy)$|\."),
        says="must be DropStorePolicy, ThrottledDropPolicy or a dotted path, not {value}",
        because="vLLM has no policy of that name",
        code="choice",
    ),
)
@frozen(kw_only=True, slots=False)
class _Detector:
    """Keys of every detector."""

    backpressure_cls: str | None = option(
        "The detector: EMABackpressureDetector, or a dotted path. Required in the merged table.",
        default=None,
        examples=("EMABackpressureDetector",),
    )
    policy_cls: str | None = option(
        "What throttles: DropStorePolicy, ThrottledDropPolicy, or a dotted path.",
        default=None,
        default_text="ThrottledDropPolicy",
        examples=("DropStorePolicy",),
        traps=("up to 0.32 ThrottledDropPolicy drops every second store at most",),
    )


@frozen
class NotAbove:
    """``low`` is at most ``high``; JSON Schema cannot compare two values."""

    low: str
    high: str
    vllm: Releases

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem, at the lower limit."""
        low, high = given.get(self.low), given.get(self.high)
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
            says = f"is {low}, above {self.high} = {high}"
            yield Problem("range", (self.low,), says, "pressure must end below where it begins")

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Nothing that JSON Schema has words for."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"{self.low} is at most {self.high}."


@refuses_unknown
@rules(NotAbove("low_water_s", "high_water_s", vllm=_SINCE))
@frozen(kw_only=True, slots=False)
class EMABackpressure(_Detector):
    """vLLM's detector: a moving average of the time a store takes."""

    high_water_s: float = option(
        "Time for one MiB above which stores are throttled.",
        unit="seconds per MiB",
        default=0.01,
        default_text="0.01, or 0.05 for obj tiers and locality REMOTE",
        examples=(0.02,),
    )
    low_water_s: float = option(
        "Time for one MiB below which pressure ends; at most high_water_s.",
        unit="seconds per MiB",
        default=0.002,
        default_text="0.002, or 0.01 for obj tiers and locality REMOTE",
        examples=(0.005,),
    )
    alpha: float = option(
        "Weight of the newest sample.", gt=0, le=1, default=0.15, examples=(0.15,)
    )
    warmup_completions: int = option(
        "Stores to wait for before the detector acts.",
        unit="stores",
        default=10,
        examples=(10,),
    )
    decay_half_life_s: float = option(
        "How fast the average falls while nothing is stored.",
        unit="seconds",
        default=2.0,
        examples=(2,),
    )
    cooldown_s: float = option(
        "Time at half rate after pressure has ended.",
        unit="seconds",
        default=1.0,
        examples=(1,),
    )
    failure_threshold: int | None = option(
        "That many failed stores in a row count as pressure; null: failures do not count.",
        unit="stores",
        ge=1,
        default=None,
        default_text="3 for fs and obj tiers, else none",
        nullable=True,
        vllm=Releases(since="0.33"),
        examples=(3,),
    )


@rules(
    Fault(
        at=Unlike(_CLS, r"\."),
        says="must be EMABackpressureDetector or a dotted path, not {value}",
        because="vLLM has no detector of that name",
        code="choice",
    ),
)
@frozen(kw_only=True, slots=False)
class OtherDetector(_Detector):
    """A detector of the user's own: its keys pass."""

    values: Mapping[str, Any] = open_keys()


@tagged(
    Variant(
        tag=_CLS,
        classes={"EMABackpressureDetector": EMABackpressure},
        otherwise=OtherDetector,
        default="EMABackpressureDetector",
        kind="detector",
    )
)
@frozen(kw_only=True, slots=False)
class Backpressure:
    """When to hold stores back, and how."""


@frozen
class DetectorNamed:
    """Every tier that is throttled learns its detector, of its own or from beside the list."""

    vllm: Releases = _SINCE

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem for every tier without a detector, or one for all of them."""
        top, tiers = given.get(_TOP), given.get(_TIERS)
        top = top if isinstance(top, Mapping) else {}
        if _CLS in top or not isinstance(tiers, list):
            return
        for index, tier in enumerate(tiers):
            if not isinstance(tier, Mapping) or (_TOP not in tier and not top):
                continue
            own = tier.get(_TOP)
            if not isinstance(own, Mapping) or _CLS not in own:
                path: Path = (_TIERS, index, _TOP, _CLS) if _TOP in tier else (_TOP, _CLS)
                hint = f'add for example {_CLS} = "EMABackpressureDetector"'
                yield Problem("missing", path, "is required", hint)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Two rules: what a tier says itself, and what stands beside the list."""
        names = {"type": "object", "required": [_CLS]}
        unnamed_top = {"properties": {_TOP: {"not": names}}}
        filled_top = {"type": "object", "minProperties": 1, "not": {"required": [_CLS]}}
        named_tier = {"type": "object", "properties": {_TOP: names}, "required": [_TOP]}
        given = {"type": "object", "required": [_TOP]}
        tier = {"if": given, "then": {"type": "object", "properties": {_TOP: names}}}
        return [
            {
                "if": unnamed_top,
                "then": {"properties": {_TIERS: {"type": "array", "items": tier}}},
            },
            {
                "if": {"properties": {_TOP: filled_top}, "required": [_TOP]},
                "then": {"properties": {_TIERS: {"type": "array", "items": named_tier}}},
            },
        ]

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"A throttled tier needs {_CLS}, of its own or from beside {_TIERS}."
