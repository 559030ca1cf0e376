"""What a rank registers: vLLM's canonical tensors as rows of exact size."""

import logging
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvengine.integrations.vllm.rows import part, read_rows
from tests.integrations.vllm.plans import packed_plan


def caches(tensors, groups):
    """As vLLM's ``CanonicalKVCaches``."""
    return SimpleNamespace(
        tensors=[SimpleNamespace(tensor=tensor) for tensor in tensors],
        group_data_refs=[
            [SimpleNamespace(tensor_idx=index, page_size_bytes=size) for index, size in group]
            for group in groups
        ],
    )


def test_a_group_takes_the_pages_that_it_names():
    """Unpadded pages, layer after layer; groups that share tensors do not share sizes."""
    tensors = [torch.zeros((4, 64), dtype=torch.int8) for _ in range(3)]
    wide, narrow = read_rows(caches(tensors, [[(0, 64), (1, 60), (2, 64)], [(0, 64), (1, 64)]]))

    assert (wide.row_bytes, narrow.row_bytes) == (188, 128)
    assert [lane.num_bytes for lane in wide.lanes] == [64, 60, 64]


def test_pages_next_to_each_other_move_as_one():
    """Views of one slab whose pages are adjacent in every block become one lane."""
    slab = torch.zeros((4, 192), dtype=torch.int8)
    (rows,) = read_rows(caches([slab[:, :64], slab[:, 64:160]], [[(0, 64), (1, 96)]]))

    assert [(lane.num_bytes, lane.stride_bytes) for lane in rows.lanes] == [(160, 192)]


def test_packed_groups_take_what_the_plan_says():
    """Where vLLM names whole rows for every group, the plan narrows each to its own part."""
    slab = torch.zeros((4, 192), dtype=torch.int8)
    found = read_rows(caches([slab], [[(0, 192)], [(0, 192)]]), packed_plan((192, 64), 192))

    assert [rows.row_bytes for rows in found] == [192, 64]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (None, "kvengine could not plan this model"),
        (packed_plan((192,), 192), "kvengine plans 1 groups where vLLM has 2"),
        (packed_plan((160, 64), 160), "kvengine plans rows of 160 bytes where vLLM has 192"),
        (packed_plan((192, 64), 192, first=8), "kvengine plans another layout than vLLM has"),
    ],
)
def test_a_plan_that_does_not_fit_leaves_the_widest_row(plan, reason, caplog):
    """Then every chunk takes the widest row, and that is said, with the reason."""
    slab = torch.zeros((4, 192), dtype=torch.int8)
    with caplog.at_level(logging.WARNING):
        found = read_rows(caches([slab], [[(0, 192)], [(0, 192)]]), plan)

    assert [rows.row_bytes for rows in found] == [192, 192]
    assert caplog.messages == [
        f"each chunk takes the widest group's 192 bytes a block, because {reason}"
    ]


def test_only_one_rank_says_it(caplog):
    """The others are told to be quiet: the reason is the same for all."""
    slab = torch.zeros((4, 192), dtype=torch.int8)
    with caplog.at_level(logging.WARNING):
        read_rows(caches([slab], [[(0, 192)], [(0, 192)]]), None, quiet=True)

    assert caplog.messages == []


@given(
    runs=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=5),
    data=st.data(),
)
def test_a_part_of_a_place_is_its_bytes(runs, data):
    """The bytes of a part are those of the whole place from its start on."""
    place = tuple((1000 * index + start, count) for index, (start, count) in enumerate(runs))
    whole = [start + offset for start, count in place for offset in range(count)]
    begin = data.draw(st.integers(0, len(whole) - 1))
    count = data.draw(st.integers(1, len(whole) - begin))
    found = part(place, begin, count)

    assert [s + o for s, n in found for o in range(n)] == whole[begin : begin + count]
