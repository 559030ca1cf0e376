"""What the planner says beside the plan: place, figures, fix."""

from __future__ import annotations

import pytest
from attrs import evolve

from kvengine.errors import Drop, Fix, Move, Problem, Put
from kvengine.plan.check import plan_findings
from kvengine.plan.make import make_plan
from tests.plan.engines import GIB, engine, transfer

EXTRA = ("kv_transfer", "kv_connector_extra_config")
BUDGET = (*EXTRA, "cpu_bytes_to_use")
BLOCK_SIZE = (*EXTRA, "block_size")
BLOCKS = (*EXTRA, "blocks_per_chunk")
AMPLE = 1 << 40


def finding(config):
    """The only finding of a plan."""
    (found,) = plan_findings(config)
    return found


def offloading(*model, **extra):
    return engine(*model, kv_transfer=transfer(**{"cpu_bytes_to_use": AMPLE, **extra}))


def test_a_sound_engine_has_no_findings():
    """No false alarms."""
    assert plan_findings(offloading()) == ()


def test_a_document_without_model_or_memory_has_none():
    """There is nothing to plan."""
    config = engine()

    assert plan_findings(evolve(config, model=evolve(config.model, config={}))) == ()
    assert plan_findings(evolve(config, cache=evolve(config.cache, memory=None))) == ()


def test_block_size_over_groups_of_different_blocks():
    """The case of DeepSeek-V4: only blocks_per_chunk fits."""
    config = engine("deepseek-v4-flash", dtype="fp8", kv_transfer=transfer(block_size=512))
    found = next(p for p in plan_findings(config) if p.path == BLOCK_SIZE)

    assert found == Problem(
        "geometry",
        BLOCK_SIZE,
        "block_size is impossible here: groups have 4 and 8 and 64 and 256 tokens per block",
        "use blocks_per_chunk",
        fix=Fix(
            "use blocks_per_chunk = 2",
            (Move(BLOCK_SIZE, BLOCKS), Put(BLOCKS, 2)),
            safe=False,
        ),
    )


def test_block_size_before_blocks_per_chunk_existed():
    """Up to 0.25 the way out is to leave it out."""
    found = finding(offloading("llama-3.1-8b", "0.25", block_size=100))

    assert found == Problem(
        "geometry",
        BLOCK_SIZE,
        "block_size 100 is not a multiple of the 16 tokens of one block",
        "use 112",
        fix=Fix("remove block_size", (Drop(BLOCK_SIZE),), safe=False),
    )


@pytest.mark.parametrize("spec", ["CPUOffloadingSpec", "KVEngineOffloadingSpec"])
def test_a_budget_below_one_chunk(spec):
    """vLLM starts and stores nothing; the least that works is in the fix."""
    found = finding(offloading(spec_name=spec, cpu_bytes_to_use=1 << 20))

    assert found == Problem(
        "capacity",
        BUDGET,
        "is 1048576 bytes (1 MiB), and one chunk takes 2097152 bytes (2 MiB), all ranks together:"
        " none is ever stored",
        "give at least 2097152 bytes",
        fix=Fix("set it to 2097152", (Put(BUDGET, 2097152),), safe=False),
    )


def test_a_budget_below_one_request():
    """Its prefix would be gone before it ends."""
    found = finding(offloading(cpu_bytes_to_use=2 * GIB))

    assert found == Problem(
        "capacity",
        BUDGET,
        "is 2147483648 bytes (2 GiB), less than the 4294967296 bytes (4 GiB) that a request of"
        " 32768 tokens needs to be found again",
        "give at least 4294967296 bytes, or expect long prompts to be computed anew",
        "warning",
        Fix("set it to 4294967296", (Put(BUDGET, 4294967296),), safe=False),
    )


def test_a_budget_below_the_devices():
    """Host memory that holds less than the devices do is of little use."""
    found = finding(offloading(cpu_bytes_to_use=16 * GIB))

    assert found == Problem(
        "capacity",
        BUDGET,
        "is 17179869184 bytes (16 GiB), less than the 42949672960 bytes (40 GiB) of KV cache on"
        " the devices, all ranks together: what leaves the devices has mostly left host memory"
        " before",
        "give more than the devices have",
        "warning",
    )


