"""The values a plan is made of: groups, slots, offload geometry. Bytes are per rank."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from kvengine.errors import PlanError, Problem

__all__ = ["Group", "Kind", "Offload", "Plan", "Slot", "Tier"]

Kind = Literal["full", "window", "chunked", "mla", "window_mla", "mamba", "uniform"]


@frozen(kw_only=True)
class Group:
    """Layers that share a block table.

    ``page_bytes`` is what one layer stores for one block (of a ``uniform`` group: the sum over
    its layers), ``row_bytes`` what one block takes over all layers of the group.
    """

    kind: Kind
    layers: tuple[str, ...]
    tokens_per_block: int
    page_bytes: int
    row_bytes: int
    sliding_window: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The group as ``plan --json`` prints it; ``sliding_window`` only where there is one."""
        window = {} if self.sliding_window is None else {"sliding_window": self.sliding_window}
        return {
            "kind": self.kind,
            "layers": list(self.layers),
            "tokens_per_block": self.tokens_per_block,
            "page_bytes": self.page_bytes,
            "row_bytes": self.row_bytes,
            **window,
        }


@frozen(kw_only=True)
class Slot:
    """The pages of one layer inside one allocation.

    Page ``b`` is the byte range starting at ``offset_bytes + b * stride_bytes``,
    ``page_bytes`` long. Layouts differ in these numbers only::

        pools         offset 0                              stride = page_bytes
        packed        offset = pages of the layers before   stride = the widest group's row
        layer-outer   offset = layer * page * num_blocks    stride = page_bytes

    Slots of different groups may overlay each other, since a block belongs to one group at a
    time; slots of one group never do.
    """

    layer: str
    group: int
    allocation: int
    offset_bytes: int
    stride_bytes: int
    page_bytes: int

    def page(self, block: int) -> range:
        """Bytes of one page, as a half-open range."""
        start = self.offset_bytes + block * self.stride_bytes
        return range(start, start + self.page_bytes)

    def to_dict(self) -> dict[str, Any]:
        """The slot as ``plan --json`` prints it."""
        return {
            "layer": self.layer,
            "group": self.group,
            "allocation": self.allocation,
            "offset_bytes": self.offset_bytes,
            "stride_bytes": self.stride_bytes,
            "page_bytes": self.page_bytes,
        }


@frozen(kw_only=True)
class Tier:
    """One of kvengine's own places for chunks: how many of them fit, all ranks together.

    A disk has to have its ``capacity_bytes`` free; None: known only where it runs, or unbounded.
    """

    type: str
    capacity_bytes: int | None
    num_chunks: tuple[int | None, ...]
    """Chunks that fit if only this group's were stored, per group."""
    tokens: int | None = None
    """Tokens whose chunks of every group fit together; windows need fewer, so more can fit."""
    io_bytes: tuple[int, ...] = ()
    """What one read or write of the tier moves, per group; empty for memory."""

    def to_dict(self) -> dict[str, Any]:
        """The tier as ``plan --json`` prints it."""
        return {
            "type": self.type,
            "capacity_bytes": self.capacity_bytes,
            "num_chunks": list(self.num_chunks),
            "tokens": self.tokens,
            "io_bytes": list(self.io_bytes),
        }


@frozen(kw_only=True)
class Offload:
    """The geometry of chunks: one entry per group; bytes on one rank.

    ``tokens_per_block`` and ``tokens_per_chunk`` count the tokens of a request (scaled by
    decode context parallelism). ``vllm_bytes_per_chunk`` is what vLLM reserves for one chunk of
    any group, all ranks together, and ``vllm_num_chunks`` how many of those fit
    ``cpu_bytes_to_use``; None without a budget.
    """

    blocks_per_chunk: tuple[int, ...]
    tokens_per_chunk: tuple[int, ...]
    chunk_bytes: tuple[int, ...]
    vllm_bytes_per_chunk: int
    vllm_num_chunks: int | None
    replicated: bool
    tiers: tuple[Tier, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The geometry as ``plan --json`` prints it."""
        return {
            "blocks_per_chunk": list(self.blocks_per_chunk),
            "tokens_per_chunk": list(self.tokens_per_chunk),
            "chunk_bytes": list(self.chunk_bytes),
            "vllm_bytes_per_chunk": self.vllm_bytes_per_chunk,
            "vllm_num_chunks": self.vllm_num_chunks,
            "replicated": self.replicated,
            "tiers": [tier.to_dict() for tier in self.tiers],
        }


@frozen(kw_only=True)
class Plan:
    """What the engine will do with its KV memory, to the byte. Sizes are per rank.

    ``packed`` says whether one block's row is one contiguous run. ``offload`` is None without
    an offloading connector, and the refusal (a :class:`~kvengine.PlanError`) where only
    offloading is refused. With pipeline stages ``ranks`` holds one plan per stage; the top
    level then describes the whole model with the agreed ``num_blocks``.
    ``num_blocks_alone`` is what this rank could have had by itself.
    """

    vllm: str
    layout: str
    packed: bool
    num_blocks: int
    bytes_per_block: int
    request_max_bytes: int
    max_concurrency: float
    capacity_tokens: int
    max_model_len: int
    cache_dtype: str
    tokens_per_block: int
    attention_backends: tuple[str, ...]
    tokens_per_hash: int
    scheduler_block_tokens: int
    groups: tuple[Group, ...]
    allocations: tuple[int, ...]
    slots: tuple[Slot, ...]
    offload: Offload | PlanError | None
    ranks: tuple[Plan, ...] | None = None
    num_blocks_alone: int | None = None
    problems: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The plan as ``plan --json`` prints it (``version`` 1)."""
        offload: dict[str, Any] | None
        match self.offload:
            case None:
                offload = None
            case PlanError() as refused:
                offload = {
                    "error": {
                        "code": refused.code,
                        "message": refused.message,
                        "hint": refused.hint,
                    }
                }
            case Offload() as geometry:
                offload = geometry.to_dict()
        alone = {} if self.num_blocks_alone is None else {"num_blocks_alone": self.num_blocks_alone}
        return {
            "version": 1,
            "vllm": self.vllm,
            "layout": self.layout,
            "packed": self.packed,
            "num_blocks": self.num_blocks,
            "bytes_per_block": self.bytes_per_block,
            "request_max_bytes": self.request_max_bytes,
            "max_concurrency": round(self.max_concurrency, 6),
            "capacity_tokens": self.capacity_tokens,
            "max_model_len": self.max_model_len,
            "cache_dtype": self.cache_dtype,
            "tokens_per_block": self.tokens_per_block,
            "attention_backends": list(self.attention_backends),
            "tokens_per_hash": self.tokens_per_hash,
            "scheduler_block_tokens": self.scheduler_block_tokens,
            "groups": [group.to_dict() for group in self.groups],
            "allocations": list(self.allocations),
            "slots": [slot.to_dict() for slot in self.slots],
            "offload": offload,
            "ranks": None if self.ranks is None else [rank.to_dict() for rank in self.ranks],
            **alone,
            "problems": [problem.to_dict() for problem in self.problems],
        }
