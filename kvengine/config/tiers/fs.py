"""The ``fs`` tier: one file for each chunk."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from kvengine.config.tiers.base import ThrottledTier
from kvengine.rules.conditions import In
from kvengine.rules.options import option, refuses_unknown
from kvengine.rules.readings import Truth
from kvengine.rules.relations import Fault, rules
from kvengine.rules.releases import Releases

__all__ = ["FsTier", "StoredEvents"]


@frozen(kw_only=True, slots=False)
class StoredEvents(ThrottledTier):
    """Keys of tiers that announce what they store."""

    enable_kv_events: bool = option(
        "Announce what this tier stores; KV events must be on for the engine too.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.26"),
        examples=(True,),
    )
    locality: Literal["LOCAL", "REMOTE"] | None = option(
        "Whether the storage is this machine's own; for events, and from 0.31 for the defaults of"
        " backpressure.",
        default=None,
        nullable=True,
        vllm=Releases(since="0.26"),
        examples=("REMOTE",),
    )


@refuses_unknown
@rules(
    Fault(
        at=In("n_read_threads", (0,)),
        when=(In("n_write_threads", (0,)),),
        says="is 0 like n_write_threads, so nothing is ever transferred",
        because="threads of one kind serve the other's queue, but there are none",
        severity="warning",
    ),
)
@frozen(kw_only=True, slots=False)
class FsTier(StoredEvents):
    """Files below a directory, without a limit: put it on a quota."""

    root_dir: str = option(
        "Directory for the files. It has no limit, and its name tells no revisions of a model and"
        " no hash seeds apart.",
        examples=("/var/cache/kv",),
        traps=(
            "engines share it only where their block hashes agree: same algorithm, same"
            " PYTHONHASHSEED (up to 0.28 it must be set)",
        ),
    )
    n_read_threads: int = option(
        "Threads that serve loads first.", unit="threads", default=16, examples=(32,)
    )
    n_write_threads: int = option(
        "Threads that serve stores first.", unit="threads", default=16, examples=(16,)
    )
