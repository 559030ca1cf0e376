"""Two plans side by side."""

from __future__ import annotations

import json

from kvengine.plan.compare import Row, compare
from kvengine.plan.make import make_plan
from tests.plan.engines import GIB, engine, outcome, transfer

AMPLE = transfer(cpu_bytes_to_use=1 << 40)


def test_equal_plans_have_no_changes():
    """Every figure is listed, none differs."""
    plan = make_plan(engine(kv_transfer=AMPLE))
    found = compare(plan, plan)

    assert found.changes == ()
    assert found.same_chunks
    assert len(found.rows) > 20


def test_what_an_upgrade_does_to_deepseek_v3_2():
    """0.28 -> 0.32 over 8 ranks: one copy in host memory instead of eight."""
    plans = [
        make_plan(engine("deepseek-v3.2", vllm, parallel={"tensor": 8}, kv_transfer=AMPLE))
        for vllm in ("0.28", "0.32")
    ]
    found = compare(*plans)

    assert found.changes == (
        Row("vllm", "0.28", "0.32"),
        Row("layout", "unpacked", "LBHNC"),
        Row("allocations", 122, 1),
        Row("vllm_bytes_per_chunk", 40103936, 5013504),
        Row("vllm_num_chunks", 27416, 219310),
        Row("replicated", False, True),
        Row("host chunks", [27417], [219343]),
    )
    assert [problem.message for problem in found.new_problems] == [
        "holds one copy of what all 8 ranks cache alike"
    ]
    assert len(found.gone_problems) == 1
    assert found.same_chunks


def test_groups_are_matched_by_their_layers():
    """DeepSeek-V4's groups only change places, but what was stored is not found again."""
    plans = [
        make_plan(engine("deepseek-v4-flash", vllm, dtype="fp8", kv_transfer=AMPLE))
        for vllm in ("0.28", "0.32")
    ]
    found = compare(*plans)

    assert [row.name for row in found.rows if row.name.endswith(" kind")] == [
        "group 0 -> 2 kind",
        "group 1 -> 0 kind",
        "group 2 -> 1 kind",
        "group 3 kind",
        "group 4 kind",
    ]
    assert not [row for row in found.changes if row.name.startswith("group")]
    assert Row("tokens_per_chunk", [256, 64, 64, 4, 8], [64, 64, 256, 4, 8]) in found.changes
    assert not found.same_chunks


def test_a_refusal_is_an_outcome_too():
    """What fits before and does not after is a new problem."""
    found = compare(outcome(engine()), outcome(engine(memory=GIB)))

    assert found.rows[0] == Row(
        "refused",
        None,
        "one request of 32768 tokens needs 4294967296 bytes (4 GiB), more than the 1073741824"
        " bytes (1 GiB) for KV cache",
    )
    assert Row("num_blocks", 20480, None) in found.rows
    assert [problem.code for problem in found.new_problems] == ["capacity"]
    assert not found.same_chunks


def test_refused_offloading_is_a_change():
    """A chunk size that one config has and the other cannot have."""
    found = compare(
        outcome(engine(kv_transfer=AMPLE)),
        outcome(engine(kv_transfer=transfer(block_size=100))),
    )

    assert (
        Row(
            "offload refused",
            None,
            "block_size 100 is not a multiple of the 16 tokens of one block",
        )
        in found.changes
    )


def test_ratios():
    """Of numbers only."""
    assert Row("num_blocks", 100, 50).ratio == 0.5
    assert Row("packed", False, True).ratio is None
    assert Row("num_blocks", None, 50).ratio is None
    assert Row("num_blocks", 0, 50).ratio is None


def test_a_comparison_is_plain_json():
    """``to_dict`` holds nothing that JSON does not have."""
    found = compare(outcome(engine(kv_transfer=AMPLE)), outcome(engine(memory=GIB))).to_dict()

    assert json.loads(json.dumps(found)) == found
    assert list(found) == ["version", "rows", "new_problems", "gone_problems", "same_chunks"]
