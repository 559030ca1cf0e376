"""What a plan says, and why there is none."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from kvengine.errors import PlanError, Problem
from kvengine.plan.make import make_plan
from kvengine.plan.plan import Group, Slot
from tests.plan.engines import GIB, engine, transfer

EXTRA = ("kv_transfer", "kv_connector_extra_config")


def refused(config):
    with pytest.raises(PlanError) as caught:
        make_plan(config)
    return caught.value


def test_a_plan_of_a_dense_model():
    """Llama 3.1 8B in 0.28: 32 pools, one for each layer."""
    plan = make_plan(engine())

    assert plan.num_blocks == 20480
    assert plan.bytes_per_block == 2097152
    assert plan.capacity_tokens == 327680
    assert plan.max_concurrency == 10.0
    assert plan.groups == (
        Group(
            kind="full",
            layers=tuple(f"model.layers.{i}.self_attn.attn" for i in range(32)),
            tokens_per_block=16,
            page_bytes=65536,
            row_bytes=2097152,
        ),
    )
    assert plan.allocations == (65536 * 20480,) * 32
    assert plan.slots[1] == Slot(
        layer="model.layers.1.self_attn.attn",
        group=0,
        allocation=1,
        offset_bytes=0,
        stride_bytes=65536,
        page_bytes=65536,
    )


def test_a_plan_is_plain_json():
    """``to_dict`` holds nothing that JSON does not have."""
    plan = make_plan(engine("gemma-3-27b-it", kv_transfer=transfer(blocks_per_chunk=2)))
    found = plan.to_dict()

    assert json.loads(json.dumps(found)) == found
    assert list(found) == [
        "version",
        "vllm",
        "layout",
        "packed",
        "num_blocks",
        "bytes_per_block",
        "request_max_bytes",
        "max_concurrency",
        "capacity_tokens",
        "max_model_len",
        "cache_dtype",
        "tokens_per_block",
        "attention_backends",
        "tokens_per_hash",
        "scheduler_block_tokens",
        "groups",
        "allocations",
        "slots",
        "offload",
        "ranks",
        "problems",
    ]


def test_no_release_is_the_newest():
    """A document that names no release is planned as the newest known one."""
    plan = make_plan(engine(vllm=None))

    assert (plan.vllm, plan.layout, plan.problems) == ("0.33", "LBNHC", ())


@pytest.mark.parametrize(("given", "planned"), [("0.21", "0.24"), ("0.40", "0.33")])
def test_other_releases_are_planned_as_the_nearest_with_a_warning(given, planned):
    """What we do not know is said, and planned all the same."""
    plan = make_plan(engine(vllm=given))

    assert plan.vllm == planned
    assert plan.problems == (
        Problem(
            "unchecked",
            ("vllm",),
            f"is {given}, whose planning we do not know; planned as {planned}",
            "releases 0.24 to 0.33 are planned exactly",
            "warning",
        ),
    )


def test_one_group_is_packed_only_on_demand():
    """vLLM never packs a single group; ``packing`` does."""
    config = engine(kv_transfer=transfer(enable_cross_layers_blocks=True))

    assert not make_plan(config).packed
    packed = make_plan(config, packing="always")
    assert packed.packed
    assert packed.allocations == (40 * GIB,)
    assert packed.slots[3].offset_bytes == 3 * 65536
    assert packed.slots[3].stride_bytes == 32 * 65536


def test_several_groups_are_packed_when_the_key_says_so():
    """Up to 0.28 the connector's key decides; from 0.29 it does not."""
    asked = transfer(enable_cross_layers_blocks=True)

    assert make_plan(engine("gpt-oss-20b", kv_transfer=asked)).packed
    assert not make_plan(engine("gpt-oss-20b")).packed
    assert not make_plan(engine("gpt-oss-20b", "0.32", kv_transfer=asked)).packed
    named = make_plan(engine("gpt-oss-20b", "0.32", kv_transfer=asked, layout="BLHNC"))
    assert (named.packed, named.layout) == (True, "BLHNC")


