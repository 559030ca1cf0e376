"""Attention backends: what each accepts, and which one a release takes for a layer.

The choice matters to the planner because of the block sizes that kernels take. FlashInfer is
considered where it is the default (compute capability 10); elsewhere a machine without it and
one with it get the same block sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Literal

from attrs import field, frozen

from kvengine.plan.dtypes import is_quantized
from kvengine.plan.facts import Facts
from kvengine.rules.releases import Releases

__all__ = ["BACKENDS", "Backend", "Wanted", "choose", "smallest_block"]

_PLAIN = frozenset({"auto", "float16", "bfloat16"})
_FP8 = frozenset({"fp8", "fp8_e4m3"})
_PER_HEAD = frozenset({"int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"})


@frozen(kw_only=True)
class Backend:
    """One attention backend. ``blocks`` are kernel block sizes; multiples of one are split.

    ``prefers``: tokens per block where neither 16 nor the smallest block is what it wants.
    ``exact``: the kernels take only these sizes, so larger blocks are split into them.
    ``pads``: reads pages by the runtime stride, so that they may be padded (up to 0.28).
    ``layouts``: orders that its kernels read, None for any.
    """

    name: str
    family: Literal["dense", "mla", "sparse", "own"]
    blocks: tuple[int, ...] = (16,)
    exact: bool = False
    prefers: int | None = None
    dtypes: frozenset[str] = _PLAIN
    max_head: int = 1 << 30
    min_head: int = 1
    head_sizes: frozenset[int] | None = None
    majors: frozenset[int] | None = None
    vllm: Releases = field(factory=Releases)
    sinks: bool = True
    image_prefix: bool = False
    context: bool = True
    pads: bool = False
    layouts: tuple[str, ...] | None = None

    def takes_block(self, tokens: int) -> bool:
        """Whether blocks of this many tokens can be used, whole or split."""
        return any(tokens % size == 0 for size in self.blocks)

    @property
    def preferred_block(self) -> int:
        """16 tokens where they work, else the smallest block of the kernels."""
        return self.prefers or (16 if self.takes_block(16) else min(self.blocks))


@frozen(kw_only=True)
class Wanted:
    """What a layer asks of a backend."""

    family: Literal["dense", "mla", "sparse"]
    head_size: int
    cache_dtype: str
    major: int
    asked_block: int | None = None
    sinks: bool = False
    image_prefix: bool = False
    context: bool = False


_TABLE = (
    Backend(
        name="FLASHINFER", family="dense", blocks=(16, 32, 64), exact=True, sinks=False,
        dtypes=_PLAIN | _FP8 | {"fp8_e5m2", "nvfp4"}, head_sizes=frozenset({64, 128, 256}),
        majors=frozenset({10}), layouts=("LBHNC", "BLHNC"),
    ),
    Backend(
        name="TRITON_FLASH_ATTN", family="dense", dtypes=_PLAIN | _FP8, max_head=512,
        majors=frozenset({9}), vllm=Releases(since="0.33"), image_prefix=True,
        context=False,
    ),
    Backend(
        name="FLASH_ATTN", family="dense", dtypes=_PLAIN | _FP8, max_head=512, pads=True,
        image_prefix=True, majors=frozenset({8, 9, 10, 11, 12}),
    ),
    Backend(
        name="TRITON_ATTN", family="dense", dtypes=_PLAIN | _FP8 | {"fp8_e5m2"} | _PER_HEAD,
        min_head=32, image_prefix=True, pads=True, context=False,
    ),
    Backend(
        name="FLEX_ATTENTION", family="dense", sinks=False, image_prefix=True, pads=True,
        context=False, layouts=("LBNHC",),
    ),
    Backend(
        name="TURBOQUANT", family="dense", blocks=(16, 32, 64, 128), exact=True, sinks=False,
        context=False, layouts=("LBNHC",),
        dtypes=frozenset(
            {"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"}
        ),
    ),
    Backend(
        name="FLASHINFER_MLA", family="mla", blocks=(32, 64), exact=True, dtypes=_PLAIN | _FP8,
        majors=frozenset({10}), sinks=False, context=False, layouts=("LBHNC", "BLHNC"),
    ),
    Backend(name="FLASH_ATTN_MLA", family="mla", majors=frozenset({9}), pads=True),
    Backend(
        name="FLASHMLA", family="mla", blocks=(64,), exact=True, dtypes=_PLAIN | _FP8,
        majors=frozenset({9, 10}), pads=True,
    ),
    Backend(name="TRITON_MLA", family="mla", dtypes=_PLAIN | _FP8, pads=True),
    Backend(
        name="FLASH_ATTN_MLA_SPARSE", family="sparse", blocks=(64,), majors=frozenset({9}),
        vllm=Releases(since="0.25"), context=False,
    ),
    Backend(
        name="FLASHMLA_SPARSE", family="sparse", blocks=(64,), majors=frozenset({9, 10}),
        dtypes=frozenset({"auto", "bfloat16", "fp8", "fp8_ds_mla"}),
    ),
    Backend(name="FLASH_ATTN_DIFFKV", family="own", dtypes=_PLAIN | _FP8, pads=True),
    Backend(name="DEEPSEEK_V32_INDEXER", family="own", blocks=(64,), exact=True),
    Backend(
        name="DEEPSEEK_V4_INDEXER", family="own", blocks=(256,), exact=True,
        layouts=("BLHNC", "BLNHC"),
    ),
    Backend(name="FLASHMLA_SPARSE_DSV4", family="own", blocks=(256,), exact=True),
    Backend(name="DEEPSEEK_SPARSE_SWA", family="own", blocks=(64,), prefers=256),
    Backend(name="CompressorBackend", family="own", blocks=(1,)),
    Backend(name="MINIMAX_M3_SPARSE", family="own", blocks=(128,), exact=True),
    Backend(name="MINIMAX_M3_SPARSE_INDEXER", family="own", blocks=(128,), exact=True),
)  # fmt: skip

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _TABLE}


def choose(wanted: Wanted, facts: Facts, *, only: str | None = None) -> Backend | str:
    """The first backend that takes the layer, or ``only`` that one; else why none does."""
    reasons = []
    for backend in _TABLE:
        if backend.family != wanted.family or backend.name != (only or backend.name):
            continue
        refused = _refusal(backend, wanted, facts)
        if not refused:
            return backend
        reasons.append(f"{backend.name}: {refused}")
    return "; ".join(reasons)


def _refusal(backend: Backend, wanted: Wanted, facts: Facts) -> str:
    if facts.release not in backend.vllm:
        return "not in this release"
    if backend.majors is not None and wanted.major not in backend.majors:
        return "not for this device"
    if wanted.cache_dtype not in backend.dtypes:
        return f"does not store {wanted.cache_dtype}"
    if backend.name == "FLASH_ATTN" and (flash := _flash_refusal(wanted, facts)):
        return flash
    if not backend.min_head <= wanted.head_size <= backend.max_head or (
        backend.head_sizes is not None and wanted.head_size not in backend.head_sizes
    ):
        return f"no heads of {wanted.head_size}"
    if wanted.asked_block is not None and not backend.takes_block(wanted.asked_block):
        return f"no blocks of {wanted.asked_block} tokens"
    if wanted.sinks and not backend.sinks:
        return "no attention sinks"
    if (wanted.image_prefix and not backend.image_prefix) or (
        backend.name == "TRITON_FLASH_ATTN" and not wanted.image_prefix
    ):
        return "not for this kind of prefix"
    if wanted.context and not backend.context and facts.backends_check_context:
        return "no decode context parallelism"
    return ""


def _flash_refusal(wanted: Wanted, facts: Facts) -> str:
    if wanted.head_size % 8 or (wanted.head_size > 256 and not facts.flash_attention_4):
        return f"no heads of {wanted.head_size}"
    if is_quantized(wanted.cache_dtype) and (
        wanted.major not in (9, 10) or (wanted.image_prefix and wanted.major == 9)
    ):
        return f"does not store {wanted.cache_dtype} for such a layer"
    if wanted.image_prefix and not facts.flash_attention_4:
        return "not for this kind of prefix"
    return ""


def smallest_block(backends: Sequence[Backend]) -> int | None:
    """The smallest number of tokens per block that every backend takes; None if there is none."""
    if all(backend.takes_block(16) for backend in backends):
        return 16
    sizes = _least_multiples([backend.blocks for backend in backends])
    return next((s for s in sorted(sizes) if all(b.takes_block(s) for b in backends)), None)


def _least_multiples(choices: Iterable[tuple[int, ...]]) -> set[int]:
    found = {1}
    for sizes in choices:
        found = {have * size // gcd(have, size) for have in found for size in sizes}
    return found
