"""Oracle rows -> configs, and what of a plan differs from a row. Field names are the oracle's."""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kvengine.config.connectors.offloading import CPUOffloadingSpec
from kvengine.config.engine import Cache, Config, Model, Parallel, Scheduler, Speculative
from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import PlanError
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Plan

KINDS = {
    "FullAttentionSpec": "full",
    "SlidingWindowSpec": "window",
    "ChunkedLocalAttentionSpec": "chunked",
    "MLAAttentionSpec": "mla",
    "SlidingWindowMLASpec": "window_mla",
    "MambaSpec": "mamba",
    "UniformTypeKVCacheSpecs": "uniform",
}


DATA = Path(__file__).parents[1] / "data"


@cache
def model(name: str) -> dict[str, Any]:
    """One model file: ``config``, ``architectures`` and where they come from."""
    found: dict[str, Any] = json.loads((DATA / "models" / f"{name}.json").read_bytes())
    return found


def files() -> list[str]:
    """Names of the result files, without suffix."""
    return sorted(path.name.removesuffix(".json.xz") for path in _oracle().glob("*.json.xz"))


def _oracle() -> Path:
    return DATA / "oracle"


@cache
def results(file: str) -> dict[str, Any]:
    """Model name -> setups of one result file, each with its release as ``vllm``."""
    found: dict[str, Any] = json.loads(
        lzma.decompress((_oracle() / f"{file}.json.xz").read_bytes())
    )
    for entry in found.values():
        for setup in entry["setups"]:
            setup["vllm"] = entry["vllm_version"]
    return found


def judged(file: str, name: str) -> Iterator[tuple[str, str]]:
    """Where a row stands, and what of its plan differs: nothing when it is reproduced."""
    for number, setup in enumerate(results(file)[name]["setups"]):
        for row, found in differences(model(name), setup):
            yield f"{file} {name} setup {number} row {row}", found


def expand(patterns: list[str]) -> list[str]:
    """Compressed layer names, pattern by pattern."""
    return [name for pattern in patterns for name in _expand(pattern)]


def _expand(pattern: str) -> Iterator[str]:
    match = re.fullmatch(r"(.*)\{([^}]*)\}(.*)", pattern)
    if match is None:
        yield pattern
        return
    before, runs, after = match.groups()
    for run in runs.split(","):
        span, _, step = run.partition("/")
        first, _, last = span.partition("-")
        for i in range(int(first), int(last or first) + 1, int(step or 1)):
            yield f"{before}{i}{after}"


def config_of(model: dict[str, Any], setup: dict[str, Any], row: dict[str, Any] | None) -> Config:
    """The document that stands for one row of one setup, or for a refused setup."""
    config = {**model["config"], "architectures": [model["vllm_architecture"]]}
    partition = setup.get("pp_layer_partition")
    row = row or {"available_memory_bytes": 40 << 30, "kv_connector": None}
    return Config(
        schema=2,
        vllm=setup["vllm"],
        model=Model(config=config, max_model_len=setup["max_model_len_arg"]),
        parallel=Parallel(
            tensor=setup["tensor_parallel_size"],
            pipeline=setup.get("pipeline_parallel_size", 1),
            pipeline_layers=partition and [int(n) for n in partition.split(",")],
            decode_context=setup.get("decode_context_parallel_size", 1),
        ),
        cache=Cache(
            memory=row["available_memory_bytes"],
            tokens_per_block=setup["block_size_arg"],
            dtype=setup["kv_cache_dtype"],
            hybrid=False if row.get("disable_hybrid_kv_cache_manager") else None,
            prefix_caching=setup.get("enable_prefix_caching_arg"),
            num_blocks=row.get("num_gpu_blocks_override"),
        ),
        scheduler=Scheduler(max_num_batched_tokens=setup["max_num_batched_tokens"]),
        speculative=_speculative(setup.get("speculative_config")),
        kv_transfer=_transfer(row),
    )


