"""What is tried inside vLLM: engines and steps, and what must come out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

__all__ = ["SCENARIOS", "Scenario"]

MIB = 1 << 20
SEEDS = [0, 1, 2]
FILLERS = [1000, 1001, 1002, 1003, 1004, 1005, 1006]


def generate(seeds: Sequence[int], name: str, **more: Any) -> dict[str, Any]:
    return {"do": "generate", "name": name, "seeds": list(seeds), **more}


RESET = {"do": "reset"}
DRAIN = {"do": "drain"}


@frozen(kw_only=True)
class Scenario:
    """Engines that run one after the other, with one disk directory ``{disk}`` for all of them."""

    name: str
    kind: str = "dense"
    engines: Sequence[dict[str, Any]]
    modes: Sequence[str] = ("in process", "multi-process")
    releases: Sequence[str] = ("0.32.0",)
    cached: int = 480
    """Cached tokens that each prompt must have at least, in the last step called ``again``."""
    loads: bool = True
    differs: bool = False
    """A negative control: the last answers must not be those of an engine without offload."""
    refused: str = ""
    """The engine must not start, and this must be in the reason."""
    least: dict[str, float] = field(factory=dict)
    """Metrics of the last engine that must reach these values."""
    events: bool = False
    threads: str = "0-1"


def engine(
    steps: Sequence[dict[str, Any]],
    *,
    blocks: int = 1,
    host: int = 64 * MIB,
    spec: tuple[str, str] = ("KVEngineOffloadingSpec", "kvengine.integrations.vllm"),
    extra: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "transfer": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": spec[0],
                "spec_module_path": spec[1],
                "cpu_bytes_to_use": host,
                "blocks_per_chunk": blocks,
                **(extra or {}),
            },
        },
        "steps": list(steps),
        **more,
    }


AGAIN = [generate(SEEDS, "first"), RESET, generate(SEEDS, "again")]
PRESSED = [generate(SEEDS, "first"), generate(FILLERS, "fillers"), generate(SEEDS, "again")]
DISK = {"secondary_tiers": [{"type": "fs", "root_dir": "{disk}", "max_bytes": 256 * MIB}]}
STORED = [generate(SEEDS, "first"), DRAIN]
ZEROS = ("ZeroSpec", "controls")
BOTH = ("0.32.0", "0.28.0")

SCENARIOS = (
    Scenario(name="reset, 1 block a chunk", engines=[engine(AGAIN)], releases=BOTH),
    Scenario(
        name="reset, 4 blocks a chunk",
        engines=[engine(AGAIN, blocks=4)],
        cached=384,
        modes=("in process",),
        releases=BOTH,
    ),
    Scenario(
        name="pressure, 1 block a chunk",
        engines=[engine(PRESSED, gpu_blocks=80)],
        modes=("in process",),
    ),
    Scenario(
        name="pressure, 4 blocks a chunk",
        engines=[engine(PRESSED, blocks=4, gpu_blocks=80)],
        cached=384,
    ),
    Scenario(
        name="all at once, pressure",
        engines=[
            engine(
                [
                    generate(SEEDS, "first", at_once=True),
                    generate(FILLERS, "fillers", at_once=True),
                    generate(SEEDS, "again", at_once=True),
                ],
                gpu_blocks=80,
            )
        ],
        modes=("in process",),
    ),
    Scenario(name="hybrid, reset", kind="hybrid", engines=[engine(AGAIN)], releases=BOTH),
    Scenario(
        name="hybrid, pressure, 4 blocks",
        kind="hybrid",
        engines=[engine(PRESSED, blocks=4, gpu_blocks=100)],
        cached=384,
        modes=("in process",),
        releases=BOTH,
    ),
    Scenario(
        name="host memory too small",
        engines=[engine(PRESSED, host=3 * MIB, gpu_blocks=80)],
        cached=0,
        loads=False,
        modes=("in process",),
        least={"kvengine_evicted_chunks": 1},
    ),
    Scenario(
        name="policies: arc, stored at 2nd sight",
        engines=[
            engine(
                [
                    generate(SEEDS, "first"),
                    RESET,
                    generate(SEEDS, "second"),
                    RESET,
                    generate(SEEDS, "again"),
                ],
                extra={"eviction_policy": "arc", "store_threshold": 2},
            )
        ],
        modes=("in process",),
    ),
    Scenario(
        name="restart with a warm disk",
        engines=[
            engine(STORED, blocks=4, extra=DISK),
            engine([generate(SEEDS, "again")], blocks=4, extra=DISK),
        ],
        cached=384,
        releases=BOTH,
        least={"kvengine_promoted_chunks{'tier': 'fs'}": 9},
    ),
    Scenario(
        name="hybrid, restart with a warm disk",
        kind="hybrid",
        engines=[engine(STORED, extra=DISK), engine([generate(SEEDS, "again")], extra=DISK)],
        modes=("in process",),
        least={"kvengine_promoted_chunks{'tier': 'fs'}": 30},
    ),
    Scenario(
        name="disk behind a small host",
        engines=[engine(PRESSED, host=9 * MIB, gpu_blocks=80, extra=DISK)],
        modes=("in process",),
        least={"kvengine_promoted_chunks{'tier': 'fs'}": 15},
    ),
    Scenario(
        name="disk turns every bit pattern wrong",
        engines=[
            engine(STORED, blocks=4, extra=DISK),
            engine(
                [{"do": "flip", "folder": "{disk}"}, generate(SEEDS, "again")],
                blocks=4,
                extra=DISK,
            ),
        ],
        cached=0,
        loads=False,
        least={"kvengine_failed_promotions{'tier': 'fs'}": 3},
    ),
    Scenario(
        name="disk refuses every write",
        engines=[
            engine(
                [generate([900], "warm"), {"do": "limit", "bytes": 1 << 17}, *AGAIN],
                extra=DISK,
            )
        ],
        modes=("in process",),
        least={"kvengine_refused_demotions{'tier': 'fs'}": 45},
    ),
    Scenario(
        name="control: zeros are loaded",
        engines=[engine(AGAIN, spec=ZEROS)],
        modes=("in process",),
        differs=True,
    ),
    Scenario(
        name="hybrid control: zeros are loaded",
        kind="hybrid",
        engines=[engine(AGAIN, spec=ZEROS)],
        modes=("in process",),
        differs=True,
    ),
    Scenario(
        name="tensor parallel 2",
        engines=[engine(AGAIN, blocks=4, tensor_parallel=2)],
        cached=384,
        modes=("multi-process",),
        threads="0|1",
    ),
    Scenario(
        name="tensor parallel 2, hybrid, warm disk",
        kind="hybrid",
        engines=[
            engine(STORED, extra=DISK, tensor_parallel=2),
            engine([generate(SEEDS, "again")], extra=DISK, tensor_parallel=2),
        ],
        modes=("multi-process",),
        threads="0|1",
        least={"kvengine_promoted_chunks{'tier': 'fs'}": 30},
    ),
    Scenario(
        name="KV events",
        engines=[engine(PRESSED, host=3 * MIB, gpu_blocks=80, events="tcp://*:{port}")],
        cached=0,
        loads=False,
        modes=("multi-process",),
        events=True,
    ),
    Scenario(
        name="refused: no budget",
        engines=[
            engine([], extra={"cpu_bytes_to_use": None, "cpu_byte_to_use": 1 << 30}),
        ],
        modes=("in process",),
        refused="cpu_bytes_to_use",
    ),
)
