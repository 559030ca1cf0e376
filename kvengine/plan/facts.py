"""What changed between releases of vLLM, as dated facts; the planner reads them resolved."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from attrs import frozen

from kvengine.rules.releases import NEWEST, Release, Releases

__all__ = ["OLDEST", "PLANNED", "Facts", "facts_for"]

OLDEST = Release(0, 24)
"""The first release whose planning we know; earlier ones are planned by its rules."""

PLANNED = Releases(since=OLDEST, until=Release(NEWEST.major, NEWEST.minor + 1))


@frozen(kw_only=True)
class Facts:
    """The rules of one release. Where each comes from stands in the table of this module."""

    release: Release
    window_block: Literal["engine", "kernel", "within_engine"]
    batches_in_flight: bool
    blocks_per_chunk: bool
    chunk_page_bytes: int
    keeps_replicas_once: Literal["never", "one_mla_group", "every_layer"]
    tuple_slots: bool
    per_group_concurrency: bool
    mamba_prefix_caching: bool
    promoted_windows_merge: bool
    promoted_keeps_block: bool
    pads_any_window: bool
    named_layouts: bool
    holds_null_block: bool
    context_scales_mamba: bool
    uniform_groups_scale: bool
    bad_chunk_advice: bool
    fixed_sizes_align: bool
    row_aligned_sparse: bool
    padded_layer_stride: bool
    block_of_all_backends: bool
    mamba_mode_all: bool
    aligns_checkpoints: bool
    state_buckets_split: bool
    compressed_promotes: bool
    dtype_must_match: bool
    index_leaders_differ: bool
    uniform_states_alike: bool
    mixed_fallback: bool
    backends_check_context: bool
    flash_attention_4: bool
    yarn_scales_length: bool
    compressed_auto_is_fp8: bool
    cache_dtypes: frozenset[str]


@frozen
class _Fact:
    """One rule: a field of Facts has this value in these releases."""

    name: str
    value: Any
    vllm: Releases


def _since(name: str, release: str) -> tuple[_Fact, _Fact]:
    return _Fact(name, False, Releases(until=release)), _Fact(name, True, Releases(since=release))


def _until(name: str, release: str) -> tuple[_Fact, _Fact]:
    return _Fact(name, True, Releases(until=release)), _Fact(name, False, Releases(since=release))


_CACHE_DTYPES = (
    (
        *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"),
        *("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"),
        *("int8_per_token_head", "fp8_per_token_head", "nvfp4"),
    ),
    ("int4_per_token_head",),
    ("nvfp4_4over6",),
    ("nvfp4_ds_mla",),
    ("ultraquant_4bit",),
    ("octave_k3v4", "octave_k3v3", "octave_k3v3_compact"),
)
"""Names that --kv-cache-dtype accepts, in the order of the releases that brought them."""


def _cache_dtypes() -> tuple[_Fact, ...]:
    steps = (None, "0.25", "0.28", "0.30", "0.32", "0.33", None)
    known: frozenset[str] = frozenset()
    facts = []
    for names, since, until in zip(_CACHE_DTYPES, steps[:-1], steps[1:], strict=True):
        known |= set(names)
        facts.append(_Fact("cache_dtypes", known, Releases(since=since, until=until)))
    return tuple(facts)


_TABLE: tuple[_Fact, ...] = (
    # A window layer's own block: the engine's, the smallest that its kernels take, or the
    # engine's where the user gave one (oracle rows of Mistral, block size 64).
    _Fact("window_block", "engine", Releases(until="0.25")),
    _Fact("window_block", "kernel", Releases(since="0.25", until="0.30")),
    _Fact("window_block", "within_engine", Releases(since="0.30")),
    # Windows and chunks hold the tokens of every batch in flight, not of one.
    *_since("batches_in_flight", "0.26"),
    *_since("blocks_per_chunk", "0.26"),
    # A chunk of the host tier is rounded up to a page of the operating system.
    _Fact("chunk_page_bytes", 1, Releases(until="0.27")),
    _Fact("chunk_page_bytes", 4096, Releases(since="0.27")),
    # Whether what all tensor-parallel ranks hold alike is kept once in host memory.
    _Fact("keeps_replicas_once", "never", Releases(until="0.27")),
    _Fact("keeps_replicas_once", "one_mla_group", Releases(since="0.27", until="0.31")),
    _Fact("keeps_replicas_once", "every_layer", Releases(since="0.31")),
    # DeepSeek-V4: a slab with as many slots per page size as the widest group needs.
    *_until("tuple_slots", "0.27"),
    *_since("per_group_concurrency", "0.27"),
    *_since("mamba_prefix_caching", "0.28"),
    *_since("promoted_windows_merge", "0.28"),
    *_since("promoted_keeps_block", "0.27"),
    # Attention pages that do not divide the widest one are padded: where the backend says
    # that it can, and from 0.29 on for every layer that is not MLA.
    *_since("pads_any_window", "0.29"),
    *_since("named_layouts", "0.29"),
    *_since("holds_null_block", "0.29"),
    # Tokens per block of Mamba groups under decode context parallelism.
    *_until("context_scales_mamba", "0.27"),
    *_since("uniform_groups_scale", "0.30"),
    *_since("bad_chunk_advice", "0.30"),
    # Block strides are kept whole for kernels that read several blocks as one.
    *_since("fixed_sizes_align", "0.32"),
    *_since("row_aligned_sparse", "0.32"),
    *_since("padded_layer_stride", "0.32"),
    *_since("block_of_all_backends", "0.32"),
    *_until("mamba_mode_all", "0.32"),
    # Blocks of recurrent layers are whole steps of the states that kernels can export.
    *_since("aligns_checkpoints", "0.33"),
    *_since("state_buckets_split", "0.30"),
    *_until("compressed_promotes", "0.31"),
    *_since("dtype_must_match", "0.33"),
    # Latent layers with an indexer of their own are stored apart from those that share one.
    *_since("index_leaders_differ", "0.30"),
    # States of one group must have pages of one size.
    *_since("uniform_states_alike", "0.32"),
    # Latent layers beside plain windows of another page size: windows kept as full attention.
    *_since("mixed_fallback", "0.27"),
    *_since("backends_check_context", "0.30"),
    *_since("flash_attention_4", "0.33"),
    *_until("yarn_scales_length", "0.29"),
    # DeepSeek-V4: cache dtype auto is fp8 (before, it had to be asked for).
    *_since("compressed_auto_is_fp8", "0.30"),
    *_cache_dtypes(),
)


@cache
def facts_for(release: Release) -> Facts:
    """The rules of a release; those of 0.24 before it, of the newest known one after it."""
    planned = min(max(release, OLDEST), NEWEST)
    values = {fact.name: fact.value for fact in _TABLE if planned in fact.vllm}
    return Facts(release=planned, **values)
