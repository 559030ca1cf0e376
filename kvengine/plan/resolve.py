"""Declared caches -> specs: attention backends, block sizes, and the bytes of every page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import evolve, frozen

from kvengine.errors import PlanError
from kvengine.plan.backends import BACKENDS, Backend, Wanted, choose
from kvengine.plan.blocks import (
    WIDE_FP8_BLOCK,
    Blocks,
    exports_checkpoints,
    recurrence_bytes,
    resolve_blocks,
    unquantized_layers,
)
from kvengine.plan.dtypes import content_bytes, element_bytes, is_quantized
from kvengine.plan.setup import Setup
from kvengine.plan.specs import Attention, Cache, Latent, Layer, Spec, State, Vector

__all__ = ["Resolved", "resolve"]

_SPARSE_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""A token of a sparse latent cache, packed: parts without and with position, and scales."""


@frozen(kw_only=True)
class Resolved:
    """The specs of all layers that store something, by pipeline stage."""

    stages: tuple[dict[str, Spec], ...]
    tokens_per_block: int
    backends: tuple[str, ...]
    layouts: tuple[str, ...] | None
    cache_dtype: str

    @property
    def layers(self) -> dict[str, Spec]:
        """All layers of the model, in order."""
        return {name: spec for stage in self.stages for name, spec in stage.items()}


class _Kinds:
    """Every distinct cache of a model with the backend and storage that it gets."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._plain_layers = unquantized_layers(setup)
        self._chosen: dict[tuple[Cache, str], Backend | None] = {}
        self.specs: dict[tuple[Cache, str], Spec] = {}
        self.alike: dict[Spec, Spec] = {}

    def storage(self, layer: Layer) -> str:
        """The cache dtype of one layer as vLLM spells it."""
        plain_in = layer.cache.plain_in if isinstance(layer.cache, Attention) else None
        forgets = plain_in is not None and self.setup.facts.release in plain_in
        plain = forgets or layer.index in self._plain_layers
        return "auto" if plain else self.setup.cache_dtype

    def backend(self, layer: Layer) -> Backend | None:
        """The attention backend of a layer; None for recurrent ones."""
        dtype = self.storage(layer)
        key = (layer.cache, dtype)
        if key not in self._chosen:
            self._chosen[key] = _backend(layer.cache, dtype, self.setup)
        return self._chosen[key]


def resolve(setup: Setup) -> Resolved:
    """The specs of an engine's layers; PlanError (stage ``setup``) when no backend takes one."""
    kinds = _Kinds(setup)
    attending: dict[str, Backend] = {}
    names: set[str] = set()
    for layer in setup.layers:
        backend = kinds.backend(layer)
        if backend is not None:
            attending.setdefault(backend.name, backend)
            names.add(backend.name)
        elif isinstance(layer.cache, State):
            names.add(layer.cache.backend)
    dtype = setup.cache_dtype
    if "FLASHMLA_SPARSE" in attending and is_quantized(dtype):
        dtype = "fp8_ds_mla"
    blocks = resolve_blocks(setup, tuple(attending.values()))
    return Resolved(
        stages=tuple(_specs(stage, kinds, blocks) for stage in setup.stages),
        tokens_per_block=blocks.tokens,
        backends=tuple(sorted(names)),
        layouts=_layouts(attending.values()),
        cache_dtype=dtype,
    )


