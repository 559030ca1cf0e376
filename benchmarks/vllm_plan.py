"""Runs inside a Python that has vLLM: how long vLLM takes to plan the models named as arguments.

Each argument is a directory that holds a config.json. For each, one line of JSON: the model and
the best of a few times for the engine's config, the model on the meta device and the cache plan,
in milliseconds, or the error. Nothing is downloaded and no weights are allocated.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

_MEMORY_BYTES = 40 << 30
_TRIES = 3


def _config(path: str):
    arguments = EngineArgs(
        model=path,
        tokenizer=path,
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=32768,
    )
    return arguments.create_engine_config()


def _join(config) -> None:
    """One rank by itself: what layers ask for when they are built."""
    rendezvous = f"file://{tempfile.mktemp(prefix='plan-bench-')}"
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, rendezvous, 0, "gloo")
        ensure_model_parallel_initialized(1, 1)


def _plan(path: str) -> float:
    start = time.process_time()
    config = _config(path)
    if not torch.distributed.is_initialized():
        before = time.process_time()
        _join(config)
        start += time.process_time() - before
    if hasattr(config.cache_config, "kv_cache_layout"):
        config.cache_config.kv_cache_layout = "LBNHC"
    with set_current_vllm_config(config):
        with torch.device("meta"):
            model = config.model_config
            build, _ = model.registry.resolve_model_cls(model.architectures, model_config=model)
            build(vllm_config=config, prefix="")
        current_platform.update_block_size_for_backend(config)
        specs = get_kv_cache_spec(config)
        get_kv_cache_configs(config, [specs], [_MEMORY_BYTES])
    return time.process_time() - start


def main() -> None:
    for path in sys.argv[1:]:
        name = Path(path).name
        try:
            seconds = min(_plan(path) for _ in range(_TRIES))
        except Exception as error:
            print(json.dumps({"model": name, "error": str(error)[:200]}), flush=True)
            continue
        print(json.dumps({"model": name, "ms": seconds * 1000}), flush=True)


if __name__ == "__main__":
    main()
