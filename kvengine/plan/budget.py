"""Bytes available -> number of blocks, what one request needs, and how many requests fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from attrs import frozen

from kvengine.errors import PlanError
from kvengine.plan.groups import Bundle
from kvengine.plan.layout import Layout, row_stride
from kvengine.plan.setup import Setup
from kvengine.plan.specs import Spec
from kvengine.units import ceil_div, format_bytes

__all__ = [
    "Budget",
    "agreed",
    "check_fits",
    "fit_length",
    "group_pages",
    "max_concurrency",
    "request_bytes",
]


@frozen(kw_only=True)
class Budget:
    """One rank's groups, layout and memory. ``checked_bytes`` is what a request may take."""

    setup: Setup
    layout: Layout
    bundles: tuple[Bundle, ...]
    memory_bytes: int

    @cached_property
    def bytes_per_block(self) -> int:
        """Bytes of one block in the pool of this rank."""
        return row_stride(self.bundles, self.layout)

    @property
    def is_empty(self) -> bool:
        """Whether nothing on this rank is cached."""
        return self.bytes_per_block == 0

    @property
    def available_bytes(self) -> int:
        """The memory, or what an override of the block count stands for."""
        if self.setup.num_blocks is not None and not self.is_empty:
            return self.setup.num_blocks * self.bytes_per_block
        return self.memory_bytes

    @property
    def checked_bytes(self) -> int:
        """What requests can use: from 0.29 on all but the block that is held back."""
        held = self.bytes_per_block if self.setup.facts.holds_null_block else 0
        return self.available_bytes - held

    @property
    def num_blocks(self) -> int:
        """Blocks that this rank could have by itself."""
        if self.setup.num_blocks is not None:
            return self.setup.num_blocks
        return max(self.memory_bytes // self.bytes_per_block, 0)


def _pages(spec: Spec, setup: Setup, length: int) -> int:
    """Pages of one layer that a request of this many tokens holds at most."""
    block = spec.tokens_per_block
    if spec.page_bytes == 0:
        raise PlanError(
            "plan",
            "geometry",
            f"a block of {block} tokens holds none of a cache that keeps one state for"
            f" {spec.tokens_per_state} tokens",
            "use blocks of more tokens, or leave tokens_per_block out",
            path=("cache", "tokens_per_block"),
        )
    if spec.is_full:
        return ceil_div(ceil_div(length, setup.context), block)
    if spec.kind == "mamba":
        return _state_pages(spec, length)
    if spec.kind == "chunked":
        return ceil_div(min((spec.chunk or 0) + setup.in_flight, length), block)
    if setup.context > 1:
        raise PlanError(
            "plan",
            "conflict",
            "sliding windows do not go with decode context parallelism",
            "set parallel.decode_context = 1 for this model",
            path=("parallel", "decode_context"),
        )
    kept = (spec.window or 0) - 1 + spec.retained_tokens + setup.in_flight
    return ceil_div(min(kept, length), block) + 1


def _state_pages(spec: Spec, length: int) -> int:
    if spec.cache_mode == "all":
        return ceil_div(length, spec.tokens_per_block) + spec.draft_states
    if spec.cache_mode == "align":
        return 2 + spec.draft_states + spec.checkpoint_states
    return 1 + spec.draft_states


def group_pages(bundle: Bundle, setup: Setup, length: int) -> int:
    """Blocks of a group that a request of ``length`` tokens holds at most."""
    if not bundle.uniform:
        return _pages(bundle.spec, setup, length)
    return max(_pages(spec, setup, length) for spec in bundle.kinds)


def request_bytes(budget: Budget, length: int) -> int:
    """What a request of ``length`` tokens takes on this rank, as the capacity check counts it."""
    setup, bundles = budget.setup, budget.bundles
    if budget.is_empty:
        return 0
    if setup.facts.named_layouts:
        pages = sum(group_pages(bundle, setup, length) for bundle in bundles)
        return budget.bytes_per_block * pages
    if len(bundles) == 1 and bundles[0].uniform:
        kinds = bundles[0].kinds
        return sum(_pages(s, setup, length) * s.page_bytes * n for s, n in kinds.items())
    if all(bundle.uniform for bundle in bundles):
        return _tuple_request(bundles, setup, length)
    width = max(len(bundle.names) for bundle in bundles)
    pages = sum(_pages(bundle.spec, setup, length) for bundle in bundles)
    return width * bundles[0].spec.page_bytes * pages


def _tuple_request(bundles: Sequence[Bundle], setup: Setup, length: int) -> int:
    """Every group counted as if it had the first one's page sizes, and the most tuples."""
    tuple_bytes = sum({spec.page_bytes for spec in bundles[0].kinds})
    tuples = max(_most_of_one_size(bundle) for bundle in bundles)
    pages = sum(group_pages(bundle, setup, length) for bundle in bundles)
    return tuples * pages * tuple_bytes


def _most_of_one_size(bundle: Bundle) -> int:
    counts: dict[int, int] = {}
    for spec, count in bundle.kinds.items():
        counts[spec.page_bytes] = counts.get(spec.page_bytes, 0) + count
    return max(counts.values(), default=0)


def max_concurrency(bundles: Sequence[Bundle], setup: Setup, num_blocks: int, length: int) -> float:
    """Requests of ``length`` tokens that fit ``num_blocks`` blocks, by the scheduler's count.

    A uniform group counts by its first layer.
    """
    if not bundles:
        return 0.0
    specs = [bundle.specs[0] if bundle.specs else bundle.spec for bundle in bundles]
    if setup.facts.per_group_concurrency:
        return num_blocks / sum(_pages(spec, setup, length) for spec in specs)
    width = max(len(bundle.names) for bundle in bundles)
    need = width * sum(_pages(spec, setup, length) * spec.page_bytes for spec in specs)
    return num_blocks / ceil_div(need, specs[0].page_bytes * width)


def _longest(fits: Callable[[int], bool], limit: int) -> int:
    if not fits(1):
        return 0
    low, high, best = 1, limit, 1
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def _longest_that_fits(budget: Budget, limit: int) -> int:
    return _longest(lambda n: request_bytes(budget, n) <= budget.checked_bytes, limit)


def fit_length(budgets: Sequence[Budget], limit: int) -> int:
    """The longest request that every rank has room for; PlanError when not even one token fits."""
    lengths = [_longest_that_fits(b, limit) for b in budgets if not b.is_empty]
    best = min(lengths, default=limit)
    if best > 0:
        return best
    tight = min(budgets, key=lambda b: b.checked_bytes)
    raise PlanError(
        "plan",
        "capacity",
        "not even one token fits the memory for KV cache",
        "give cache.memory more bytes",
        need_bytes=request_bytes(tight, 1),
        available_bytes=tight.checked_bytes,
        path=("cache", "memory"),
    )


def check_fits(budget: Budget, length: int) -> None:
    """Raise PlanError, code ``capacity``, unless one request of ``length`` tokens fits."""
    if budget.is_empty:
        return
    available = budget.checked_bytes
    if available <= 0:
        raise PlanError(
            "plan",
            "capacity",
            "there is no memory for KV cache blocks",
            "give cache.memory more bytes",
            available_bytes=available,
            path=("cache", "memory"),
        )
    need = request_bytes(budget, length)
    if need <= available:
        return
    estimate = _longest_that_fits(budget, length)
    advice = f"or set model.max_model_len to at most {estimate}" if estimate else ""
    raise PlanError(
        "plan",
        "capacity",
        f"one request of {length} tokens needs {need} bytes ({format_bytes(need)}), more than the"
        f" {available} bytes ({format_bytes(max(available, 0))}) for KV cache",
        f"give cache.memory more bytes {advice}".strip(),
        need_bytes=need,
        available_bytes=available,
        estimated_max_model_len=estimate or None,
        path=("cache", "memory"),
    )


def agreed(budgets: Sequence[Budget]) -> int:
    """The number of blocks that all ranks can have."""
    return min((b.num_blocks for b in budgets if not b.is_empty), default=1)
