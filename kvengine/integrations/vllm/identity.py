"""The name under which an engine's chunks are kept by tiers that outlive it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kvengine.integrations.vllm.note import Note
from kvengine.rules.releases import Release
from kvengine.runtime.tiers.identity import GroupGeometry, Identity

__all__ = ["identity_of", "warn_of_random_hashes"]

_log = logging.getLogger(__name__)
_STABLE_SINCE = Release(0, 29)


def identity_of(
    config: Any, note: Note, chunk_bytes: Sequence[int], *, replicated: bool
) -> Identity:
    """Everything that the bytes of a chunk depend on, of vLLM's ``OffloadingConfig``.

    A chunk holds all ranks' bytes one after the other, so its identity is that of rank 0 in
    this topology.
    """
    parallel = config.parallel
    kinds = note.kinds if len(note.kinds) == len(chunk_bytes) else ("unknown",) * len(chunk_bytes)
    groups = tuple(
        GroupGeometry(
            kind=kind,
            layers=group.layer_names,
            tokens_per_block=group.tokens_per_block,
            page_bytes=(size // config.cache.blocks_per_chunk,),
            blocks_per_chunk=config.cache.blocks_per_chunk,
            chunk_bytes=size,
        )
        for group, size, kind in zip(config.groups, chunk_bytes, kinds, strict=True)
    )
    return Identity(
        model=note.model,
        cache_dtype=note.cache_dtype,
        layout=str(getattr(config, "kv_cache_layout", None) or "vllm"),
        layout_version=1,
        runner=note.runner,
        groups=groups,  # type: ignore[arg-type]
        tensor_parallel=parallel.tp_size,
        pipeline_parallel=parallel.pp_size,
        decode_context_parallel=parallel.dcp_size,
        prefill_context_parallel=parallel.pcp_size,
        rank=0,
        replicated=replicated,
        hash_algorithm=f"{note.hash_algorithm}/{config.cache.tokens_per_hash}",
        hash_seed=note.hash_seed,
    )


def warn_of_random_hashes(note: Note, release: Release) -> None:
    """Say that nothing will be found again when the hashes of prefixes differ per process."""
    if note.hash_seed is not None:
        return
    if release < _STABLE_SINCE or note.hash_algorithm.startswith("xxhash"):
        _log.warning(
            "secondary_tiers: chunks will not be found after a restart, because vLLM %s hashes"
            " prefixes with a random seed; set PYTHONHASHSEED to a fixed number",
            release,
        )
