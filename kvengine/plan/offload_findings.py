"""What there is to say of offloading: budgets, chunks, copies and tiers against one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from kvengine.errors import Drop, Fix, Move, Path, PlanError, Problem, Put
from kvengine.plan.findings import EXTRA, Seen, refusal
from kvengine.plan.offload import why_copied
from kvengine.plan.plan import Group, Offload
from kvengine.plan.tiers import (
    DISK_BLOCK_BYTES,
    OWN_SPEC,
    least_limit_bytes,
    least_segment_bytes,
    segment_bytes_of,
)
from kvengine.units import align_up, ceil_div, format_bytes

__all__ = ["offload_findings"]

_BUDGET: Path = (*EXTRA, "cpu_bytes_to_use")
_BLOCK_SIZE: Path = (*EXTRA, "block_size")
_BLOCKS: Path = (*EXTRA, "blocks_per_chunk")
_VLLM_SPECS = ("CPUOffloadingSpec", "TieringOffloadingSpec")
_SMALL_IO_BYTES = 256 << 10
"""Below this a read from a disk costs more than its bytes."""
_FAST_IO_BYTES = 1 << 20
_WASTE_TOLD = 0.01
_WASTE_WARNED = 0.25


def offload_findings(seen: Seen) -> Iterator[Problem]:
    """What concerns chunks: nothing without an offloading connector."""
    transfer = seen.config.kv_transfer
    if transfer is None or seen.plan.offload is None:
        return
    extra: Any = transfer.kv_connector_extra_config
    if isinstance(seen.plan.offload, PlanError):
        yield _refused(seen, seen.plan.offload, extra)
        return
    offload = seen.plan.offload
    yield from _host(seen, offload, extra)
    yield from _waste(seen, offload, extra)
    yield from _copies(seen)
    yield from _disk(seen, offload, extra)
    yield from _disk_room(offload, extra)


def _refused(seen: Seen, error: PlanError, extra: Any) -> Problem:
    problem = refusal(error)
    tokens = getattr(extra, "block_size", None)
    if error.code != "geometry" or error.path != _BLOCK_SIZE or not tokens:
        return problem
    if not seen.setup.facts.blocks_per_chunk:
        fix = Fix("remove block_size", (Drop(_BLOCK_SIZE),), safe=False)
        return evolve(problem, fix=fix)
    widest = max(group.tokens_per_block for group in seen.plan.groups) * seen.setup.context
    blocks = max(ceil_div(int(tokens), widest), 1)
    changes = (Move(_BLOCK_SIZE, _BLOCKS), Put(_BLOCKS, blocks))
    return evolve(problem, fix=Fix(f"use blocks_per_chunk = {blocks}", changes, safe=False))


def _ranks(seen: Seen) -> int:
    """Ranks whose bytes one chunk in host memory holds."""
    offload = seen.plan.offload
    return 1 if isinstance(offload, Offload) and offload.replicated else seen.setup.world


def _slots(seen: Seen, offload: Offload, extra: Any) -> list[int] | None:
    """Bytes of host memory for a chunk of each group, all ranks; None for specs unknown."""
    spec = getattr(extra, "spec_name", None)
    if spec in _VLLM_SPECS:
        return [offload.vllm_bytes_per_chunk] * len(offload.chunk_bytes)
    if spec == OWN_SPEC:
        return [size * _ranks(seen) for size in offload.chunk_bytes]
    return None


def _host(seen: Seen, offload: Offload, extra: Any) -> Iterator[Problem]:
    """The host budget against one chunk, one request, and the device."""
    budget = getattr(extra, "cpu_bytes_to_use", None)
    slots = _slots(seen, offload, extra)
    if not budget or not slots:
        return
    if max(slots) > budget:
        yield _no_chunk(int(budget), max(slots))
        return
    yield from _stages_differ(seen, extra)
    length = seen.plan.max_model_len
    counts = _chunks_of_request(seen.plan.groups, offload, length)
    need = sum(count * slot for count, slot in zip(counts, slots, strict=True))
    if need > budget:
        yield Problem(
            "capacity",
            _BUDGET,
            f"is {budget} bytes ({format_bytes(int(budget))}), less than the {need} bytes"
            f" ({format_bytes(need)}) that a request of {length} tokens needs to be found again",
            f"give at least {need} bytes, or expect long prompts to be computed anew",
            "warning",
            Fix(f"set it to {need}", (Put(_BUDGET, need),), safe=False),
        )
        return
    on_device = sum(sum(rank.allocations) for rank in seen.plan.ranks or (seen.plan,))
    on_device *= 1 if offload.replicated else seen.setup.world // seen.setup.pipeline
    if budget < on_device:
        yield Problem(
            "capacity",
            _BUDGET,
            f"is {budget} bytes ({format_bytes(int(budget))}), less than the {on_device} bytes"
            f" ({format_bytes(on_device)}) of KV cache on the devices, all ranks together: what"
            " leaves the devices has mostly left host memory before",
            "give more than the devices have",
            "warning",
        )


def _no_chunk(budget: int, slot: int) -> Problem:
    return Problem(
        "capacity",
        _BUDGET,
        f"is {budget} bytes ({format_bytes(budget)}), and one chunk takes {slot} bytes"
        f" ({format_bytes(slot)}), all ranks together: none is ever stored",
        f"give at least {slot} bytes",
        fix=Fix(f"set it to {slot}", (Put(_BUDGET, slot),), safe=False),
    )


def _chunks_of_request(groups: Sequence[Group], offload: Offload, length: int) -> list[int]:
    """Chunks of each group that a request must find to go on where it ended."""
    counts = []
    for group, tokens in zip(groups, offload.tokens_per_chunk, strict=True):
        if group.kind == "mamba":
            counts.append(1)
        elif group.sliding_window:
            counts.append(ceil_div(min(group.sliding_window, length), tokens))
        else:
            counts.append(ceil_div(length, tokens))
    return counts


def _stages_differ(seen: Seen, extra: Any) -> Iterator[Problem]:
    """Stages that divide the host budget into different numbers of chunks."""
    if getattr(extra, "spec_name", None) not in _VLLM_SPECS:
        return
    chunks = [
        rank.offload.vllm_num_chunks or 0
        for rank in seen.plan.ranks or ()
        if isinstance(rank.offload, Offload) and rank.bytes_per_block
    ]
    if len(set(chunks)) <= 1:
        return
    told = ", ".join(map(str, chunks))
    fails = min(chunks) < chunks[0]
    yield Problem(
        "known-issue" if fails else "capacity",
        _BUDGET,
        f"gives the pipeline stages room for {told} chunks, and the scheduler hands out the"
        f" {chunks[0]} of the first" + ", more than another stage has" * fails,
        "divide the layers evenly with parallel.pipeline_layers, or do not combine pipeline stages"
        " with vLLM's own host tier",
        "error" if fails else "info",
    )


def _waste(seen: Seen, offload: Offload, extra: Any) -> Iterator[Problem]:
    """What slots as wide as the widest group leave empty, when all groups are stored alike."""
    if getattr(extra, "spec_name", None) not in _VLLM_SPECS or not offload.vllm_bytes_per_chunk:
        return
    ranks = _ranks(seen)
    pairs = list(zip(offload.chunk_bytes, offload.tokens_per_chunk, strict=True))
    stored = sum(size * ranks / tokens for size, tokens in pairs)
    taken = sum(offload.vllm_bytes_per_chunk / tokens for _, tokens in pairs)
    share = 1 - stored / taken
    if share < _WASTE_TOLD:
        return
    told = ", ".join(format_bytes(size * ranks) for size, _ in pairs)
    yield Problem(
        "capacity",
        _BUDGET,
        f"is divided into slots of {format_bytes(offload.vllm_bytes_per_chunk)} for chunks of any"
        f" group, and chunks take {told}: {share:.1%} stay empty when all groups are stored",
        f"{OWN_SPEC} gives every group what it needs",
        "warning" if share >= _WASTE_WARNED else "info",
        Fix(
            f"use {OWN_SPEC}",
            (
                Put((*EXTRA, "spec_name"), OWN_SPEC),
                Put((*EXTRA, "spec_module_path"), "kvengine.integrations.vllm"),
            ),
            safe=False,
        ),
    )


def _copies(seen: Seen) -> Iterator[Problem]:
    """Bytes that several ranks hold alike, in host memory once or once for each."""
    setup = seen.setup
    budget = seen.budgets[0]
    if setup.tensor == 1:
        return
    if not setup.model.latent:
        heads = setup.model.kv_heads
        if heads and setup.tensor > heads:
            yield Problem(
                "capacity",
                _BUDGET,
                f"holds every KV head {setup.tensor // heads} times: {setup.tensor} ranks repeat"
                f" the model's {heads} KV heads",
                f"a tensor size of {heads} stores no head twice",
                "info",
            )
        return
    reason = why_copied(budget.bundles, setup, budget.bytes_per_block)
    if reason is None:
        yield Problem(
            "capacity",
            _BUDGET,
            f"holds one copy of what all {setup.tensor} ranks cache alike",
            severity="info",
        )
        return
    yield Problem(
        "capacity",
        _BUDGET,
        f"holds {setup.tensor} copies of what all {setup.tensor} ranks cache alike: {reason}",
        f"count on {1 / setup.tensor:.1%} of it",
        "warning",
    )


def _disk(seen: Seen, offload: Offload, extra: Any) -> Iterator[Problem]:
    """Chunks too small for the disk behind host memory to read at speed."""
    tiers = getattr(extra, "secondary_tiers", None) or ()
    kinds = [t.get("type") if isinstance(t, Mapping) else getattr(t, "type", None) for t in tiers]
    if "fs" not in kinds or not seen.setup.facts.blocks_per_chunk:
        return
    ranks = _ranks(seen)
    sizes = [size * ranks for size in offload.chunk_bytes if size]
    own = getattr(extra, "spec_name", None) == OWN_SPEC
    size = min(sizes, default=0) if own else offload.vllm_bytes_per_chunk
    if not 0 < size < _SMALL_IO_BYTES:
        return
    blocks = ceil_div(_FAST_IO_BYTES * offload.blocks_per_chunk[0], size)
    yield Problem(
        "geometry",
        _BLOCKS,
        f"is {offload.blocks_per_chunk[0]}, so that one read of tier {kinds.index('fs')} fetches"
        f" {format_bytes(size)}: too little for a disk to run at speed",
        f"set it to {blocks}, for reads of {format_bytes(_FAST_IO_BYTES)}",
        "warning",
        Fix(f"set blocks_per_chunk to {blocks}", (Put(_BLOCKS, blocks),), safe=False),
    )


def _disk_room(offload: Offload, extra: Any) -> Iterator[Problem]:
    """Limits and segments of kvengine's disks that a chunk does not fit into."""
    largest = max(offload.chunk_bytes, default=0)
    if getattr(extra, "spec_name", None) != OWN_SPEC or not largest:
        return
    for number, tier in enumerate(getattr(extra, "secondary_tiers", None) or ()):
        read = tier.get if isinstance(tier, Mapping) else partial(getattr, tier)
        limit, configured = read("max_bytes", None), read("segment_bytes", None)
        at: Path = (*EXTRA, "secondary_tiers", number)
        least = least_segment_bytes(largest)
        if isinstance(configured, int) and align_up(configured, DISK_BLOCK_BYTES) < least:
            yield Problem(
                "capacity",
                (*at, "segment_bytes"),
                f"is {configured} bytes ({format_bytes(configured)}), and a chunk of {largest}"
                f" bytes ({format_bytes(largest)}) takes {least}",
                f"give at least {least} bytes, or leave it out",
                fix=Fix("remove segment_bytes", (Drop((*at, "segment_bytes")),), safe=False),
            )
        elif isinstance(limit, int):
            segment = segment_bytes_of(configured, limit, largest)
            need = least_limit_bytes(segment)
            if limit < need:
                yield Problem(
                    "capacity",
                    (*at, "max_bytes"),
                    f"is {limit} bytes ({format_bytes(limit)}), and a disk takes four segments of"
                    f" {segment} bytes ({format_bytes(segment)}) and 1 MiB",
                    f"give at least {need} bytes",
                    fix=Fix(f"set it to {need}", (Put((*at, "max_bytes"), need),), safe=False),
                )
