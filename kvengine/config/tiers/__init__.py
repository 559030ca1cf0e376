"""The secondary tiers behind host memory: one class for each ``type``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Literal

from attrs import frozen

from kvengine.config.tiers.base import Entry
from kvengine.errors import Problem
from kvengine.rules.options import Variant, open_keys, option, refuses_unknown, tagged
from kvengine.rules.registry import Named, Registry
from kvengine.rules.releases import ALWAYS, NEVER, Releases, Renamed

__all__ = ["OWN_TIERS", "TIERS", "OtherTier", "OwnDirectories", "OwnTier", "SecondaryTier"]

_HERE = "kvengine.config.tiers"
_OURS = "it is a tier of kvengine: set spec_name = KVEngineOffloadingSpec"

TIERS = Registry(
    {
        "fs": Named(
            at=f"{_HERE}.fs:FsTier",
            vllm=Releases(since="0.23"),
            was=(Renamed("fs_python", Releases(since="0.22", until="0.23")),),
        ),
        "obj": Named(at=f"{_HERE}.obj:ObjTier", vllm=Releases(since="0.23")),
        "p2p": Named(at=f"{_HERE}.p2p:P2PTier", vllm=Releases(since="0.25")),
        "kvcr": Named(at=f"{_HERE}.kvcr:KvcrTier", vllm=Releases(since="0.30")),
        "example": Named(at=f"{_HERE}.example:ExampleTier", vllm=Releases(since="0.22")),
        "valkey": Named(at=f"{_HERE}.own:ValkeyOptions", vllm=NEVER, because=_OURS),
    }
)
"""The tiers of vLLM's TieringOffloadingSpec."""

OWN_TIERS = Registry(
    {
        "fs": Named(at=f"{_HERE}.own:DiskOptions"),
        "valkey": Named(at=f"{_HERE}.own:ValkeyOptions"),
    }
)
"""The tiers of kvengine's own spec."""


@refuses_unknown
@frozen(kw_only=True, slots=False)
class OtherTier(Entry):
    """A tier that we do not know: its own keys pass."""

    values: Mapping[str, Any] = open_keys()


@tagged(
    Variant(
        tag="type",
        classes=TIERS,
        otherwise=OtherTier,
        open_with="module_path",
        closed=True,
        kind="tier",
    )
)
@frozen(kw_only=True, slots=False)
class SecondaryTier:
    """One tier behind host memory; its type decides which keys it takes."""


@refuses_unknown
@frozen(kw_only=True, slots=False)
class _NoTier:
    """A tier that kvengine does not have."""

    type: str = option("Which tier.", examples=("fs",))
    values: Mapping[str, Any] = open_keys()


@tagged(
    Variant(
        tag="type",
        classes=OWN_TIERS,
        otherwise=_NoTier,
        closed=True,
        kind="tier",
        origin="kvengine",
        within="spec_name = KVEngineOffloadingSpec",
    )
)
@frozen(kw_only=True, slots=False)
class OwnTier:
    """One tier of kvengine; its type decides which further keys it takes."""

    queue_bytes: int = option(
        "Bytes that may wait in each queue; more is refused.",
        unit="bytes",
        ge=1,
        default=256 << 20,
        examples=(268435456,),
    )
    enable_kv_events: bool = option(
        "Publish which chunks the tier took, where vLLM publishes KV events at all.",
        default=False,
        examples=(True,),
    )
    locality: Literal["LOCAL", "REMOTE"] | None = option(
        "What those events and a request's choice of tiers are told of where the tier is.",
        default=None,
        nullable=True,
        default_text="nothing in events; LOCAL for fs and REMOTE for valkey in a request's choice",
        examples=("REMOTE",),
    )


@frozen
class OwnDirectories:
    """No two disks of an engine share a directory."""

    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """A warning at each further tier."""
        seen: set[str] = set()
        tiers = given.get("secondary_tiers")
        for number, tier in enumerate(tiers if isinstance(tiers, list) else ()):
            place = tier.get("root_dir") if isinstance(tier, Mapping) else None
            if isinstance(place, str) and place.rstrip("/") in seen:
                yield Problem(
                    "conflict",
                    ("secondary_tiers", number, "root_dir"),
                    "is the directory of a tier before it",
                    "every chunk would be stored there twice, within one limit",
                    "warning",
                )
            if isinstance(place, str):
                seen.add(place.rstrip("/"))

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """A warning is accepted: nothing to say."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return "Two tiers on one directory store every chunk there twice."