def _speculative(given: dict[str, Any] | None) -> Speculative | None:
    return None if given is None else Speculative(**given)


def _transfer(row: dict[str, Any]) -> KVTransferConfig | None:
    if row["kv_connector"] is None:
        return None
    return KVTransferConfig(
        kv_connector=row["kv_connector"],
        kv_role="kv_both",
        kv_connector_extra_config=CPUOffloadingSpec(
            cpu_bytes_to_use=row["cpu_bytes_to_use"], **row["kv_connector_extra_config"]
        ),
    )


def differences(model: dict[str, Any], setup: dict[str, Any]) -> Iterator[tuple[int | None, str]]:
    """Row index (None for a refused setup) and what differs, for all rows of a setup."""
    if "error" in setup:
        yield None, _refused(model, setup, None, setup["error"], "setup")
        return
    for i, row in enumerate(setup["rows"]):
        if "error" in row:
            yield i, _refused(model, setup, row, row["error"], "plan")
            continue
        try:
            plan = make_plan(config_of(model, setup, row))
        except PlanError as refused:
            yield i, f"refused: {refused}"
            continue
        yield i, "; ".join(_plan_differences(setup, row, plan))


def _refused(
    model: dict[str, Any],
    setup: dict[str, Any],
    row: dict[str, Any] | None,
    error: dict[str, Any],
    stage: str,
) -> str:
    try:
        make_plan(config_of(model, setup, row))
    except PlanError as refused:
        return "; ".join(_refusal_differences(setup, row, error, stage, refused))
    return f"planned, but refused: {error['gist'][:90]}"


_TOLD = re.compile(r"\(([\d.]+) GiB KV cache is needed.*memory \((-?[\d.]+) GiB\)")


def _refusal_differences(
    setup: dict[str, Any],
    row: dict[str, Any] | None,
    error: dict[str, Any],
    stage: str,
    refused: PlanError,
) -> Iterator[str]:
    if refused.stage != stage:
        yield f"stage {refused.stage} != {stage}: {refused}"
    wanted = reason(error)
    if refused.code not in wanted:
        yield f"code {refused.code} not in {wanted}: {error['gist'][:60]} / {refused.message}"
    if row is None:
        return
    if refused.code == "capacity":
        if refused.num_blocks_unchecked != row.get("num_blocks_unchecked"):
            yield f"unchecked {refused.num_blocks_unchecked} != {row.get('num_blocks_unchecked')}"
        estimate = error.get("estimated_max_model_len")
        if estimate is not None and refused.estimated_max_model_len != estimate:
            yield f"estimate {refused.estimated_max_model_len} != {estimate}"
        told = re.search(
            r"\(([\d.]+) GiB KV cache is needed.*memory \((-?[\d.]+) GiB\)", error["gist"]
        )
        if told:
            for mine, text in zip(
                (refused.need_bytes, refused.available_bytes), told.groups(), strict=True
            ):
                if abs((mine or 0) / 2**30 - float(text)) > 0.011:
                    yield f"bytes {mine} != {text} GiB"


def reason(error: dict[str, Any]) -> set[str]:
    """The codes that stand for what vLLM said."""
    gist = error["gist"]
    for words, codes in (
        ("KV cache is needed", {"capacity"}),
        ("No available memory", {"capacity"}),
        ("auto-fit", {"capacity"}),
        ("one unified type", {"geometry"}),
        ("bounded_replay", {"known-issue"}),
        ("DCP not support sliding window", {"conflict"}),
        ("integer division or modulo", {"geometry"}),
        ("incompatible with dtype", {"conflict"}),
        ("No valid attention backend", {"choice"}),
        ("is not valid for", {"choice"}),
        ("only supports fp8", {"choice"}),
        ("max_model_len", {"range"}),
        ("is not supported with MLA", {"choice"}),
        ("Input should be", {"choice"}),
        ("must be divisible", {"geometry"}),
        ("exceeds the maximum", {"geometry"}),
        ("Decode context", {"geometry"}),
        ("num_groups must", {"geometry"}),
        ("integer modulo by zero", {"geometry"}),
        ("DCP for FlashMLA", {"requires"}),
        ("Sinks are only supported", {"choice"}),
        ("Unknown TurboQuant", {"known-issue"}),
    ):
        if words in gist:
            return codes
    return {"geometry", "known-issue"} if not gist else set()


