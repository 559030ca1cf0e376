"""vLLM's own server with kvengine, started as the documentation says, asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

__all__ = ["serve"]

START_S, REQUEST_S, STOP_S = 240, 120, 60
TRANSFER = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "spec_name": "KVEngineOffloadingSpec",
        "spec_module_path": "kvengine.integrations.vllm",
        "cpu_bytes_to_use": 64 << 20,
        "blocks_per_chunk": 4,
    },
}
EXPECTED = {"stored_chunks_total": 3.0, "loaded_chunks_total": 3.0, "host_resident_chunks": 3.0}
"""A prompt of 500 tokens has three whole chunks of 4 blocks of 32 tokens."""


def serve(
    python: Path, model: str, port: int, environment: dict[str, str], log: Path
) -> dict[str, Any]:
    """Serve a model, ask the same twice with an emptied prefix cache between, read /metrics."""
    flags = ["--load-format", "safetensors", "--enforce-eager", "--dtype", "float32"]
    flags += ["--max-model-len", "1024", "--block-size", "32", "--num-gpu-blocks-override", "120"]
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += [*flags, "--port", str(port), "--kv-transfer-config", json.dumps(TRANSFER)]
    environment = {**os.environ, **environment, "VLLM_SERVER_DEV_MODE": "1"}
    before = regions()
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        problems = ask(Server(port, server), model)
    except (OSError, RuntimeError) as error:
        problems = [f"{error}: {log.read_text()[-1500:]}"]
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            problems.append(f"the server did not stop within {STOP_S} s")
    problems += [f"{path} was left behind" for path in regions() - before]
    return {"problems": problems}


class Server:
    """A server that is starting or up."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self._process = process

    def wait_until_up(self) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}")
            try:
                self.call("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        raise RuntimeError(f"the server did not start within {START_S} s")

    def call(self, path: str, body: Any = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._root + path, data, headers)
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            text: str = answer.read().decode()
            return text


def ask(server: Server, model: str) -> list[str]:
    """What is wrong with the answers and the metrics."""
    question = {
        "model": model,
        "prompt": list(range(3, 503)),
        "max_tokens": 8,
        "temperature": 0,
        "ignore_eos": True,
        "logprobs": 1,
    }
    server.wait_until_up()
    answers = []
    for _ in range(2):
        answers.append(json.loads(server.call("/v1/completions", question))["choices"][0])
        time.sleep(1.0)
        server.call("/reset_prefix_cache", {})
    problems = []
    first, second = (answer["logprobs"]["token_logprobs"] for answer in answers)
    apart = max(abs(a - b) for a, b in zip(first, second, strict=True))
    if answers[0]["text"] != answers[1]["text"] or apart > 1e-4:
        problems.append(f"other answers the second time (difference {apart:.2g})")
    found = metrics(server.call("/metrics"))
    for name, value in EXPECTED.items():
        if found.get(f"vllm:kvengine_{name}") != value:
            problems.append(f"{name} is {found.get(f'vllm:kvengine_{name}')}, expected {value}")
    return problems


def metrics(text: str) -> dict[str, float]:
    """Prometheus text, by name without labels."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name.split("{")[0]: float(value) for name, value in lines}


def regions() -> set[Path]:
    """Shared memory of engines that has a name."""
    return set(Path("/dev/shm").glob("kvengine-*"))