def _backend(cache: Cache, dtype: str, setup: Setup) -> Backend | None:
    match cache:
        case State():
            return None
        case Vector():
            return BACKENDS[cache.backend]
        case Attention(backend=str() as named):
            return BACKENDS[named]
    wanted = Wanted(
        family=_family(cache),
        head_size=cache.width if isinstance(cache, Latent) else cache.head_size,
        cache_dtype=setup.cache_dtype if _chunked(cache) else dtype,
        major=setup.compute_major,
        asked_block=setup.asked_block,
        sinks=isinstance(cache, Attention) and cache.sinks,
        image_prefix=isinstance(cache, Attention) and cache.image_prefix,
        context=setup.context > 1,
    )
    uneven = setup.model.uneven_heads and not setup.facts.flash_attention_4
    found = choose(wanted, setup.facts, only="TRITON_ATTN" if uneven else None)
    if isinstance(found, str):
        raise _no_backend(wanted, found, setup)
    if _chunked(cache) and found.name == "TURBOQUANT" and dtype == "auto":
        raise PlanError(
            "setup",
            "known-issue",
            "chunked local attention takes TurboQuant's backend for layers left unquantised",
            "use another cache dtype for this model",
            path=("cache", "dtype"),
        )
    checks = setup.facts.backends_check_context and wanted.context
    if checks and found.name == "FLASHMLA_SPARSE" and not is_quantized(dtype):
        raise PlanError(
            "setup",
            "requires",
            "sparse latent attention under decode context parallelism stores fp8 only",
            'set cache.dtype = "fp8"',
            path=("cache", "dtype"),
        )
    return found


def _chunked(cache: Cache) -> bool:
    return isinstance(cache, Attention) and cache.chunk is not None


def _family(cache: Attention | Latent) -> Literal["dense", "mla", "sparse"]:
    if isinstance(cache, Attention):
        return "dense"
    return "sparse" if cache.sparse else "mla"


def _no_backend(wanted: Wanted, reasons: str, setup: Setup) -> PlanError:
    blocked = wanted.asked_block is not None and "no blocks of" in reasons
    path = ("cache", "tokens_per_block") if blocked else ("cache", "dtype")
    what = (
        f"blocks of {wanted.asked_block} tokens"
        if blocked
        else f"cache dtype {wanted.cache_dtype} with heads of {wanted.head_size}"
    )
    return PlanError(
        "setup",
        "choice",
        f"no attention backend of vLLM {setup.facts.release} takes {what}",
        reasons,
        path=path,
    )


def _layouts(backends: Iterable[Backend]) -> tuple[str, ...] | None:
    """The layouts that every backend reads, None for any."""
    sets = [backend.layouts for backend in backends if backend.layouts is not None]
    if not sets:
        return None
    if all(found == sets[0] for found in sets):
        return sets[0]
    return tuple(name for name in sets[0] if all(name in found for found in sets))


def _specs(stage: tuple[Layer, ...], kinds: _Kinds, blocks: Blocks) -> dict[str, Spec]:
    specs = {}
    for layer in stage:
        if layer.stores:
            key = (layer.cache, kinds.storage(layer))
            spec = kinds.specs.get(key)
            if spec is None:
                made = _spec(layer, kinds, blocks)
                spec = kinds.specs[key] = kinds.alike.setdefault(made, made)
            specs[layer.name] = spec
    return specs


def _spec(layer: Layer, kinds: _Kinds, blocks: Blocks) -> Spec:
    setup = kinds.setup
    cache, backend = layer.cache, kinds.backend(layer)
    if isinstance(cache, State):
        return _state_spec(cache, setup, blocks)
    assert backend is not None
    dtype = kinds.storage(layer)
    storage = setup.model_dtype if dtype == "auto" else dtype
    match cache:
        case Attention():
            spec = _attention_spec(cache, backend, storage, setup, blocks)
        case Latent():
            spec = _latent_spec(cache, backend, storage, setup, blocks)
        case Vector():
            spec = _vector_spec(cache, setup, blocks)
    if setup.facts.named_layouts:
        return _with_stride(spec, cache, backend, dtype, setup)
    return evolve(spec, pads=backend.pads)