def _plan_differences(setup: dict[str, Any], row: dict[str, Any], plan: Plan) -> Iterator[str]:
    sets = setup["group_sets"]
    yield from _differ(
        "attention_backends", list(plan.attention_backends), setup["attention_backends"]
    )
    yield from _differ("cache_dtype", plan.cache_dtype, setup["resolved_cache_dtype"])
    yield from _differ("block", plan.tokens_per_block, _block(setup))
    yield from _differ("num_blocks", plan.num_blocks, row["num_blocks"])
    yield from _differ("concurrency", round(plan.max_concurrency, 6), row["max_concurrency"])
    yield from _differ("tokens", plan.capacity_tokens, row["kv_cache_size_tokens"])
    length = row.get("fitted_max_model_len", setup["max_model_len"])
    yield from _differ("length", plan.max_model_len, length)
    yield from _differ("scheduler", plan.scheduler_block_tokens, row["scheduler_block_size"])
    yield from _differ("hash", plan.tokens_per_hash, row["hash_block_size"])
    if "kv_cache_layout" in row:
        yield from _differ("layout", plan.layout, row["kv_cache_layout"])
    else:
        yield from _differ("packed", plan.packed, row["use_packed"])
    yield from _group_differences(plan, sets[row["groups"]])
    ranks = row.get("ranks")
    if ranks is None:
        yield from _rank_differences(setup, row, plan)
        return
    assert plan.ranks is not None
    for mine, theirs in zip(plan.ranks, ranks, strict=True):
        yield from _differ("alone", mine.num_blocks_alone, theirs["num_blocks_alone"])
        yield from _group_differences(mine, sets[theirs["groups"]])
        yield from _rank_differences(setup, {**theirs, "num_blocks": row["num_blocks"]}, mine)


def _block(setup: dict[str, Any]) -> int:
    return int(setup["resolved_block_size"])


def _rank_differences(setup: dict[str, Any], row: dict[str, Any], plan: Plan) -> Iterator[str]:
    yield from _differ("bytes_per_block", plan.bytes_per_block, row["pool_bytes_per_block"])
    yield from _differ("request", plan.request_max_bytes, row["request_max_bytes"])
    old = isinstance(row["kv_cache_tensors"], int)
    if old:
        expected = _old_tensors(setup["tensor_layouts"][row["kv_cache_tensors"]], row)
    else:
        expected = _new_tensors(row["kv_cache_tensors"])
    mine = {}
    for slot in plan.slots:
        stride = slot.stride_bytes if plan.packed or not old else 0
        mine[slot.layer] = (plan.allocations[slot.allocation], slot.offset_bytes, stride)
    count = 0
    for names, places in expected:
        count += len(names)
        have = [mine.get(name) for name in names]
        if have != places and (
            len(names) == 1 or sorted(map(str, have)) != sorted(map(str, places))
        ):
            yield f"tensors {names[:2]} {have[:2]} != {places[:2]}"
    yield from _differ("layers placed", len(mine), count)
    if "offload" in row or plan.offload is not None:
        yield from _offload_differences(row.get("offload"), plan)


Places = tuple[list[str], list[tuple[int, int, int]]]
"""Layer names, and size, offset and stride of each; names of several patterns are out of order."""


