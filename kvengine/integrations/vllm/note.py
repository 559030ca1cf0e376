"""What rank 0 tells the scheduler about the model: vLLM shows a scheduler-side spec only a name.

A tier that outlives the engine must know what its bytes depend on. The rank has vLLM's whole
configuration; it reads off which weights these are, how keys are hashed and what computes the KV.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

__all__ = ["Note", "engine_config", "read_note", "take_note"]

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


@frozen(kw_only=True)
class Note:
    """Facts about the model that a chunk's bytes depend on, beside its geometry."""

    model: str
    cache_dtype: str
    runner: str
    hash_algorithm: str
    hash_seed: str | None
    kinds: tuple[str, ...] = ()
    """Kind of each group's attention, as kvengine plans it; empty without a plan."""

    def text(self) -> str:
        """The note as JSON, for the shared region."""
        return json.dumps(asdict(self))


def read_note(text: str) -> Note:
    """The note that a rank left."""
    facts = json.loads(text)
    facts["kinds"] = tuple(facts["kinds"])
    return Note(**facts)


def engine_config() -> Any | None:
    """vLLM's configuration while a rank is being set up; None outside of that."""
    from vllm.config import get_current_vllm_config

    try:
        return get_current_vllm_config()
    except AssertionError:
        return None


def take_note(
    config: Any | None, name: str, dtype: str, version: str, kinds: tuple[str, ...]
) -> Note:
    """Read the facts off vLLM's configuration, as far as there is one."""
    runner = f"vllm {'.'.join(version.split('.')[:2])}"
    seed = os.environ.get("PYTHONHASHSEED")
    if config is None:
        digest = _digest(name, None, {})
        return Note(
            model=digest, cache_dtype=dtype, runner=runner, hash_algorithm="unknown",
            hash_seed=seed, kinds=kinds,
        )  # fmt: skip
    model = config.model_config
    described = model.hf_config.to_dict()
    quantization = str(model.quantization or "none")
    attention = os.environ.get("VLLM_ATTENTION_BACKEND", "")
    names = ("mamba_cache_dtype", "mamba_ssm_cache_dtype")
    states = "/".join(str(getattr(config.cache_config, name, "auto")) for name in names)
    return Note(
        model=_digest(model.model, model.revision, described),
        cache_dtype=f"{dtype}, states {states}",
        runner=f"{runner} {model.dtype} {quantization} {attention}".rstrip(),
        hash_algorithm=str(config.cache_config.prefix_caching_hash_algo),
        hash_seed=seed,
        kinds=kinds,
    )


def _digest(name: str, revision: str | None, described: Mapping[str, Any]) -> str:
    """Which weights: revision and config of a hub's model, files of a local one."""
    folder = Path(name)
    files: list[tuple[str, int, int]] = []
    if folder.is_dir():
        for pattern in _WEIGHTS:
            for path in sorted(folder.glob(pattern)):
                found = path.stat()
                files.append((path.name, found.st_size, found.st_mtime_ns))
    commit = described.get("_commit_hash")
    settled = {
        k: v for k, v in described.items() if k not in ("_name_or_path", "transformers_version")
    }
    facts = [name if not files else "", revision, commit, settled, files]
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
