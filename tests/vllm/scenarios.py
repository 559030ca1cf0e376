"""What is tried inside vLLM: engines and steps, and what must come out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

__all__ = ["SCENARIOS", "Scenario"]

MIB = 1 << 20
SEEDS = [0, 1, 2]
FILLERS = [1000, 1001, 1002, 1003, 1004, 1005, 1006]
OTHERS = [2000, 2001, 2002, 2003, 2004, 2005, 2006]


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
    releases: Sequence[str] = ("0.32.0", "0.28.0")
    truth: dict[str, Any] = field(factory=lambda: {"steps": [generate(SEEDS, "again")]})
    """The engine without offload whose last answers are right."""
    exact_from_the_start: bool = True
    """Whether every step with the same prompts must give those answers, or only the last."""
    cached: int = 480
    """Cached tokens that each prompt must have at least, in the last step called ``again``."""
    loads: bool = True
    differs: bool = False
    """A negative control: the last answers must not be those of an engine without offload."""
    refused: str = ""
    """The engine must not start, and this must be in the reason."""
    least: dict[str, float] = field(factory=dict)
    """Metrics of the last engine that must reach these values."""
    during: dict[str, dict[str, float]] = field(factory=dict)
    """Metrics of the last engine at a step, exactly."""
    events: Sequence[str] = ()
    """KV events that must be published, with their medium."""
    threads: str = "0-1"
    alone: bool = False
    """Whether it changes the interpreter that it runs in."""
    needs: str = ""
    """A program without which it is left out."""
    core: bool = False
    """Part of the quick run."""

    @property
    def truth_key(self) -> str:
        """What scenarios that are compared with the same engine have in common."""
        return f"{self.kind} {self.truth}"


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
DISK_TIER = {"type": "fs", "root_dir": "{disk}", "max_bytes": 256 * MIB}
DISK = {"secondary_tiers": [DISK_TIER]}
STORE = {
    "secondary_tiers": [
        {"type": "valkey", "url": "valkey://127.0.0.1:{store}/0", "timeout_s": 0.5, "retries": 0}
    ]
}
STORED = [generate(SEEDS, "first"), DRAIN]
RESTARTED = [generate(SEEDS, "again")]
ZEROS = ("ZeroSpec", "controls")
IN_PROCESS, MULTI_PROCESS = ("in process",), ("multi-process",)
TWO_RANKS: dict[str, Any] = {"modes": MULTI_PROCESS, "threads": "0|1"}
FROM_DISK, FROM_STORE = (
    f"kvengine_promoted_chunks{{'tier': '{tier}'}}" for tier in ("fs", "valkey")
)
IN_SERVICE = "kvengine_tier_in_service{'tier': 'valkey'}"
LONG: dict[str, Any] = {"at_once": True, "new_tokens": 250}
MLA: dict[str, Any] = {"mla_caching": True, "block_size": 16, "gpu_blocks": 200}
MLA_CHUNKS, MLA_CHUNK_BYTES = 3 * 31, 4 * 16 * (512 + 64) * 4
"""Of three prompts of 500 tokens in blocks of 16; layers, tokens, values per token, bytes each."""
CACHED_BY_VLLM = [generate(SEEDS, "first"), generate(SEEDS, "again")]


def signal_store(name: str) -> dict[str, Any]:
    return {"do": "signal", "process": "{store_process}", "signal": name}


SCENARIOS = (
    Scenario(name="reset, 1 block a chunk", engines=[engine(AGAIN)], core=True),
    Scenario(name="reset, 4 blocks a chunk", engines=[engine(AGAIN, blocks=4)], cached=384),
    Scenario(name="pressure, 1 block a chunk", engines=[engine(PRESSED, gpu_blocks=80)]),
    Scenario(
        name="pressure, 4 blocks a chunk",
        engines=[engine(PRESSED, blocks=4, gpu_blocks=80)],
        cached=384,
        core=True,
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
    ),
    Scenario(
        name="preempted, answers stored too",
        engines=[
            engine(
                [generate(SEEDS, "first", **LONG), RESET, generate(SEEDS, "again", **LONG)],
                gpu_blocks=56,
                extra={"offload_prompt_only": False},
            )
        ],
        truth={"steps": [generate(SEEDS, "again", **LONG)]},
        cached=32,
        least={"num_preemptions": 1, "kvengine_stored_chunks": 46},
    ),
    Scenario(name="hybrid, reset", kind="hybrid", engines=[engine(AGAIN)], core=True),
    Scenario(
        name="hybrid, pressure, 4 blocks",
        kind="hybrid",
        engines=[engine(PRESSED, blocks=4, gpu_blocks=100)],
        cached=384,
    ),
    Scenario(
        name="host memory too small",
        engines=[engine(PRESSED, host=3 * MIB, gpu_blocks=80)],
        cached=0,
        loads=False,
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
    ),
    Scenario(
        name="everything reset, stored anew",
        engines=[
            engine(
                [
                    generate(SEEDS, "first"),
                    {"do": "reset", "everything": True},
                    generate(SEEDS, "second"),
                    RESET,
                    generate(SEEDS, "again"),
                ]
            )
        ],
        least={"kvengine_stored_chunks": 90},
    ),
    Scenario(
        name="restart with a warm disk",
        engines=[
            engine(STORED, blocks=4, extra=DISK),
            engine(RESTARTED, blocks=4, extra=DISK),
        ],
        cached=384,
        least={FROM_DISK: 9},
        core=True,
    ),
    Scenario(
        name="hybrid, restart with a warm disk",
        kind="hybrid",
        engines=[engine(STORED, extra=DISK), engine(RESTARTED, extra=DISK)],
        least={FROM_DISK: 30},
    ),
    Scenario(
        name="disk behind a small host",
        engines=[engine(PRESSED, host=9 * MIB, gpu_blocks=80, extra=DISK)],
        least={FROM_DISK: 15},
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
        core=True,
    ),
    Scenario(
        name="disk refuses every write",
        engines=[
            engine(
                [generate([900], "warm"), {"do": "limit", "bytes": 1 << 17}, *AGAIN],
                extra=DISK,
            )
        ],
        modes=IN_PROCESS,  # the limit holds for the process that sets it
        least={"kvengine_refused_demotions{'tier': 'fs'}": 45},
        alone=True,
    ),
    Scenario(
        name="restart with a warm store",
        engines=[
            engine(STORED, blocks=4, extra=STORE),
            engine(RESTARTED, blocks=4, extra=STORE),
        ],
        cached=384,
        least={FROM_STORE: 9},
        needs="redis-server",
    ),
    Scenario(
        name="store hangs while serving, comes back",
        engines=[
            engine(
                [
                    generate(SEEDS, "first"),
                    DRAIN,
                    signal_store("SIGSTOP"),
                    generate(FILLERS, "fillers"),
                    {"do": "wait", "seconds": 1.0},
                    generate([3000], "other"),
                    {"do": "metrics", "name": "out"},
                    generate(SEEDS, "meanwhile"),
                    signal_store("SIGCONT"),
                    {"do": "wait", "seconds": 9.0},
                    generate(OTHERS, "others"),
                    {"do": "metrics", "name": "back"},
                    generate(SEEDS, "again"),
                ],
                host=4 * MIB,
                gpu_blocks=80,
                extra=STORE,
            )
        ],
        during={"out": {IN_SERVICE: 0.0}, "back": {IN_SERVICE: 1.0}},
        least={FROM_STORE: 15},
        needs="redis-server",
    ),
    Scenario(
        name="control: zeros are loaded",
        engines=[engine(AGAIN, spec=ZEROS)],
        exact_from_the_start=False,
        differs=True,
        core=True,
    ),
    Scenario(
        name="hybrid control: zeros are loaded",
        kind="hybrid",
        engines=[engine(AGAIN, spec=ZEROS)],
        exact_from_the_start=False,
        differs=True,
        core=True,
    ),
    Scenario(
        name="tensor parallel 2",
        engines=[engine(AGAIN, blocks=4, tensor_parallel=2)],
        cached=384,
        **TWO_RANKS,
    ),
    Scenario(
        name="tensor parallel 2, hybrid, warm disk",
        kind="hybrid",
        engines=[
            engine(STORED, extra=DISK, tensor_parallel=2),
            engine(RESTARTED, extra=DISK, tensor_parallel=2),
        ],
        least={FROM_DISK: 30},
        **TWO_RANKS,
    ),
    Scenario(
        name="pipeline parallel 2",
        engines=[engine(AGAIN, blocks=4, pipeline_parallel=2)],
        cached=384,
        **TWO_RANKS,
    ),
    Scenario(
        name="pipeline parallel 2, hybrid, warm disk",
        kind="hybrid",
        engines=[
            engine(STORED, extra=DISK, pipeline_parallel=2),
            engine(RESTARTED, extra=DISK, pipeline_parallel=2),
        ],
        least={FROM_DISK: 30},
        **TWO_RANKS,
    ),
    Scenario(
        name="MLA, reset",
        kind="mla",
        engines=[engine(AGAIN, **MLA)],
        truth={**MLA, "steps": CACHED_BY_VLLM},
        exact_from_the_start=False,
        cached=496,
        releases=("0.32.0",),  # 0.28's CPU build lacks a module that its MLA imports
    ),
    Scenario(
        name="MLA, tensor parallel 2, stored once",
        kind="mla",
        engines=[engine([*AGAIN, {"do": "metrics", "name": "end"}], tensor_parallel=2, **MLA)],
        truth={**MLA, "tensor_parallel": 2, "steps": CACHED_BY_VLLM},
        during={"end": {"kvengine_stored_bytes": MLA_CHUNKS * MLA_CHUNK_BYTES}},
        exact_from_the_start=False,
        cached=496,
        releases=("0.32.0",),
        **TWO_RANKS,
    ),
    Scenario(
        name="KV events",
        engines=[
            engine(
                PRESSED,
                host=3 * MIB,
                gpu_blocks=80,
                events="tcp://*:{port}",
                extra={"secondary_tiers": [{**DISK_TIER, "enable_kv_events": True}]},
            )
        ],
        modes=MULTI_PROCESS,
        events=("BlockStored CPU", "BlockRemoved CPU", "BlockStored STORAGE"),
    ),
    Scenario(
        name="refused: no budget",
        engines=[
            engine([], extra={"cpu_bytes_to_use": None, "cpu_byte_to_use": 1 << 30}),
        ],
        modes=IN_PROCESS,
        refused="cpu_bytes_to_use",
        core=True,
    ),
)