@pytest.mark.parametrize("vllm", ["0.28", "0.32"])
def test_a_packing_that_the_release_does_not_choose_bears_no_name_of_its(vllm):
    """So that two plans of one model can be told apart."""
    asked = transfer(enable_cross_layers_blocks=True)
    apart, together = engine("gpt-oss-20b", vllm), engine("gpt-oss-20b", vllm, layout="BLHNC")
    if vllm == "0.28":
        together = engine("gpt-oss-20b", vllm, kv_transfer=asked)

    assert make_plan(apart, packing="always").layout == "packed"
    assert make_plan(together, packing="never").layout == "unpacked"
    for config in (apart, together):
        assert len({make_plan(config, packing=p).layout for p in ("always", "never")}) == 2


def test_a_request_that_does_not_fit_is_refused_with_the_figures():
    """What is needed, what is there, and the length that would fit."""
    error = refused(engine(memory=GIB))

    assert error.to_dict() == {
        "stage": "plan",
        "code": "capacity",
        "message": "one request of 32768 tokens needs 4294967296 bytes (4 GiB), more than the"
        " 1073741824 bytes (1 GiB) for KV cache",
        "hint": "give cache.memory more bytes or set model.max_model_len to at most 8192",
        "need_bytes": 4294967296,
        "available_bytes": 1073741824,
        "num_blocks_unchecked": 512,
        "estimated_max_model_len": 8192,
    }
    assert error.path == ("cache", "memory")


def test_auto_fit_takes_the_longest_length_that_fits():
    """max_model_len = -1 in 1 GiB is 8192 tokens."""
    plan = make_plan(engine(memory=GIB, model={"max_model_len": -1}))

    assert (plan.max_model_len, plan.max_concurrency) == (8192, 1.0)


def test_num_blocks_goes_before_memory():
    """--num-gpu-blocks-override needs no memory."""
    plan = make_plan(engine(memory=None, num_blocks=4096))

    assert (plan.num_blocks, sum(plan.allocations)) == (4096, 4096 * 2097152)


def test_pipeline_stages_have_plans_of_their_own():
    """All take the blocks of the poorest; the top level holds the whole model."""
    plan = make_plan(engine(parallel={"pipeline": 2, "pipeline_layers": [10, 22]}))

    assert plan.ranks is not None
    assert [len(rank.groups[0].layers) for rank in plan.ranks] == [10, 22]
    assert [rank.num_blocks_alone for rank in plan.ranks] == [65536, 29789]
    assert {rank.num_blocks for rank in plan.ranks} == {plan.num_blocks} == {29789}
    assert len(plan.groups[0].layers) == 32


def test_memory_may_differ_by_stage():
    """One entry of ``cache.memory`` for each stage."""
    config = engine(parallel={"pipeline": 2}, memory=[40 * GIB, 20 * GIB])

    assert make_plan(config).num_blocks == 20480
    error = refused(evolve(config, cache=evolve(config.cache, memory=[40 * GIB])))
    assert str(error) == (
        "cache.memory has 1 entries for 2 pipeline stages [geometry]\n"
        "  hint: give one number for all, or one per stage"
    )


def test_both_chunk_sizes_refuse_offloading_alone():
    """The cache is planned; the offload says why not."""
    plan = make_plan(engine(kv_transfer=transfer(block_size=64, blocks_per_chunk=2)))

    assert plan.num_blocks == 20480
    assert isinstance(plan.offload, PlanError)
    assert plan.to_dict()["offload"] == {
        "error": {
            "code": "exclusive",
            "message": "block_size and blocks_per_chunk are both given",
            "hint": "keep blocks_per_chunk: it needs no common block size",
        }
    }


def test_offload_figures():
    """Chunks of two blocks, on two ranks, in vLLM's host memory and in kvengine's."""
    offload = transfer(blocks_per_chunk=2, cpu_bytes_to_use=GIB)
    plan = make_plan(engine("gpt-oss-20b", kv_transfer=offload, parallel={"tensor": 2}))

    assert plan.to_dict()["offload"] == {
        "blocks_per_chunk": [2, 2],
        "tokens_per_chunk": [32, 32],
        "chunk_bytes": [393216, 393216],
        "vllm_bytes_per_chunk": 786432,
        "vllm_num_chunks": 1365,
        "replicated": False,
        "tiers": [
            {
                "type": "host",
                "capacity_bytes": GIB,
                "num_chunks": [1365, 1365],
                "tokens": 21824,
                "io_bytes": [],
            }
        ],
    }


