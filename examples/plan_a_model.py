"""Plan an engine document and print what matters. Needs neither a GPU nor torch.

python examples/plan_a_model.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import kvengine
from kvengine.units import format_bytes


def main(file: str) -> None:
    plan = kvengine.make_plan(kvengine.load(file))
    print(f"{plan.num_blocks} blocks of {format_bytes(plan.bytes_per_block)}, layout {plan.layout}")
    for number, group in enumerate(plan.groups):
        row = format_bytes(group.row_bytes)
        print(f"group {number}: {len(group.layers)} {group.kind} layers, a row takes {row}")
    print(f"{plan.capacity_tokens} tokens fit, {plan.max_concurrency:.2f} requests at full length")


if __name__ == "__main__":
    main(*sys.argv[1:] or [str(Path(__file__).parent / "gpt-oss-20b.toml")])
