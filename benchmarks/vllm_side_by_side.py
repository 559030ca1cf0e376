"""kvengine's spec and vLLM's own on the same engine, with the same host memory.

Two tiny models, one with a single attention group and one with two; a random stream of prompts of
which about half fits host memory; block tables too small to help much. For each spec: share of
prompt tokens that were not computed again, bytes copied per loaded token, host bytes taken per
stored token, and scheduler time per step (everything that vLLM asks of the manager).

    python benchmarks/vllm_side_by_side.py [--json] [--only TEXT]

Runs in ``.venv-vllm032`` (``make test-vllm`` makes it), on CPU: vLLM's manager, policies and sizes
are the real ones, only its GPU copies are replaced by torch's.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-vllm032" / "bin" / "python"
OURS = {"spec_name": "KVEngineOffloadingSpec", "spec_module_path": "kvengine.integrations.vllm"}
THEIRS = {"spec_name": "PeerSpec", "spec_module_path": "vllm_peers"}
SPECS = (("vLLM lru", THEIRS, "lru"), ("vLLM arc", THEIRS, "arc"))
SPECS += (
    ("kvengine lru", OURS, "lru"),
    ("kvengine arc", OURS, "arc"),
    ("kvengine s3fifo", OURS, "s3fifo"),
)
KIB = 1 << 10
HOST_BYTES = {"dense": 24 * 1024 * KIB, "hybrid": 24 * 1024 * KIB}
PROMPTS, REQUESTS, TOKENS = 24, 80, 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="rows whose model and spec hold this text")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        print("RESULT " + json.dumps(run_all(chosen.only)))
        return 0
    if not PYTHON.exists():
        print(f"{PYTHON} is missing: make test-vllm makes it")
        return 0
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            map(str, (ROOT, ROOT / "benchmarks", ROOT / "tests" / "vllm"))
        ),
        "PYTHONHASHSEED": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [str(PYTHON), __file__, "--inside", "--only", chosen.only]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    marked = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not marked:
        print(done.stderr[-4000:])
        return 1
    rows = json.loads(marked[0][7:])
    print(json.dumps({"version": 1, "rows": rows}) if chosen.json else table(rows))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people."""
    head = f"{'model':7} {'spec':16} {'not computed':>12} {'bytes/token':>12} {'held chunks':>12}"
    lines = [head + f" {'us/step':>9} {'us/request':>11} {'steps':>6}"]
    lines += [
        f"{row['model']:7} {row['spec']:16} {row['cached_share']:12.1%}"
        f" {row['bytes_per_loaded_token']:12.0f} {row['held_chunks']:12d}"
        f" {row['step_us']:9.1f} {row['request_us']:11.1f} {row['steps']:6d}"
        for row in rows
    ]
    return "\n".join(lines)


def run_all(only: str) -> list[dict[str, Any]]:
    """Every spec on every model whose names hold a text, in one interpreter."""
    import models

    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for kind in ("dense", "hybrid"):
            folder = models.write_model(Path(scratch) / kind, kind)
            picked = [spec for spec in SPECS if only in f"{kind} {spec[0]}"]
            rows += [measure(folder, kind, *spec) for spec in picked]
    return rows


def measure(
    folder: Path, kind: str, name: str, spec: dict[str, str], policy: str
) -> dict[str, Any]:
    """One engine over the whole stream."""
    import models
    from vllm import LLM, SamplingParams
    from vllm.config import KVTransferConfig
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    extra = {**spec, "cpu_bytes_to_use": HOST_BYTES[kind], "eviction_policy": policy}
    llm = LLM(
        model=str(folder),
        load_format="safetensors",
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=1024,
        block_size=32,
        max_num_seqs=4,
        seed=0,
        num_gpu_blocks_override=100,
        enable_prefix_caching=True,
        disable_log_stats=False,
        kv_transfer_config=KVTransferConfig(
            kv_connector="OffloadingConnector", kv_role="kv_both", kv_connector_extra_config=extra
        ),
    )
    core = llm.llm_engine.engine_core.engine_core
    manager = core.scheduler.connector.connector_scheduler.manager
    clock = Clock(manager)
    sampling = SamplingParams(temperature=0.0, max_tokens=2, ignore_eos=True, detokenize=False)
    chance = random.Random(1)
    weights = [1 / (rank + 1) ** 0.8 for rank in range(PROMPTS)]
    cached = 0
    for _ in range(REQUESTS):
        (number,) = chance.choices(range(PROMPTS), weights)
        prompt = {"prompt_token_ids": models.prompt(number, TOKENS)}
        (output,) = llm.generate([prompt], sampling, use_tqdm=False)
        cached += output.num_cached_tokens
    llm.llm_engine.step()
    found = {metric.name: getattr(metric, "value", 0) for metric in llm.get_metrics()}
    external = sum(
        metric.value
        for metric in llm.get_metrics()
        if metric.name == "vllm:external_prefix_cache_hits"
    )
    result = {
        "model": kind,
        "spec": name,
        "host_bytes": HOST_BYTES[kind],
        "requests": REQUESTS,
        "cached_share": cached / (REQUESTS * TOKENS),
        "loaded_tokens": external,
        "bytes_per_loaded_token": found["vllm:kv_offload_load_bytes"] / max(1, external),
        "held_chunks": held(manager),
        "step_us": statistics.median(clock.busy) * 1e6,
        "request_us": sum(clock.busy, clock.idle) * 1e6 / REQUESTS,
        "steps": len(clock.busy),
    }
    llm.llm_engine.engine_core.shutdown()
    del llm, core, manager, clock
    gc.collect()
    cleanup_dist_env_and_memory()
    return result


def held(manager: Any) -> int:
    """Chunks in host memory at the end."""
    ledger = getattr(manager, "ledger", None)
    if ledger is not None:
        return len(ledger.pool)
    return manager._num_allocated_chunks - len(manager._free_list)


class Clock:
    """Adds up the time of a manager's methods, step by step.

    An engine that waits for a transfer steps without scheduling anything: such steps count for
    the time per request, but not as steps.
    """

    METHODS = ("lookup", "touch", "prepare_load", "complete_load", "prepare_store")
    METHODS += ("complete_store", "on_new_request", "on_request_finished", "get_stats")

    WORK = ("lookup", "prepare_load", "complete_load", "prepare_store", "complete_store")

    def __init__(self, manager: Any) -> None:
        self.busy: list[float] = []
        self.idle = 0.0
        self._spent = 0.0
        self._worked = False
        for name in self.METHODS:
            setattr(manager, name, self._timed(getattr(manager, name)))
        end = self._timed(manager.on_schedule_end)

        def on_schedule_end(context: Any) -> None:
            end(context)
            if self._worked:
                self.busy.append(self._spent)
            else:
                self.idle += self._spent
            self._spent, self._worked = 0.0, False

        manager.on_schedule_end = on_schedule_end

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **more: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **more)
            finally:
                self._spent += time.perf_counter() - started
                self._worked |= call.__name__ in self.WORK

        return timed


if __name__ == "__main__":
    sys.exit(main())
