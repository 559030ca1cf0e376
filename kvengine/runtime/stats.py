"""What an engine has done and holds, as values; and the same as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from kvengine.runtime.pool import PoolStats
from kvengine.runtime.tiers.base import TierStats

if TYPE_CHECKING:
    from kvengine.runtime.engine import OffloadEngine

__all__ = ["DirectionStats", "EngineStats", "collector", "prometheus_text"]


@frozen(kw_only=True)
class DirectionStats:
    """What was copied between the device and host memory, in one direction."""

    jobs: int
    chunks: int
    num_bytes: int
    seconds: float
    failed_chunks: int
    slices_by_bytes: Mapping[int, int]
    """How many slices were copied, by bytes: power of two not below it (case R27)."""


@frozen(kw_only=True)
class EngineStats:
    """A snapshot. Gauges are of now, counters since the engine was made.

    ``host.resident_bytes`` is what can be loaded, ``host.pinned_bytes`` what loads are reading:
    two different things (case R28). ``failures`` counts chunks by outcome.
    """

    host: PoolStats
    reserved_bytes: int
    in_flight_bytes: int
    in_flight_limit_bytes: int
    store: DirectionStats
    load: DirectionStats
    promoted_chunks: int
    demoted_chunks: int
    failures: Mapping[str, int]
    tiers: tuple[TierStats, ...]
    stores_without_hits: bool
    """Much was stored and nothing was ever loaded: keys or windows of writer and reader differ
    (case R18)."""

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as plain values."""
        return asdict(self)


def prometheus_text(engine: OffloadEngine) -> str:
    """The engine's metrics in Prometheus' text format; needs ``kvengine[metrics]``."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(collector(engine))
    return generate_latest(registry).decode()


def collector(engine: OffloadEngine) -> Any:
    """A ``prometheus_client`` collector that reads the engine when asked; register it once."""
    from prometheus_client.registry import Collector

    class EngineCollector(Collector):
        def collect(self) -> Iterator[Any]:
            yield from _families(engine.stats())

    return EngineCollector()


def _families(stats: EngineStats) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    tiers = [_host(stats), *(_behind(tier) for tier in stats.tiers)]
    for name, text in _TIER_GAUGES.items():
        gauge = GaugeMetricFamily(f"kvengine_{name}", text, labels=["tier"])
        for tier in tiers:
            if tier.get(name) is not None:
                gauge.add_metric([tier["tier"]], tier[name])
        yield gauge
    for name, text in _TIER_COUNTERS.items():
        counter = CounterMetricFamily(f"kvengine_{name}", text, labels=["tier"])
        for tier in tiers:
            if tier.get(name) is not None:
                counter.add_metric([tier["tier"]], tier[name])
        yield counter
    for name, text in (("chunks", "Chunks copied"), ("num_bytes", "Bytes copied")):
        short = name.removeprefix("num_")
        copied = CounterMetricFamily(f"kvengine_copied_{short}", text, labels=["direction"])
        for direction in ("store", "load"):
            copied.add_metric([direction], getattr(getattr(stats, direction), name))
        yield copied
    busy = CounterMetricFamily("kvengine_copy_seconds", "Seconds of copying", labels=["direction"])
    for direction in ("store", "load"):
        busy.add_metric([direction], getattr(stats, direction).seconds)
    yield busy
    failed = CounterMetricFamily(
        "kvengine_failures", "Chunks that did not arrive", labels=["tier", "kind"]
    )
    for tier in tiers:
        for kind, count in tier["failures"].items():
            failed.add_metric([tier["tier"], kind], count)
    yield failed
    yield GaugeMetricFamily(
        "kvengine_in_flight_bytes", "Bytes queued or being copied", value=stats.in_flight_bytes
    )


_TIER_GAUGES = {
    "capacity_bytes": "Bytes that a tier may hold",
    "resident_bytes": "Payload that can be loaded",
    "pinned_bytes": "Payload that loads are reading",
    "in_service": "Whether a tier works",
}
_TIER_COUNTERS = {
    "stores": "Chunks stored",
    "hits": "Chunks found",
    "misses": "Chunks not found",
    "evictions": "Chunks that had to leave",
}


def _host(stats: EngineStats) -> dict[str, Any]:
    host = stats.host
    return {
        "tier": "host",
        "capacity_bytes": host.capacity_bytes,
        "resident_bytes": host.resident_bytes,
        "pinned_bytes": host.pinned_bytes,
        "in_service": 1,
        "stores": host.stores,
        "hits": host.hits,
        "misses": host.misses,
        "evictions": host.evictions,
        "failures": stats.failures,
    }


def _behind(tier: TierStats) -> dict[str, Any]:
    return {
        "tier": tier.name,
        "capacity_bytes": tier.capacity_bytes,
        "resident_bytes": tier.resident_bytes,
        "in_service": int(tier.in_service),
        "stores": tier.stores,
        "hits": tier.hits,
        "misses": tier.misses,
        "evictions": tier.evictions,
        "failures": tier.failures,
    }
