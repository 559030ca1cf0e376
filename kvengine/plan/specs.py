"""What a layer caches: as a model declares it, and resolved to the bytes of one page.

A declaration holds what the model's config says, for the whole model; a :class:`Spec` is what
one rank stores for it, in one release, with one cache dtype and block size.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import Any, Literal

from attrs import Attribute, evolve, field, frozen

from kvengine.plan.states import Recurrence, StateKind
from kvengine.rules.releases import Releases
from kvengine.units import align_up

__all__ = ["Attention", "Cache", "Latent", "Layer", "Spec", "SpecKind", "State", "Vector"]

SpecKind = Literal["full", "window", "chunked", "mla", "window_mla", "mamba"]


def _count(_: Any, field: Attribute[Any], value: Any) -> None:
    """A whole number of at least one."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{field.name} must be a positive whole number, not {value!r}")


def _optional_count(_: Any, field: Attribute[Any], value: Any) -> None:
    if value is not None:
        _count(_, field, value)


@frozen(kw_only=True, cache_hash=True)
class Attention:
    """Keys and values of ``heads`` KV heads; the heads are divided over tensor-parallel ranks.

    ``window`` and ``chunk`` are tokens. ``image_prefix``: image tokens see each other, in both
    directions. ``backend`` is the attention backend where the model names one; otherwise the
    release's own choice applies. ``plain_in``: releases that store it in the model's dtype,
    whatever the cache dtype.
    """

    heads: int = field(validator=_count)
    head_size: int = field(validator=_count)
    head_size_v: int = field(validator=_count)
    window: int | None = field(default=None, validator=_optional_count)
    chunk: int | None = field(default=None, validator=_optional_count)
    sinks: bool = False
    image_prefix: bool = False
    backend: str | None = None
    plain_in: Releases | None = None


@frozen(kw_only=True, cache_hash=True)
class Latent:
    """Multi-head latent attention: one vector of ``width`` elements per token, on every rank.

    ``sparse``: read by sparse kernels, at the tokens that an indexer picks; ``leads`` says
    whether the layer has an indexer of its own.
    """

    width: int = field(validator=_count)
    sparse: bool = False
    leads: bool = False
    window: int | None = field(default=None, validator=_optional_count)
    backend: str | None = None


@frozen(kw_only=True, cache_hash=True)
class Vector:
    """A side cache with a format of its own: ``state_bytes`` for every ``tokens_per_state``.

    ``tokens_per_block`` None follows the engine's block size. ``alignment`` rounds pages up.
    ``replicated``: every tensor-parallel rank is known to hold the same.
    """

    kind: Literal["full", "mla", "window_mla"]
    state_bytes: int = field(validator=_count)
    backend: str
    tokens_per_block: int | None = None
    tokens_per_state: int = 1
    window: int | None = field(default=None, validator=_optional_count)
    alignment: int = 1
    replicated: bool = True
    format: str = ""


@frozen(kw_only=True, cache_hash=True)
class State:
    """A recurrent state: one page per cached position, whatever the tokens in between.

    ``checkpoints_in``: releases whose kernels export a state from inside a prefill, and that
    reserve a page for it; ``checkpoints_on``: compute capabilities that have such kernels, "9.0"
    or "10." for all of that generation, None for any. ``checkpoint_tokens`` is the grid of
    positions where they can.
    """

    kind: StateKind
    recurrence: Recurrence
    backend: str
    checkpoints_in: Releases | None = None
    checkpoints_on: tuple[str, ...] | None = None
    checkpoint_tokens: int = 1


Cache = Attention | Latent | Vector | State


@frozen
class Layer:
    """One cache of one layer. ``stores`` is False where another layer's cache is read."""

    name: str
    index: int
    cache: Cache
    stores: bool = True


@frozen(kw_only=True, cache_hash=True)
class Spec:
    """The pages of one layer on one rank.

    ``tokens_per_state`` 0 stands for a page that holds one recurrent state. ``format`` is
    whatever else tells two caches apart (dtype, heads, head sizes). ``stride_tokens`` are
    tokens of the largest kernel block: larger blocks are split, and must stay whole kernel
    blocks apart.
    """

    kind: SpecKind
    tokens_per_block: int
    state_bytes: int
    heads: int = 1
    tokens_per_state: int = 1
    padded_bytes: int | None = None
    alignment: int = 1
    window: int | None = None
    chunk: int | None = None
    format: tuple[Any, ...] = ()
    pads: bool = False
    stride_bytes: int | None = None
    stride_tokens: int | None = None
    tensor_shards: int | None = None
    retained_tokens: int = 0
    cache_mode: str = "none"
    draft_states: int = 0
    checkpoint_states: int = 0

    @property
    def states(self) -> int:
        """States that one page holds."""
        return self.tokens_per_block // self.tokens_per_state if self.tokens_per_state else 1

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of a page before any padding."""
        return self.states * self.state_bytes

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of a page as it is stored."""
        if self.padded_bytes is not None:
            return self.padded_bytes
        return align_up(self.payload_bytes, self.alignment)

    @property
    def is_full(self) -> bool:
        """Whether a request keeps every token: full attention, latent or not."""
        return self.kind in ("full", "mla")

    def with_block(self, tokens_per_block: int) -> Spec:
        """The same cache with another number of tokens per block."""
        return evolve(self, tokens_per_block=tokens_per_block)

    @cached_property
    def block_alignment(self) -> int:
        """Bytes that the distance between two blocks must be a multiple of."""
        if self.stride_bytes is not None:
            return self.stride_bytes
        if self.stride_tokens is None:
            return 1
        kernel = gcd(self.stride_tokens, self.tokens_per_block)
        return 1 if kernel == self.tokens_per_block else self.with_block(kernel).page_bytes
