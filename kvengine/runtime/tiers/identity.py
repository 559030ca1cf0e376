"""What the bytes of a chunk depend on besides its key: the namespace of every lasting tier.

A key says which tokens a chunk stands for. Which bytes those tokens become is decided by the
model, the cache dtype, the layout, the chunk geometry, the rank and the hash; all of that is
one ``Identity``, and its digest is the only name under which a tier keeps or finds chunks. A
difference in any of it is another namespace, hence a miss (cases R06, R07, R08, R26).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, field, frozen
from attrs.validators import and_, deep_iterable, ge, instance_of, min_len, optional

from kvengine.config.engine import Config
from kvengine.plan.dtypes import storage_of
from kvengine.plan.plan import Offload, Plan
from kvengine.plan.setup import resolve_setup

__all__ = ["CHUNK_FORMAT", "GroupGeometry", "Identity", "digest_of", "identity_of"]

CHUNK_FORMAT = 1
"""Version of how kvengine arranges a group's payload in a chunk; a change is another identity."""


def _whole(least: int) -> Any:
    return field(validator=and_(instance_of(int), ge(least)))


def _text() -> Any:
    return field(validator=and_(instance_of(str), min_len(1)))


@frozen(kw_only=True)
class GroupGeometry:
    """One group's chunk: what it is made of and how large it is on one rank."""

    kind: str = _text()
    """Kind of attention or state, as a plan names it: ``"full"``, ``"window"``, ``"mamba"``."""
    layers: tuple[str, ...] = field(
        converter=tuple, validator=and_(min_len(1), deep_iterable(instance_of(str)))
    )
    """Names of the layers, in the order in which their pages lie in a block's row."""
    tokens_per_block: int = _whole(1)
    page_bytes: tuple[int, ...] = field(
        converter=tuple, validator=and_(min_len(1), deep_iterable(and_(instance_of(int), ge(1))))
    )
    """Bytes of one block of each layer; one value if all layers agree."""
    blocks_per_chunk: int = _whole(1)
    chunk_bytes: int = _whole(1)
    """Exact payload of one chunk."""


@frozen(kw_only=True)
class Identity:
    """Everything that the bytes of an engine's chunks depend on, as plain values.

    Two engines share chunks exactly if their identities are equal. ``replicated`` declares that
    every rank of the topology holds the same bytes (MLA latents, say); then rank and topology
    are left out of the digest, otherwise each rank has a namespace of its own.
    """

    model: str = _text()
    """Which weights: revision, or digest of config and weights. A bare name is not enough."""
    cache_dtype: str = _text()
    """The effective dtype of the cache, never ``"auto"``."""
    layout: str = _text()
    """Arrangement of a page and row, as the plan names it, with whatever makes it another."""
    layout_version: int = _whole(0)
    runner: str = _text()
    """Who computes the bytes: engine, release and model runner."""
    groups: tuple[GroupGeometry, ...] = field(
        converter=tuple, validator=and_(min_len(1), deep_iterable(instance_of(GroupGeometry)))
    )
    tensor_parallel: int = _whole(1)
    pipeline_parallel: int = _whole(1)
    decode_context_parallel: int = _whole(1)
    prefill_context_parallel: int = _whole(1)
    rank: int = _whole(0)
    """Rank within the topology above; data-parallel replicas have equal ranks."""
    replicated: bool = field(default=False, validator=instance_of(bool))
    hash_algorithm: str = _text()
    hash_seed: str | None = field(default=None, validator=optional(instance_of(str)))
    """The seed of the key hash; None if the algorithm has none."""
    salt: str = field(default="", validator=instance_of(str))
    """Freely chosen, to keep engines apart that would otherwise share."""

    def __attrs_post_init__(self) -> None:
        if self.cache_dtype == "auto":
            raise ValueError("cache_dtype must be the effective dtype, not 'auto'")
        world = (
            self.tensor_parallel
            * self.pipeline_parallel
            * self.decode_context_parallel
            * self.prefill_context_parallel
        )
        if self.rank >= world:
            raise ValueError(f"rank {self.rank} does not exist in a topology of {world} ranks")

    def ingredients(self) -> dict[str, Any]:
        """What the digest covers, by name, as JSON types."""
        facts = asdict(self, value_serializer=_json_type)
        if self.replicated:
            for name in ("tensor_parallel", "decode_context_parallel", "prefill_context_parallel"):
                del facts[name]
            facts["rank"] = self._stage()
        return {"chunk_format": CHUNK_FORMAT, **facts}

    @property
    def digest(self) -> str:
        """The name of the namespace: 32 hexadecimal digits, the same on every machine."""
        return digest_of(self.ingredients())

    @property
    def chunk_bytes(self) -> tuple[int, ...]:
        """Payload of a chunk per group number, the last four bytes of a key."""
        return tuple(group.chunk_bytes for group in self.groups)

    def _stage(self) -> int:
        """The pipeline stage of the rank: stages hold different layers, replicated or not."""
        world = (
            self.tensor_parallel
            * self.pipeline_parallel
            * self.decode_context_parallel
            * self.prefill_context_parallel
        )
        return self.rank // (world // self.pipeline_parallel)


def identity_of(
    plan: Plan,
    config: Config,
    *,
    rank: int = 0,
    revision: str | None = None,
    runner: str = "kvengine",
    hash_algorithm: str = "sha256",
    hash_seed: str | None = None,
    salt: str = "",
) -> Identity:
    """The identity of the chunks that one rank of a planned engine keeps.

    ``plan`` is what the engine is opened with (of a pipeline, the one of the rank's stage).
    ``revision`` says which weights, where several models share a config.json; else that file's
    facts have to do. The rest is how the caller hashes tokens to keys, and ``salt`` anything else
    that keeps engines apart.
    """
    parallel, setup = config.parallel, resolve_setup(config)
    cache_dtype = storage_of(plan.cache_dtype, setup.model_dtype)
    groups: Any = tuple(_geometry(plan, index) for index in range(len(plan.groups)))
    return Identity(
        model=revision or digest_of({"config": dict(config.model.config)}),
        cache_dtype=f"{cache_dtype}, states {setup.mamba_dtype} of {setup.model_dtype}",
        layout=plan.layout,
        layout_version=0,
        runner=f"{runner}, vLLM {plan.vllm}",
        groups=groups,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        decode_context_parallel=parallel.decode_context,
        prefill_context_parallel=parallel.prefill_context,
        rank=rank,
        replicated=isinstance(plan.offload, Offload) and plan.offload.replicated,
        hash_algorithm=hash_algorithm,
        hash_seed=hash_seed,
        salt=salt,
    )


def _geometry(plan: Plan, index: int) -> GroupGeometry:
    group, offload = plan.groups[index], plan.offload
    per_chunk, chunk_bytes = 1, group.row_bytes
    if isinstance(offload, Offload):
        per_chunk, chunk_bytes = offload.blocks_per_chunk[index], offload.chunk_bytes[index]
    layers: Any = group.layers
    pages: Any = tuple(slot.page_bytes for slot in plan.slots if slot.group == index)
    return GroupGeometry(
        kind=group.kind,
        layers=layers,
        tokens_per_block=group.tokens_per_block,
        page_bytes=pages,
        blocks_per_chunk=per_chunk,
        chunk_bytes=chunk_bytes,
    )


def _json_type(instance: Any, attribute: Any, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def digest_of(ingredients: Mapping[str, Any] | Sequence[Any]) -> str:
    """32 hexadecimal digits of SHA-256 over the canonical JSON of plain values."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
