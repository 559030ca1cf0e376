"""``UMBPStoreConnector``: shipped with 0.33, but not registered; needs its module path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import In
from kvengine.rules.options import open_keys, option
from kvengine.rules.readings import IntCall, Truth
from kvengine.rules.relations import Fault, rules

__all__ = ["UMBPStoreConnector"]


@rules(
    Fault(
        at=In("key_namespace", ("",)),
        says="is empty",
        because="write auto, or a name",
        code="range",
    ),
)
@frozen(kw_only=True, slots=False)
class UMBPStoreConnector(ExtraConfig):
    """A store behind an adapter that somebody else registers; it may read more keys."""

    mode: Literal["embedded"] = option(
        "Which adapter is built.", default="embedded", examples=("embedded",)
    )
    key_namespace: str = option(
        "Namespace of the stored objects; auto derives it from model, layout and parallel sizes.",
        default="auto",
        examples=("auto",),
        traps=("a fixed name switches the check for fitting engines off",),
    )
    load_async: bool = option(
        "Load between steps instead of inside one; false counts for plain models only.",
        default=True,
        reading=Truth(),
        examples=(False,),
    )
    enable_lookup: bool = option(
        "Whether the store is asked and loaded from at all.",
        default=True,
        reading=Truth(),
        examples=(False,),
    )
    lookup_async: bool = option(
        "Ask the store without holding up the scheduler.",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    lookup_workers: int = option(
        "Threads that ask.", unit="threads", ge=1, default=2, reading=IntCall(), examples=(2,)
    )
    save_decode_cache: bool = option(
        "Store blocks filled while decoding too; a kv_consumer never stores.",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    enable_partial_hash_hits: bool = option(
        "Match single hash units instead of whole blocks.",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    kv_event_max_objects: int = option(
        "Stored objects remembered for KV events; what goes beyond is not announced.",
        unit="objects",
        ge=1,
        default=65536,
        examples=(65536,),
    )
    values: Mapping[str, Any] = open_keys()
