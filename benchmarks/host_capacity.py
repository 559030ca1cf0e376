"""How much of a host budget is payload: exact sizes per group, against one size for all.

Plans each model, keeps the books of a host tier under a mix of groups that shifts, and prints the
least share that is payload once the tier is full. vLLM's figure comes from the same plan: each
chunk, whatever its group, takes a row as wide as the widest group (``vllm_bytes_per_chunk``).

    python benchmarks/host_capacity.py [--memory "64 GiB"] [--policy lru] [MODEL.json ...]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import kvengine
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Offload, Plan
from kvengine.runtime.books import measure_usable_share
from kvengine.units import format_bytes, parse_bytes

MODELS = Path(__file__).parent.parent / "tests" / "data" / "models"
# Model, vLLM release, and what its cache needs to be planned.
DEFAULT = (
    ("gpt-oss-20b", "0.28", {}),
    ("gpt-oss-20b", "0.32", {}),
    ("deepseek-v4-flash", "0.28", {"dtype": "fp8"}),
    ("deepseek-v4-flash", "0.32", {"dtype": "fp8"}),
    ("gemma-4-31b-it", "0.32", {}),
    ("gemma-4-26b-a4b", "0.32", {}),
    ("qwen3-next-80b-a3b", "0.32", {}),
)


def plan_of(config: Path, release: str, cache: dict[str, object]) -> Plan:
    model = json.loads(config.read_text())
    document = {
        "schema": 2,
        "vllm": release,
        "model": {"config": model.get("config", model)},
        "cache": {"memory": "60 GiB", "prefix_caching": True, **cache},
        "kv_transfer": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"blocks_per_chunk": 1, "cpu_bytes_to_use": 1 << 36},
        },
    }
    return make_plan(kvengine.load(document))


def vllm_share(offload: Offload) -> float:
    """Payload by row, each group storing as many chunks as any other."""
    return sum(offload.chunk_bytes) / len(offload.chunk_bytes) / offload.vllm_bytes_per_chunk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="config.json files")
    parser.add_argument("--vllm", default="0.32", help="release for MODEL arguments")
    parser.add_argument("--memory", default="8 GiB", help="host budget; nothing is allocated")
    parser.add_argument("--policy", default="lru")
    args = parser.parse_args()
    cases = [(str(path), args.vllm, {}) for path in args.models] or DEFAULT
    budget = parse_bytes(args.memory)
    print(f"host budget {format_bytes(budget)}, policy {args.policy}, mix shifting over groups\n")
    print(f"{'model':24} {'vLLM':5} {'groups':>6} {'chunk KiB':>16} {'ours':>7} {'vLLM rows':>9}")
    for name, release, cache in cases:
        path = Path(name) if name.endswith(".json") else MODELS / f"{name}.json"
        plan = plan_of(path, release, cache)
        offload = plan.offload
        if not isinstance(offload, Offload):
            print(f"{path.stem:24} {release:5} {offload}")
            continue
        sizes = sorted({size / 1024 for size in offload.chunk_bytes})
        share = measure_usable_share(
            offload.chunk_bytes,
            budget_bytes=max(budget, 200 * max(offload.chunk_bytes)),
            policy=args.policy,
        )
        span = f"{sizes[0]:.0f}" if len(sizes) == 1 else f"{sizes[0]:.0f}-{sizes[-1]:.0f}"
        print(
            f"{path.stem:24} {release:5} {len(plan.groups):6} {span:>16} "
            f"{share:7.2%} {vllm_share(offload):9.2%}"
        )


if __name__ == "__main__":
    main()
