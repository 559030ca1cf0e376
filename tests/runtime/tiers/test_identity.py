"""The namespace covers everything that the bytes depend on (R06, R07, R08, R26)."""

from __future__ import annotations

import pytest
from attrs import evolve, fields

from kvengine.plan.make import make_plan
from kvengine.runtime.tiers.identity import GroupGeometry, Identity, identity_of
from tests.plan.engines import engine, transfer
from tests.runtime.tiers.kit import disk, geometry, identity, key_of, put, readable

CHANGES = {
    "model": "revision-2",
    "cache_dtype": "fp8_e4m3",
    "layout": "unpacked",
    "layout_version": 2,
    "runner": "vllm-0.33/v2",
    "groups": [geometry(16384), geometry(16384)],
    "tensor_parallel": 4,
    "pipeline_parallel": 2,
    "decode_context_parallel": 2,
    "prefill_context_parallel": 2,
    "rank": 1,
    "replicated": True,
    "hash_algorithm": "xxhash",
    "hash_seed": "1",
    "salt": "tenant",
}
GROUP_CHANGES = {
    "kind": "window",
    "layers": ["model.layers.1"],
    "tokens_per_block": 32,
    "page_bytes": [8192, 8192],
    "blocks_per_chunk": 2,
    "chunk_bytes": 16384 * 2,
}


def test_every_ingredient_is_in_the_table():
    """A new ingredient needs a test of its own."""
    assert set(CHANGES) == {field.name for field in fields(Identity)}
    assert set(GROUP_CHANGES) == {field.name for field in fields(GroupGeometry)}


@pytest.mark.parametrize("name", CHANGES)
def test_each_ingredient_changes_the_digest(name):
    """A difference in any ingredient is another namespace."""
    assert evolve(identity(), **{name: CHANGES[name]}).digest != identity().digest


@pytest.mark.parametrize("name", GROUP_CHANGES)
def test_each_ingredient_of_a_group_changes_the_digest(name):
    """So is a difference in any group."""
    other = evolve(geometry(16384), **{name: GROUP_CHANGES[name]})

    assert identity(groups=[other]).digest != identity().digest


@pytest.mark.parametrize("name", CHANGES)
def test_each_ingredient_makes_old_chunks_a_miss(tmp_path, name):
    """What one identity stored on disk, another does not find; its own is still there."""
    with disk(tmp_path) as tier:
        put(tier, [key_of(1)])
    with disk(tmp_path, evolve(identity(), **{name: CHANGES[name]})) as other:
        assert readable(other, [key_of(1)]) == []
    with disk(tmp_path) as tier:
        assert readable(tier, [key_of(1)]) == [key_of(1)]


def test_the_digest_is_the_same_everywhere():
    """It may never change by accident: old chunks would be lost."""
    assert identity().digest == "0f6564d0e6356dd306172792ed770652"


def test_ranks_of_a_replicated_payload_share():
    """Rank and tensor parallel size do not matter when every rank holds the same (R26)."""
    alone = identity(replicated=True, tensor_parallel=1)
    first = identity(replicated=True, tensor_parallel=2, rank=0)
    second = identity(replicated=True, tensor_parallel=2, rank=1)

    assert alone.digest == first.digest == second.digest


def test_pipeline_stages_of_a_replicated_payload_do_not_share():
    """Stages hold different layers."""
    stages = [
        identity(replicated=True, tensor_parallel=2, pipeline_parallel=2, rank=rank).digest
        for rank in range(4)
    ]

    assert stages[0] == stages[1]
    assert stages[2] == stages[3]
    assert stages[0] != stages[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cache_dtype": "auto"}, "cache_dtype must be the effective dtype, not 'auto'"),
        ({"rank": 2}, "rank 2 does not exist in a topology of 2 ranks"),
    ],
)
def test_an_identity_that_says_too_little_is_refused(changes, message):
    """A dtype that is still to be resolved, a rank that does not exist."""
    with pytest.raises(ValueError) as caught:
        identity(**changes)

    assert str(caught.value) == message


def test_chunk_bytes_follow_the_groups():
    """One size per group number."""
    assert identity(4096, 8192).chunk_bytes == (4096, 8192)


def test_the_identity_of_a_planned_engine():
    """What a plan and a config say; the rest is the caller's to say."""

    def of(*model, rank=0, own=(), **engine_facts):
        config = engine(*model, kv_transfer=transfer(), **engine_facts)
        return identity_of(make_plan(config), config, rank=rank, **dict(own))

    found = of("gpt-oss-20b")
    assert found == of("gpt-oss-20b")
    assert found == of("gpt-oss-20b", model={"dtype": "bfloat16"}), "what auto stands for"
    assert found.cache_dtype.startswith("bfloat16")
    assert (
        found.chunk_bytes
        == make_plan(engine("gpt-oss-20b", kv_transfer=transfer())).offload.chunk_bytes
    )
    others = [
        of("llama-3.1-8b"),
        of("gpt-oss-20b", dtype="fp8"),
        of("gpt-oss-20b", parallel={"tensor": 2}),
        of("gpt-oss-20b", parallel={"tensor": 2}, rank=1),
        of("gpt-oss-20b", mamba_cache_dtype="float16"),
        of("gpt-oss-20b", model={"dtype": "float16"}),
        of("gpt-oss-20b", own={"revision": "a1b2"}),
        of("gpt-oss-20b", own={"hash_seed": "7"}),
        of("gpt-oss-20b", own={"salt": "tenant"}),
    ]
    digests = [found.digest, *(other.digest for other in others)]
    assert len(set(digests)) == len(digests)


def test_ranks_that_hold_the_same_bytes_share():
    """MLA latents: one namespace for all ranks of a tensor parallel engine."""
    config = engine(
        "deepseek-v3.2",
        "0.32",
        parallel={"tensor": 8},
        kv_transfer=transfer("KVEngineOffloadingSpec"),
    )
    plan = make_plan(config)

    assert plan.offload.replicated
    assert identity_of(plan, config, rank=0).digest == identity_of(plan, config, rank=5).digest
