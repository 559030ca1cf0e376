"""Run engines of the vLLM that this interpreter has, as told on standard input.

Reads a JSON list of engines, each with the steps to take, and prints one JSON line per engine:
what was generated at each step (tokens, log-probabilities, cached tokens, seconds), and what
vLLM's own metrics say at the end. Runs inside a vLLM environment, started by ``run.py``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models

MARK = "RESULT "


def main() -> None:
    for engine in json.loads(sys.stdin.read()):
        print(MARK + json.dumps(drive(engine)), flush=True)


def drive(engine: dict[str, Any]) -> dict[str, Any]:
    """One engine from start to shutdown."""
    from vllm import LLM
    from vllm.config import KVEventsConfig, KVTransferConfig

    transfer = engine.get("transfer")
    started = time.perf_counter()
    more: dict[str, Any] = {}
    if engine.get("events"):
        more["kv_events_config"] = KVEventsConfig(
            enable_kv_cache_events=True, publisher="zmq", endpoint=engine["events"]
        )
    stages = engine.get("pipeline_parallel", 1)
    if stages > 1:
        # vLLM's CPU worker gives a later stage its buffers only when it warms up, and it does so
        # only when it compiles: with a backend that leaves the model as it is.
        more["compilation_config"] = {"mode": 2, "backend": "eager"}
    if engine.get("mla_caching"):
        allow_prefix_caching_for_mla()
    try:
        llm = LLM(
            model=engine["model"],
            load_format="safetensors",
            skip_tokenizer_init=True,
            enforce_eager=stages == 1,
            dtype="float32",
            max_model_len=engine.get("max_tokens", 1024),
            block_size=engine.get("block_size", 32),
            max_num_seqs=4,
            seed=0,
            num_gpu_blocks_override=engine.get("gpu_blocks", 120),
            enable_prefix_caching=True,
            disable_log_stats=False,
            tensor_parallel_size=engine.get("tensor_parallel", 1),
            pipeline_parallel_size=stages,
            kv_transfer_config=KVTransferConfig(**transfer) if transfer else None,
            **more,
        )
    except Exception as error:  # the caller decides whether that was expected
        return {"error": f"{type(error).__name__}: {error}"}
    built = time.perf_counter()
    with Events(engine.get("events")) as events:
        steps = [take(llm, step) for step in engine["steps"]]
        result = {
            "build_s": round(built - started, 2),
            "steps": steps,
            "metrics": metrics(llm),
            "events": events.seen(),
        }
    stop(llm)
    return result


def take(llm: Any, step: dict[str, Any]) -> dict[str, Any]:
    """One step: generate, forget the engine's own prefix cache, wait, or break something."""
    started = time.perf_counter()
    result: dict[str, Any] = {"name": step.get("name", step["do"])}
    match step["do"]:
        case "generate":
            result |= generate(llm, step)
        case "reset":
            drain(llm)
            everything = step.get("everything", False)
            result["ok"] = bool(llm.reset_prefix_cache(reset_connector=everything))
        case "drain":
            drain(llm, step.get("seconds", 1.0))
        case "wait":
            time.sleep(step["seconds"])
        case "flip":
            result["flipped"] = flip(Path(step["folder"]))
        case "signal":
            os.kill(int(step["process"]), signal.Signals[step["signal"]])
        case "metrics":
            result["metrics"] = metrics(llm)
        case "limit":  # no file may grow any more: every write of a tier fails
            resource.setrlimit(resource.RLIMIT_FSIZE, (step["bytes"], resource.RLIM_INFINITY))
    result["seconds"] = round(time.perf_counter() - started, 4)
    return result