def test_blocks_per_chunk_is_not_read_before_0_26():
    """Up to 0.25 a chunk is one block, or block_size tokens."""
    found = [
        make_plan(engine(vllm=vllm, kv_transfer=transfer(blocks_per_chunk=4))).offload
        for vllm in ("0.25", "0.26")
    ]

    assert [offload.blocks_per_chunk for offload in found] == [(1,), (4,)]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            engine(memory=None),
            "cache.memory is not given, so the number of blocks is unknown [missing]\n"
            '  hint: give the bytes for KV cache on each rank, such as "40 GiB"',
        ),
        (
            engine(model={"config": {}}),
            "model.config is not given, so there are no layers to plan for [missing]\n"
            "  hint: give a Hugging Face config.json, or describe the layers in [[model.layers]]",
        ),
        (
            engine(parallel={"tensor": 3}),
            "32 attention heads cannot be divided over 3 tensor-parallel ranks [geometry]\n"
            "  hint: use a tensor size that divides the heads",
        ),
        (
            engine(model={"max_model_len": 200000}),
            "max_model_len 200000 is more than the model's own limit of 131072 [range]\n"
            "  hint: use at most 131072",
        ),
        (
            engine(dtype="fp9"),
            "cache dtype 'fp9' is not one that vLLM 0.28 knows [choice]\n"
            "  hint: one of auto, bfloat16, float16, fp8, fp8_ds_mla, fp8_e4m3, fp8_e5m2, fp8_inc,"
            " fp8_per_token_head, int4_per_token_head, int8_per_token_head, nvfp4, nvfp4_4over6,"
            " turboquant_3bit_nc, turboquant_4bit_nc, turboquant_k3v4_nc, turboquant_k8v4",
        ),
        (
            engine(vllm="0.32", layout="LHBNC", kv_transfer=transfer()),
            "layout LHBNC spreads a page over its block, which kvengine does not plan [layout]\n"
            "  hint: one of LBNHC, LBHNC, BLNHC, BLHNC",
        ),
        (
            engine("gpt-oss-20b", vllm="0.32", layout="NHCBL"),
            "layout NHCBL is not one that every attention backend of the model reads [layout]\n"
            "  hint: one of LBNHC, LBHNC, BLNHC, BLHNC",
        ),
    ],
    ids=["memory", "model", "tensor", "length", "dtype", "spread", "layout"],
)
def test_a_refusal_says_what_to_change(config, message):
    """The engine's own refusals, with the option and a way out."""
    error = refused(config)

    assert (error.stage, str(error)) == ("setup", message)


@pytest.mark.parametrize("packing", ["engine", "always", "never"])
def test_planning_is_a_pure_function(packing):
    """The same config gives equal plans."""
    config = engine("qwen3-next-80b-a3b", "0.33", kv_transfer=transfer())

    assert make_plan(config, packing=packing) == make_plan(config, packing=packing)


@pytest.mark.parametrize(
    ("vllm", "capability", "tokens"),
    [("0.33", "9.0", 576), ("0.33", "10.0", 576), ("0.33", "8.0", 544), ("0.32", "9.0", 544)],
)
def test_the_device_decides_where_kernels_export_states(vllm, capability, tokens):
    """Blocks of Qwen3-Next are whole checkpoints in 0.33, from Hopper on."""
    config = engine("qwen3-next-80b-a3b", vllm)
    config = evolve(config, device=evolve(config.device, compute_capability=capability))

    assert make_plan(config).tokens_per_block == tokens


def test_a_compute_capability_is_two_numbers():
    """Anything else is refused."""
    config = engine()
    error = refused(evolve(config, device=evolve(config.device, compute_capability="sm90")))

    assert str(error) == (
        'compute_capability "sm90" is not one such as 9.0 [range]\n'
        "  hint: 9.0 is Hopper, 10.0 Blackwell"
    )
