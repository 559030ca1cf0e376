"""kvengine's numbers in vLLM's own Prometheus output.

vLLM asks the spec class which metrics there will be, in the front-end process, and the manager
for changes after every step, in the scheduler process. Names begin with ``vllm:`` because vLLM
removes and lists its own by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from attrs import frozen

__all__ = ["METRICS", "Metric", "Report", "definitions"]

Kind = Literal["counter", "gauge"]


@frozen
class Metric:
    """One metric: counters grow, gauges are as of now; ``tier`` ones have one series per tier."""

    name: str
    kind: Kind
    text: str
    per_tier: bool = False

    @property
    def full_name(self) -> str:
        """The name as Prometheus shows it (counters get ``_total`` at the end)."""
        return f"vllm:kvengine_{self.name}"


METRICS = (
    Metric("host_capacity_bytes", "gauge", "Host memory reserved for chunks, all ranks together."),
    Metric("host_resident_bytes", "gauge", "Payload of the chunks in host memory."),
    Metric("host_resident_chunks", "gauge", "Chunks in host memory."),
    Metric("host_pinned_bytes", "gauge", "Host memory held by transfers when one ended last."),
    Metric("lookup_hits", "counter", "Look-ups of chunks that were found in host memory."),
    Metric("lookup_misses", "counter", "Look-ups of chunks that were found nowhere."),
    Metric("stored_chunks", "counter", "Chunks stored from the device."),
    Metric("stored_bytes", "counter", "Bytes stored from the device, all ranks together."),
    Metric("loaded_chunks", "counter", "Chunks loaded to the device."),
    Metric("loaded_bytes", "counter", "Bytes of chunks loaded to the device, all ranks together."),
    Metric("evicted_chunks", "counter", "Chunks that left host memory to make room."),
    Metric("refused_chunks", "counter", "Chunks not stored: no room, or seen too rarely."),
    Metric("failed_stores", "counter", "Store jobs that a rank could not carry out."),
    Metric("promoted_chunks", "counter", "Chunks brought to host memory from a tier.", True),
    Metric("failed_promotions", "counter", "Chunks that a tier announced and did not give.", True),
    Metric("demoted_chunks", "counter", "Chunks written to a tier.", True),
    Metric("refused_demotions", "counter", "Chunks that a tier did not take.", True),
    Metric("tier_in_service", "gauge", "Whether the tier is in use (1) or taken out (0).", True),
)
"""What the integration reports, in the order of the documentation."""


def definitions() -> dict[str, Any]:
    """The metrics as vLLM's ``build_metric_definitions`` wants them."""
    from vllm.v1.kv_offload.base import OffloadingCounterMetadata, OffloadingGaugeMetadata

    classes = {"counter": OffloadingCounterMetadata, "gauge": OffloadingGaugeMetadata}
    return {
        metric.full_name: classes[metric.kind](
            documentation=metric.text, labelnames=("tier",) if metric.per_tier else ()
        )
        for metric in METRICS
    }


class Report:
    """What was reported last, so that only changes are.

    Values come in the order of :data:`METRICS`: those without a tier, then those of each tier.
    """

    def __init__(self, tiers: Sequence[str]) -> None:
        alone = [(metric, ()) for metric in METRICS if not metric.per_tier]
        tiered = [(metric, (tier,)) for tier in tiers for metric in METRICS if metric.per_tier]
        self._series = [
            (metric.full_name, metric.kind == "gauge", labels)
            for metric, labels in (*alone, *tiered)
        ]
        self._before: list[float] | None = None

    def fill(self, stats: Any, values: list[float]) -> None:
        """Put what differs from the last call into vLLM's stats object.

        Gauges are set, counters grow by the difference; the first time every series is there.
        """
        before = self._before
        for index, (name, gauge, labels) in enumerate(self._series):
            value = values[index]
            if before is not None and value == before[index]:
                continue
            if gauge:
                stats.set_gauge(name, value, labels)
            else:
                stats.increase_counter(name, value - (before[index] if before else 0), labels)
        self._before = values
