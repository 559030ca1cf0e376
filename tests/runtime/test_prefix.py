import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kvengine.runtime.prefix import Need, boundary_tokens, host_tokens, longest_prefix, needed
from tests.runtime.plans import Shape, make

KINDS = [
    ("full", None),
    ("window", 5),
    ("window", 40),
    ("chunked", 12),
    ("mamba", None),
    ("mla", None),
]


@st.composite
def hybrids(draw):
    """Plans of several kinds of groups with different tokens per block and blocks per chunk."""
    shapes = []
    for kind, window in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)):
        shapes.append(
            Shape(
                pages=(8,),
                kind=kind,
                sliding_window=window,
                tokens_per_block=draw(st.sampled_from([2, 4, 6])),
                blocks_per_chunk=draw(st.integers(1, 3)),
            )
        )
    return make("packed", shapes, 8)


def read(plan, group, tokens):
    """The tokens of a prefix that the next token, and those behind it, may still read."""
    spec = plan.groups[group]
    if spec.kind == "mamba":
        return {tokens - 1}
    if spec.sliding_window is None:
        return set(range(tokens))
    if spec.kind == "chunked":
        return {
            t for t in range(tokens) if t // spec.sliding_window == tokens // spec.sliding_window
        }
    return {t for t in range(tokens) if t > tokens - spec.sliding_window}


@given(hybrids(), st.integers(1, 6))
def test_a_need_covers_what_is_read_and_no_chunk_more(plan, units):
    """Every token read lies in the need's blocks, and its first block is read from."""
    tokens = units * boundary_tokens(plan)
    for group in range(len(plan.groups)):
        need = needed(plan, group, tokens)
        per_chunk = plan.offload.tokens_per_chunk[group]
        per_block = plan.groups[group].tokens_per_block
        begin = need.start * per_chunk + need.first_block * per_block
        tokens_read = read(plan, group, tokens)

        assert all(begin <= token < need.stop * per_chunk for token in tokens_read)
        assert not tokens_read or min(tokens_read) < begin + per_block
        assert len(need) == need.stop - need.start


@given(hybrids(), st.integers(0, 6), st.integers(0, 6))
def test_what_the_writer_keeps_satisfies_the_reader(plan, stored, asked):
    """After storing what a prefix needs, the reader finds at least that prefix: case R18."""
    unit = boundary_tokens(plan)
    kept = {
        (group, chunk)
        for group in range(len(plan.groups))
        for chunk in range(*_range(needed(plan, group, stored * unit)))
    }

    found = longest_prefix(plan, asked * unit + unit // 2, lambda g, c: (g, c) in kept)

    assert found <= asked * unit
    if stored <= asked:
        assert found >= stored * unit


@given(hybrids(), st.integers(0, 5), st.data())
def test_a_hit_is_one_in_every_group(plan, units, data):
    """The prefix found is the longest of which no group lacks anything: case R23."""
    unit = boundary_tokens(plan)
    every = [
        (group, chunk)
        for group in range(len(plan.groups))
        for chunk in range(units * unit // plan.offload.tokens_per_chunk[group])
    ]
    kept = set(data.draw(st.lists(st.sampled_from(every)))) if every else set()

    def complete(tokens):
        return all(
            (group, chunk) in kept
            for group in range(len(plan.groups))
            for chunk in range(*_range(needed(plan, group, tokens)))
        )

    expected = max(n * unit for n in range(units + 1) if complete(n * unit))
    assert longest_prefix(plan, units * unit, lambda g, c: (g, c) in kept) == expected


def _range(need):
    return need.start, need.stop


def test_a_window_needs_its_tail_entering_a_chunk_in_the_middle():
    """A window reads all but one of its own tokens before the next one, and no block more."""
    shape = Shape(
        pages=(8,), kind="window", sliding_window=128, tokens_per_block=32, blocks_per_chunk=4
    )
    plan = make("packed", [shape], 8)

    assert needed(plan, 0, 512) == Need(3, 4, 0)
    assert needed(plan, 0, 512, extra_tokens=1) == Need(3, 4, 0)
    assert needed(plan, 0, 512, extra_tokens=2) == Need(2, 4, 3)
    assert needed(evolve_window(plan, 100), 0, 512) == Need(3, 4, 0)
    assert needed(evolve_window(plan, 97), 0, 512) == Need(3, 4, 1)


def evolve_window(plan, window):
    return evolve(plan, groups=(evolve(plan.groups[0], sliding_window=window),))


def test_a_prefix_ends_where_a_chunk_ends():
    """Other lengths are an error, as is a plan that does not offload."""
    plan = make("packed", [Shape(pages=(8,), tokens_per_block=16, blocks_per_chunk=2)], 8)
    with pytest.raises(ValueError) as error:
        needed(plan, 0, 16)
    assert str(error.value) == "a prefix ends with a chunk of 32 tokens, not at 16"
    with pytest.raises(ValueError) as error:
        boundary_tokens(evolve(plan, offload=None))
    assert str(error.value) == "the plan does not offload"


def test_a_budget_is_told_in_tokens():
    """Each group takes its own bytes per token; whole boundaries count: case R03."""
    wide = Shape(pages=(160,), tokens_per_block=16, blocks_per_chunk=2)
    narrow = Shape(pages=(8,), tokens_per_block=8)
    plan = make("packed", [wide, narrow], 8)

    assert boundary_tokens(plan) == 32
    assert host_tokens(plan, 3 * (320 + 4 * 8)) == 96
    assert host_tokens(plan, 3 * (320 + 4 * 8) - 1) == 64
