"""Tokens per block: what backends prefer, and what recurrent states and mixed dtypes ask for."""

from __future__ import annotations

from math import lcm

from attrs import frozen

from kvengine.errors import PlanError
from kvengine.plan.backends import Backend, smallest_block
from kvengine.plan.dtypes import content_bytes, element_bytes, is_quantized
from kvengine.plan.setup import Setup
from kvengine.plan.specs import State
from kvengine.units import ceil_div

__all__ = [
    "WIDE_FP8_BLOCK",
    "Blocks",
    "exports_checkpoints",
    "recurrence_bytes",
    "resolve_blocks",
    "unquantized_layers",
]

WIDE_FP8_BLOCK = 64
"""Tokens per block that FlashAttention 4 wants for fp8 heads of 512."""


@frozen(kw_only=True)
class Blocks:
    """Tokens per block of attention and of recurrent states, and the pages that go with them.

    ``state_padded``: bytes that a recurrent page is padded to. ``shared_page``: bytes that
    window layers left unquantised are padded to.
    """

    tokens: int
    state_tokens: int
    state_padded: int | None
    shared_page: int | None


def resolve_blocks(setup: Setup, backends: tuple[Backend, ...]) -> Blocks:
    """The block sizes of an engine whose attention layers have these backends, in their order."""
    asked = setup.asked_block
    tokens = asked or 16
    if backends and asked is None:
        tokens = _preferred(setup, backends)
    state_tokens, padded, shared = _state_tokens(setup, tokens), None, None
    if setup.model.hybrid and backends and setup.model.state is not None:
        tokens, padded = _aligned(setup, backends, tokens)
        if setup.mamba_mode in ("align", "all"):
            state_tokens = tokens
    elif backends and unquantized_layers(setup):
        tokens, shared = _raised(setup, backends[0], tokens)
    return Blocks(tokens=tokens, state_tokens=state_tokens, state_padded=padded, shared_page=shared)


def _state_tokens(setup: Setup, tokens: int) -> int:
    if setup.mamba_mode == "none":
        return setup.mamba_block or setup.max_model_len
    return setup.mamba_block or tokens


def _preferred(setup: Setup, backends: tuple[Backend, ...]) -> int:
    if not setup.facts.block_of_all_backends or len(backends) == 1:
        return _preferred_of(backends[0], setup)
    common = smallest_block(backends)
    if common is None:
        raise PlanError(
            "setup",
            "geometry",
            "the attention backends share no block size",
            ", ".join(backend.name for backend in backends),
            path=("cache", "tokens_per_block"),
        )
    return common


def _preferred_of(backend: Backend, setup: Setup) -> int:
    wide = setup.facts.flash_attention_4 and setup.model.head_size == 512
    if wide and backend.name.endswith("FLASH_ATTN") and is_quantized(setup.cache_dtype):
        return WIDE_FP8_BLOCK
    return backend.preferred_block


def _token_bytes(setup: Setup) -> int:
    """Bytes of one token in one attention layer, by the model-wide head count and size."""
    model = setup.model
    if model.latent:
        return model.head_size * element_bytes(setup.storage)
    heads = max(1, model.kv_heads // setup.tensor)
    return heads * content_bytes(model.head_size, model.head_size, setup.storage)


def _aligned(setup: Setup, backends: tuple[Backend, ...], tokens: int) -> tuple[int, int | None]:
    """The block size at which an attention page holds a recurrent state, and that page."""
    state = setup.model.state
    assert state is not None
    needed = recurrence_bytes(state, setup)
    per_token = _token_bytes(setup)
    if needed == 0:
        return tokens, None
    unit = max(min(backends[0].blocks), tokens)
    if setup.model.latent:
        unit = max(unit, 128)
    if (
        setup.mamba_mode == "align"
        and exports_checkpoints(state, setup)
        and setup.facts.aligns_checkpoints
    ):
        unit = lcm(unit, state.checkpoint_tokens)
    if setup.mamba_mode == "all":
        chunk = lcm(setup.mamba_block or _chunk_size(setup), unit)
        block = chunk * ceil_div(ceil_div(needed, per_token), chunk)
    else:
        block = unit * ceil_div(needed, unit * per_token)
    if setup.facts.block_of_all_backends:
        every = lcm(*(min(backend.blocks) for backend in backends))
        block = every * ceil_div(block, every)
    block = max(tokens, block)
    page = block * per_token
    return block, page if page > needed else None


def _chunk_size(setup: Setup) -> int:
    return setup.model.text.integer("mamba_chunk_size", "chunk_size", default=2048)


def _raised(setup: Setup, backend: Backend, tokens: int) -> tuple[int, int | None]:
    """The block size at which a quantised page holds one that is left unquantised.

    The release measures both by the first layer's backend, which stores plain numbers.
    """
    heads = max(1, setup.model.kv_heads // setup.tensor)
    size = setup.model.head_size
    plain = heads * content_bytes(size, size, setup.model_dtype)
    packed = heads * 2 * size
    if backend.name == "TURBOQUANT":
        packed = heads * content_bytes(size, size, setup.storage)
    if plain == packed:
        return tokens, None
    smallest = min(backend.blocks)
    unit = max(smallest, tokens)
    block = max(tokens, unit * ceil_div(plain * smallest, unit * packed))
    return block, block * packed


def unquantized_layers(setup: Setup) -> frozenset[int]:
    """Layers that TurboQuant leaves alone: the first and last two, unless the model is a hybrid."""
    if not setup.cache_dtype.startswith("turboquant_") or setup.model.hybrid:
        return frozenset()
    count = setup.model.num_layers
    edge = min(2, count // 2)
    return frozenset([*range(edge), *range(count - edge, count)])


def recurrence_bytes(state: State, setup: Setup) -> int:
    """Bytes of one recurrent state on one rank, before padding."""
    return state.recurrence.bytes_in(
        setup.model_dtype, setup.mamba_dtype, setup.tensor, setup.drafts
    )


def exports_checkpoints(state: State, setup: Setup) -> bool:
    """Whether this release's kernels for this device export a state from inside a prefill."""
    if state.checkpoints_in is None or setup.facts.release not in state.checkpoints_in:
        return False
    return state.checkpoints_on is None or setup.capability.startswith(state.checkpoints_on)