def test_slots_for_the_widest_group():
    """The share of the budget that stays empty, and the spec that wastes none."""
    found = finding(offloading("lfm2-1.2b"))

    assert found == Problem(
        "capacity",
        BUDGET,
        "is divided into slots of 192 KiB for chunks of any group, and chunks take 160 KiB,"
        " 160 KiB, 192 KiB: 11.1% stay empty when all groups are stored",
        "KVEngineOffloadingSpec gives every group what it needs",
        "info",
        Fix(
            "use KVEngineOffloadingSpec",
            (
                Put((*EXTRA, "spec_name"), "KVEngineOffloadingSpec"),
                Put((*EXTRA, "spec_module_path"), "kvengine.integrations.vllm"),
            ),
            safe=False,
        ),
    )
    assert plan_findings(offloading("lfm2-1.2b", spec_name="KVEngineOffloadingSpec")) == ()


@pytest.mark.parametrize(
    ("vllm", "severity", "message", "hint"),
    [
        (
            "0.28",
            "warning",
            "holds 8 copies of what all 8 ranks cache alike: vLLM 0.28 keeps one only for a single"
            " group of alike layers",
            "count on 12.5% of it",
        ),
        ("0.32", "info", "holds one copy of what all 8 ranks cache alike", ""),
    ],
)
def test_latent_caches_are_the_same_on_every_rank(vllm, severity, message, hint):
    """DeepSeek-V3.2 over 8 ranks: 8 copies in 0.28, one in 0.32."""
    config = engine(
        "deepseek-v3.2",
        vllm,
        parallel={"tensor": 8},
        kv_transfer=transfer(cpu_bytes_to_use=AMPLE),
    )

    assert finding(config) == Problem("capacity", BUDGET, message, hint, severity)


def test_repeated_kv_heads():
    """More ranks than KV heads store heads more than once."""
    config = engine(parallel={"tensor": 16}, kv_transfer=transfer(cpu_bytes_to_use=AMPLE))

    assert finding(config) == Problem(
        "capacity",
        BUDGET,
        "holds every KV head 2 times: 16 ranks repeat the model's 8 KV heads",
        "a tensor size of 8 stores no head twice",
        "info",
    )


def test_uneven_stages_and_the_host_tier():
    """Blocks left over on the device, and chunks that a stage does not have."""
    parallel = {"pipeline": 2, "pipeline_layers": [10, 22]}
    config = engine(parallel=parallel, kv_transfer=transfer(cpu_bytes_to_use=AMPLE))

    assert plan_findings(config) == (
        Problem(
            "capacity",
            ("parallel", "pipeline"),
            "gives its stages room for 65536, 29789 blocks, and all take the 29789 of the poorest:"
            " 21.818 GiB of stage 0 stay unused",
            "divide the layers with parallel.pipeline_layers, or the memory with one cache.memory"
            " per stage",
            "warning",
        ),
        Problem(
            "known-issue",
            BUDGET,
            "gives the pipeline stages room for 838860, 381300 chunks, and the scheduler hands out"
            " the 838860 of the first, more than another stage has",
            "divide the layers evenly with parallel.pipeline_layers, or do not combine pipeline"
            " stages with vLLM's own host tier",
        ),
    )


def test_packing_one_group_has_no_effect():
    """Up to 0.28 only several groups are packed."""
    key = (*EXTRA, "enable_cross_layers_blocks")
    found = finding(offloading(enable_cross_layers_blocks=True))

    assert found == Problem(
        "ignored",
        key,
        "has no effect: the model has 1 group, and vLLM 0.28 packs several groups only",
        "leave it out",
        "warning",
        Fix("remove it", (Drop(key),), safe=False),
    )


def test_what_replaces_the_packing_key():
    """From 0.29 a named layout does; the fix leads to packed blocks indeed."""
    key = (*EXTRA, "enable_cross_layers_blocks")
    config = offloading("gpt-oss-20b", "0.32", enable_cross_layers_blocks=True)
    found = finding(config)

    hint = 'set cache.layout = "BLHNC" (VLLM_KV_CACHE_LAYOUT=BLHNC) for packed blocks'
    assert found == Problem(
        "layout",
        key,
        "is not read by vLLM 0.32, which lays the cache out as LBHNC",
        hint,
        "warning",
        Fix(hint, (Drop(key), Put(("cache", "layout"), "BLHNC")), safe=False),
    )
    assert make_plan(evolve(config, cache=evolve(config.cache, layout="BLHNC"))).packed