def generate(llm: Any, step: dict[str, Any]) -> dict[str, Any]:
    """Generate greedily from the prompts of some seeds, one after the other or all at once."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=step.get("new_tokens", 8),
        ignore_eos=True,
        detokenize=False,
        logprobs=1,
    )
    prompts = [
        {"prompt_token_ids": models.prompt(seed, step.get("num_tokens", 500))}
        for seed in step["seeds"]
    ]
    batches = [prompts] if step.get("at_once") else [[prompt] for prompt in prompts]
    outputs = [
        output for batch in batches for output in llm.generate(batch, sampling, use_tqdm=False)
    ]
    chosen = [
        [position[token].logprob for token, position in zip(o.token_ids, o.logprobs, strict=True)]
        for o in (output.outputs[0] for output in outputs)
    ]
    return {
        "seeds": step["seeds"],
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "logprobs": chosen,
        "cached": [output.num_cached_tokens for output in outputs],
    }


def drain(llm: Any, seconds: float = 1.0) -> None:
    """Let transfers finish that outlive their request; in process nobody else steps for us."""
    until = time.perf_counter() + seconds
    core = llm.llm_engine.engine_core
    scheduler = getattr(getattr(core, "engine_core", None), "scheduler", None)
    while time.perf_counter() < until:
        if scheduler is not None:
            llm.llm_engine.step()
            if not scheduler.has_requests():
                break
        time.sleep(0.02)


def allow_prefix_caching_for_mla() -> None:
    """Let vLLM's CPU platform cache prefixes of MLA models, which it switches off.

    Its reference kernels can continue behind a cached prefix; they are not as exact as from the
    start, so that answers are compared with those behind vLLM's own prefix cache.
    """
    from vllm.platforms.cpu import CpuPlatform

    switch_off = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls: Any, config: Any) -> None:
        chunked = config.scheduler_config.enable_chunked_prefill
        cached = config.cache_config.enable_prefix_caching
        switch_off(cls, config)
        config.scheduler_config.enable_chunked_prefill = chunked
        config.cache_config.enable_prefix_caching = cached

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)


def flip(folder: Path) -> int:
    """Turn one bit in every 4 KiB of every file but what is shorter than 64 KiB; how many bits."""
    count = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.stat().st_size < 65536:
            continue
        with path.open("r+b") as file:
            for at in range(8192, path.stat().st_size, 4096):
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0x10]))
                count += 1
    return count


def metrics(llm: Any) -> dict[str, float]:
    """vLLM's Prometheus values of offloading: counters and gauges, histograms as their sums."""
    drain(llm, 0.5)
    waiting = getattr(llm.llm_engine.engine_core, "outputs_queue", None)
    if waiting is None:
        llm.llm_engine.step()
    else:  # a step waits for an output: take those that are there
        while not waiting.empty():
            llm.llm_engine.step()
    found: dict[str, float] = {}
    for metric in llm.get_metrics():
        if not any(word in metric.name for word in ("offload", "kvengine", "preemption")):
            continue
        labels = {k: v for k, v in metric.labels.items() if k not in ("engine", "model_name")}
        name = metric.name.removeprefix("vllm:") + ("" if not labels else str(labels))
        found[name] = getattr(metric, "value", None) or getattr(metric, "sum", 0.0) or 0.0
    return found


class Events:
    """Counts the KV events that vLLM publishes."""

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint

    def __enter__(self) -> Events:
        if self._endpoint:
            import zmq

            self._socket = zmq.Context.instance().socket(zmq.SUB)
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
            self._socket.connect(self._endpoint.replace("*", "127.0.0.1"))
            time.sleep(0.5)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._endpoint:
            self._socket.close(0)

    def seen(self) -> dict[str, int]:
        if not self._endpoint:
            return {}
        import msgspec

        found: dict[str, int] = {}
        while self._socket.poll(300):
            for part in self._socket.recv_multipart():
                with contextlib.suppress(msgspec.DecodeError):
                    for event in msgspec.msgpack.decode(part)[1]:
                        text = json.dumps(event, default=str)
                        kind = event[0] if isinstance(event, list) else event.get("type", "?")
                        media = [name for name in ("CPU", "STORAGE") if f'"{name}"' in text]
                        medium = media[0] if media else "GPU"
                        found[f"{kind} {medium}"] = found.get(f"{kind} {medium}", 0) + 1
        return found


def stop(llm: Any) -> None:
    """Shut the engine down so that the next one can start in this process."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0":
        cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main()
