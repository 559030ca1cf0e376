"""vLLM's view of the ledger: the manager that the connector asks in the scheduler process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    OffloadingEvent,
    OffloadingManager,
    PrepareStoreOutput,
    RequestOffloadingContext,
)

from kvengine.integrations.vllm.keys import Numbers
from kvengine.integrations.vllm.ledger import Ledger
from kvengine.integrations.vllm.metrics import Report
from kvengine.integrations.vllm.region import Region
from kvengine.integrations.vllm.wire import HostPlaces

__all__ = ["KVEngineOffloadingManager"]

_ANSWERS = (LookupResult.MISS, LookupResult.HIT, LookupResult.HIT_PENDING, LookupResult.RETRY)
"""By our :class:`.ledger.Answer`."""


class KVEngineOffloadingManager(OffloadingManager):  # type: ignore[misc]
    """Answers vLLM's scheduler out of the ledger. Called from one thread at a time."""

    def __init__(
        self,
        ledger: Ledger,
        region: Region,
        numbers: Numbers,
        *,
        events: bool,
        localities: Sequence[str | None] = (),
        info: Mapping[str, str],
    ) -> None:
        self.ledger = ledger
        self._region = region
        self._numbers = numbers
        self._events = events
        self._info = info
        self._report = Report([tier.name for tier in ledger.behind.tiers])
        self._every_tier = tuple(range(len(ledger.behind.tiers)))
        self._allowed: dict[str, tuple[int, ...]] = {}
        self._told = tuple(localities)
        """Where each tier is, if the config says so: ``LOCAL`` or ``REMOTE``."""
        self._media = _media()

    def on_new_request(self, req_context: Any) -> Any:
        """A request comes: which tiers it may load from."""
        allowed = self._tiers_for(req_context)
        if allowed != self._every_tier:
            self._allowed[req_context.req_id] = allowed
        return RequestOffloadingContext()

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """Whether a chunk can be loaded; asked chunk by chunk, at every step anew."""
        request = req_context.req_id
        allowed = self._every_tier
        if self._allowed:
            allowed = self._allowed.get(request, allowed)
        answer = self.ledger.lookup(self._numbers.our(key), request, allowed)
        return _ANSWERS[answer]

    def get_load_source(self, key: bytes, req_context: Any) -> Any:
        """Where a hit came from first (0.32 and later): host memory, or the disk behind it."""
        from vllm.v1.metrics.cache_hit_source import CacheHitSource

        tier = self.ledger.behind.origin(self._numbers.our(key))
        if tier is None:
            return CacheHitSource.HOST
        return CacheHitSource.DISK if _is_disk(tier) else CacheHitSource.EXTERNAL_UNSPECIFIED

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        """The chunks of a prefix were used."""
        self.ledger.touch(self._numbers.ours_in_order(keys))

    def prepare_load(self, keys: Collection[bytes], req_context: Any) -> Any:
        """Pin chunks that were hits in this step, and say where they are."""
        order = self.ledger.prepare_load(self._numbers.ours_in_order(keys), req_context.req_id)
        if order is None:
            raise RuntimeError("vLLM asks to load chunks that were no hits in this step")
        return HostPlaces(order.ticket, order.places)

    def complete_load(self, keys: Collection[bytes], req_context: Any) -> None:
        """Every rank has loaded these chunks."""
        self.ledger.complete_load(self._numbers.ours(keys), req_context.req_id)

    def prepare_store(self, keys: Collection[bytes], req_context: Any) -> Any:
        """Make room for chunks; None when there is none for any of them."""
        order = self.ledger.prepare_store(self._numbers.ours_in_order(keys))
        if order is None:
            return None
        return PrepareStoreOutput(
            keys_to_store=self._numbers.theirs(order.keys),
            store_spec=HostPlaces(order.ticket, order.places),
            evicted_keys=self._numbers.theirs(order.evicted),
        )

    def complete_store(
        self, keys: Collection[bytes], req_context: Any, success: bool = True
    ) -> None:
        """Every rank is through with these chunks: from now on they are hits."""
        self.ledger.complete_store(self._numbers.ours(keys), success)

    def on_request_finished(self, req_context: Any) -> None:
        """Nothing is kept for this request any more."""
        self._allowed.pop(req_context.req_id, None)
        self.ledger.finish(req_context.req_id)

    def on_schedule_end(self, context: Any) -> None:
        """A step is planned: begin what its look-ups asked of the tiers."""
        self.ledger.end_step()

    def has_pending_work(self) -> bool:
        """Whether vLLM has to go on stepping: tiers work by themselves, but events need a step."""
        return self._events and self.ledger.announcing

    def reset_cache(self) -> None:
        """Forget every chunk in host memory."""
        self.ledger.reset()

    def take_events(self) -> Iterable[Any]:
        """Chunks that became loadable from host memory or left it, where events are published.

        Also those that a tier took, if its ``enable_kv_events`` says so, as vLLM's own tiers do.
        """
        events = self.ledger.take_events()
        if not self._events:
            return
        host, storage = self._media
        for event in events:
            keys = self._numbers.theirs(event.keys)
            if event.tier is None:
                yield OffloadingEvent(keys=keys, medium=host, removed=event.removed)
            else:
                locality = _locality(self._told[event.tier])
                yield OffloadingEvent(keys=keys, medium=storage, removed=False, locality=locality)

    def get_stats(self) -> Any:
        """What changed since the last call: gauges now, counters by how far they grew.

        None when nothing did, as in most steps that wait for a transfer.
        """
        if not self.ledger.changed:
            return None
        self.ledger.changed = False
        stats = OffloadingConnectorStats()
        self._report.fill(stats, self.ledger.values())
        return stats

    def config_info(self) -> Sequence[Mapping[str, str]]:
        """The labels of vLLM's info metric (0.33 and later)."""
        return [self._info]

    def shutdown(self) -> None:
        """Let the tiers finish what they took, and give the memory back."""
        self.ledger.close()
        self._region.close()

    def _tiers_for(self, req_context: Any) -> tuple[int, ...]:
        """The tiers that the request's own filter allows (0.27 and later)."""
        wanted = getattr(req_context, "load_tier_filter", None)
        if wanted is None or not self._every_tier:
            return self._every_tier
        storage = self._media[1]
        return tuple(
            index
            for index, tier in enumerate(self.ledger.behind.tiers)
            if wanted.allows(
                storage,
                _locality(self._told[index] or ("LOCAL" if _is_disk(tier.name) else "REMOTE")),
            )
        )


def _is_disk(tier: str) -> bool:
    return tier.split("-")[0] == "fs"


def _media() -> tuple[Any, Any]:
    """How this release names host memory and tiers in events: an enum since 0.27, text before."""
    from vllm.v1.kv_offload import base

    if hasattr(base, "Medium"):
        return base.Medium.CPU, base.Medium.STORAGE
    return "CPU", "FS"


def _locality(name: str | None) -> Any:
    return None if name is None else Locality(name)