def _old_tensors(layout: list[dict[str, Any]], row: dict[str, Any]) -> Iterator[Places]:
    for run in layout:
        size = run["size_per_block"] * max(row["num_blocks"], 1)
        sharers = [expand([pattern]) for pattern in run["shared_by"]]
        for i in range(run["count"]):
            offset = run["offset"] + i * run["offset_step"]
            for names in sharers:
                yield [names[i]], [(size, offset, run["block_stride"])]


def _new_tensors(tensors: list[dict[str, Any]]) -> Iterator[Places]:
    for tensor in tensors:
        step, stride = tensor["layer_stride"], tensor["block_stride"]
        offsets = (tensor["offset"] + i * step for i in range(tensor["num_layers"]))
        places = [(tensor["size"], offset, stride) for offset in offsets]
        names = expand(tensor["layers"])
        if len(tensor["layers"]) > 1:
            yield names, places
        else:
            yield from (([name], [place]) for name, place in zip(names, places, strict=True))


def _group_differences(plan: Plan, groups: list[dict[str, Any]]) -> Iterator[str]:
    if len(plan.groups) != len(groups):
        yield f"{len(plan.groups)} groups != {len(groups)}"
        return
    for mine, theirs in zip(plan.groups, groups, strict=True):
        yield from _differ("kind", mine.kind, KINDS[theirs["type"]])
        yield from _differ("layers", sorted(mine.layers), sorted(expand(theirs["layers"])))
        if len(theirs["layers"]) == 1:
            yield from _differ("order", list(mine.layers), expand(theirs["layers"]))
        yield from _differ("tokens_per_block", mine.tokens_per_block, theirs["block_size"])
        yield from _differ("page", mine.page_bytes, theirs["page_size_bytes"])
        if theirs["type"] != "UniformTypeKVCacheSpecs":
            yield from _differ("window", mine.sliding_window, theirs.get("sliding_window"))
            yield from _differ("row", mine.row_bytes, mine.page_bytes * theirs["num_layers"])


def _offload_differences(theirs: dict[str, Any] | None, plan: Plan) -> Iterator[str]:
    mine = plan.offload
    if theirs is None:
        yield "offload planned"
        return
    if isinstance(mine, PlanError) or "error" in theirs:
        if not (isinstance(mine, PlanError) and "error" in theirs):
            yield f"offload {mine} != {str(theirs)[:150]}"
        elif mine.code != ("exclusive" if "only one of" in theirs["error"]["gist"] else "geometry"):
            yield f"offload refused as {mine.code}: {theirs['error']}"
        return
    assert mine is not None
    blocks = theirs["blocks_per_chunk"]
    yield from _differ("blocks_per_chunk", set(mine.blocks_per_chunk), {blocks})
    tokens = [size * blocks for size in theirs["tokens_per_block"]]
    yield from _differ("tokens_per_chunk", list(mine.tokens_per_chunk), tokens)
    if "tokens_per_hash" in theirs:
        yield from _differ("tokens_per_hash", plan.tokens_per_hash, theirs["tokens_per_hash"])
    yield from _differ("chunks", mine.vllm_num_chunks, theirs["cpu_num_chunks"])
    yield from _differ("chunk", mine.vllm_bytes_per_chunk, theirs["cpu_kv_bytes_per_chunk"])
    if "replicated_layout" in theirs:
        yield from _differ("replicated", mine.replicated, theirs["replicated_layout"])


def _differ(what: str, mine: Any, theirs: Any) -> Iterator[str]:
    if mine != theirs:
        yield f"{what} {str(mine)[:70]} != {str(theirs)[:70]}"


def main() -> None:
    """Print rows reproduced of rows present, per file."""
    total = right = 0
    for file in files():
        found = [text for name in results(file) for _, text in judged(file, name)]
        good = sum(not text for text in found)
        total, right = total + len(found), right + good
        sys.stdout.write(f"{file:24} {good:5} of {len(found):5}\n")
    sys.stdout.write(f"{'together':24} {right:5} of {total:5}\n")


if __name__ == "__main__":
    main()
