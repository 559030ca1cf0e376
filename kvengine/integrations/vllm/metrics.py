"""kvengine's numbers in vLLM's own Prometheus output.

vLLM asks the spec class which metrics there will be, in the front-end process, and the manager
for changes after every step, in the scheduler process. Names begin with ``vllm:`` because vLLM
removes and lists its own by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

__all__ = ["METRICS", "Metric", "definitions", "fill"]

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
    Metric("host_pinned_bytes", "gauge", "Host memory that transfers keep from being evicted."),
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

_BY_NAME = {metric.name: metric for metric in METRICS}


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


def fill(
    stats: Any, values: Mapping[tuple[str, str], float], before: dict[tuple[str, str], float]
) -> None:
    """Put what differs from ``before`` (updated) into vLLM's stats object.

    Keys are the metric's name and the tier's, which is empty for metrics without one. Gauges are
    set, counters grow by the difference; the first time by 0, so that every series is there.
    """
    for key, value in values.items():
        old = before.get(key)
        if value == old:
            continue
        before[key] = value
        metric = _BY_NAME[key[0]]
        labels = (key[1],) if metric.per_tier else ()
        if metric.kind == "gauge":
            stats.set_gauge(metric.full_name, value, labels)
        else:
            stats.increase_counter(metric.full_name, value - (old or 0), labels)