def test_the_cost_of_the_hybrid_manager_off():
    """Windows kept as full attention."""
    found = finding(engine("gpt-oss-20b", "0.32", hybrid=False))

    assert found == Problem(
        "capacity",
        ("cache", "hybrid"),
        "off keeps every token of layers that need a window only: 873808 tokens fit, with the"
        " hybrid manager 1161673, 1.3 times as many",
        "leave the hybrid manager on, if the connector supports it",
        "warning",
        Fix("switch the hybrid manager on", (Put(("cache", "hybrid"), True),), safe=False),
    )


def test_groups_that_are_no_whole_hash_units():
    """A Mamba hybrid cannot be offloaded with prefix caching off."""
    config = engine("qwen3-next-80b-a3b", prefix_caching=False, kv_transfer=transfer())

    assert finding(config) == Problem(
        "geometry",
        ("cache", "prefix_caching"),
        "groups of 32768 tokens per block are not whole hash units of 557056 tokens",
        "switch prefix caching on, so that block sizes are aligned",
        fix=Fix("switch prefix caching on", (Put(("cache", "prefix_caching"), True),), safe=False),
    )


def test_padding():
    """More than a tenth of what a request takes stores nothing."""
    found = finding(engine("deepseek-v4-flash", "0.32"))

    assert found == Problem(
        "geometry",
        ("cache", "tokens_per_block"),
        "20.6% of the 6.357 GiB that a request of 32768 tokens takes store nothing: 1.261 GiB"
        " because groups differ in width and 47.255 MiB because pages are padded to one size",
        "another number of tokens per block may waste less; compare with plan --compare",
        "info",
    )


def own_disk(**tier):
    tiers = [{"type": "fs", "root_dir": "/kv", **tier}]
    return offloading(
        spec_name="KVEngineOffloadingSpec",
        spec_module_path="kvengine.integrations.vllm",
        blocks_per_chunk=64,
        secondary_tiers=tiers,
    )


def test_a_disk_that_no_chunk_fits_into():
    """The engine would refuse it at its start; the least that works is said."""
    tier = (*EXTRA, "secondary_tiers", 0)
    config = own_disk(max_bytes=8 << 20)
    found = next(p for p in plan_findings(config) if p.path == (*tier, "max_bytes"))
    (put,) = found.fix.changes
    assert (found.code, found.severity) == ("capacity", "error")
    assert put.value > 4 * make_plan(config).offload.chunk_bytes[0]
    assert plan_findings(own_disk(max_bytes=put.value)) == ()

    config = own_disk(max_bytes=1 << 40, segment_bytes=1 << 20)
    found = next(p for p in plan_findings(config) if p.path == (*tier, "segment_bytes"))
    assert "takes" in found.message
    assert plan_findings(own_disk(max_bytes=1 << 40, segment_bytes=256 << 20)) == ()


def test_chunks_too_small_for_a_disk():
    """One-block chunks of a small model are no load for a disk."""
    config = engine(
        "lfm2-1.2b",
        kv_transfer=transfer(
            "KVEngineOffloadingSpec",
            cpu_bytes_to_use=AMPLE,
            secondary_tiers=[{"type": "fs", "root_dir": "/var/cache/kv"}],
        ),
    )

    assert finding(config) == Problem(
        "geometry",
        BLOCKS,
        "is 1, so that one read of tier 0 fetches 160 KiB: too little for a disk to run at speed",
        "set it to 7, for reads of 1 MiB",
        "warning",
        Fix("set blocks_per_chunk to 7", (Put(BLOCKS, 7),), safe=False),
    )


def test_a_refusal_is_a_finding_with_its_fix():
    """One request that does not fit names the length that does."""
    assert finding(engine(memory=GIB)) == Problem(
        "capacity",
        ("cache", "memory"),
        "one request of 32768 tokens needs 4294967296 bytes (4 GiB), more than the 1073741824"
        " bytes (1 GiB) for KV cache",
        "give cache.memory more bytes or set model.max_model_len to at most 8192",
        fix=Fix(
            "set model.max_model_len to 8192",
            (Put(("model", "max_model_len"), 8192),),
            safe=False,
        ),
    )