def _with_stride(spec: Spec, cache: Cache, backend: Backend, dtype: str, setup: Setup) -> Spec:
    """The spec with the distance that kernels need between blocks, when they read several."""
    facts = setup.facts
    if backend.family == "sparse" and facts.row_aligned_sparse:
        if is_quantized(dtype):
            return evolve(spec, stride_tokens=max(backend.blocks))
        return evolve(spec, stride_bytes=spec.state_bytes)
    if not facts.fixed_sizes_align or spec.kind == "window_mla":
        return spec
    if backend.exact:
        return evolve(spec, stride_tokens=max(backend.blocks))
    wide = isinstance(cache, Attention) and cache.head_size == 512 and facts.flash_attention_4
    if wide and is_quantized(dtype) and backend.name.endswith("FLASH_ATTN"):
        return evolve(spec, stride_tokens=WIDE_FP8_BLOCK)
    return spec


def _attention_spec(
    cache: Attention, backend: Backend, storage: str, setup: Setup, blocks: Blocks
) -> Spec:
    heads = max(1, cache.heads // setup.tensor)
    values = cache.head_size if cache.chunk else cache.head_size_v
    content = content_bytes(cache.head_size, values, storage)
    spec = Spec(
        kind="window" if cache.window else "chunked" if cache.chunk else "full",
        tokens_per_block=blocks.tokens,
        state_bytes=heads * content,
        heads=heads,
        window=cache.window,
        chunk=cache.chunk,
        format=(heads, cache.head_size, values, storage),
        tensor_shards=None,
    )
    if cache.window is None:
        return spec
    return evolve(
        spec,
        tokens_per_block=_window_block(spec, backend, setup, blocks),
        padded_bytes=blocks.shared_page,
        retained_tokens=setup.retained_tokens,
    )


def _window_block(spec: Spec, backend: Backend, setup: Setup, blocks: Blocks) -> int:
    if setup.facts.window_block == "engine":
        return blocks.tokens
    if setup.facts.window_block == "kernel" and blocks.shared_page is None:
        return min(backend.blocks)
    room = (blocks.shared_page or spec.state_bytes * blocks.tokens) // spec.state_bytes
    if backend.exact or setup.facts.window_block == "kernel":
        return max((size for size in backend.blocks if size <= room), default=min(backend.blocks))
    base = min(backend.blocks)
    return max(base, room // base * base)


def _latent_spec(
    cache: Latent, backend: Backend, storage: str, setup: Setup, blocks: Blocks
) -> Spec:
    if backend.family == "sparse" and is_quantized(storage):
        storage = "nvfp4_ds_mla" if storage == "nvfp4_ds_mla" else "fp8_ds_mla"
    width = _SPARSE_BYTES.get(storage, cache.width * element_bytes(storage))
    leads = cache.leads if setup.facts.index_leaders_differ else None
    return Spec(
        kind="window_mla" if cache.window else "mla",
        tokens_per_block=blocks.tokens,
        state_bytes=width,
        window=cache.window,
        format=(cache.width, storage, leads),
        tensor_shards=1,
    )


def _vector_spec(cache: Vector, setup: Setup, blocks: Blocks) -> Spec:
    tokens = cache.tokens_per_block or blocks.tokens
    return Spec(
        kind=cache.kind,
        tokens_per_block=tokens,
        state_bytes=cache.state_bytes,
        tokens_per_state=cache.tokens_per_state,
        window=cache.window,
        alignment=cache.alignment,
        format=(cache.format, cache.state_bytes),
        tensor_shards=1 if cache.replicated else None,
        retained_tokens=setup.retained_tokens if cache.window else 0,
    )


def _state_spec(cache: State, setup: Setup, blocks: Blocks) -> Spec:
    return Spec(
        kind="mamba",
        tokens_per_block=blocks.state_tokens,
        tokens_per_state=0,
        state_bytes=recurrence_bytes(cache, setup),
        padded_bytes=blocks.state_padded,
        format=(cache.kind, cache.recurrence),
        cache_mode=setup.mamba_mode,
        draft_states=setup.drafts,
        checkpoint_states=int(exports_checkpoints(cache, setup)),
    )
