"""What the scheduler sends to the ranks with a job: opaque to vLLM, pickled on the way."""

from __future__ import annotations

from collections.abc import Sequence

from vllm.v1.kv_offload.base import LoadStoreSpec

from kvengine.runtime.places import Place

__all__ = ["HostPlaces"]


class HostPlaces(LoadStoreSpec):  # type: ignore[misc]
    """Places of whole chunks in the shared region, one per key of the job, and its ticket."""

    def __init__(self, ticket: int, places: Sequence[Place]) -> None:
        self.ticket = ticket
        self.places = tuple(places)

    def __repr__(self) -> str:
        return f"HostPlaces(ticket={self.ticket}, chunks={len(self.places)})"
