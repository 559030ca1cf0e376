"""Small plans made by hand: any groups, in each of the three layouts."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from hypothesis import strategies as st

from kvengine.plan.plan import Group, Offload, Plan, Slot

LAYOUTS = ("pools", "packed", "layer-outer")


@frozen
class Shape:
    """A group: the bytes of its layers' pages, and the blocks of a chunk."""

    pages: tuple[int, ...]
    blocks_per_chunk: int = 1
    tokens_per_block: int = 16
    sliding_window: int | None = None
    kind: str = "full"

    @property
    def row_bytes(self) -> int:
        return sum(self.pages)


def make(layout: str, shapes: Sequence[Shape], num_blocks: int) -> Plan:
    """A plan of these groups; ``pools`` needs one page size for all layers of a pool."""
    allocations, slots = _LAY_OUT[layout](shapes, num_blocks)
    chunk_bytes = tuple(shape.row_bytes * shape.blocks_per_chunk for shape in shapes)
    widest = max(shape.row_bytes for shape in shapes)
    return Plan(
        vllm="0.32",
        layout=layout,
        packed=layout == "packed",
        num_blocks=num_blocks,
        bytes_per_block=sum(allocations) // num_blocks,
        request_max_bytes=widest,
        max_concurrency=1.0,
        capacity_tokens=num_blocks * shapes[0].tokens_per_block,
        max_model_len=num_blocks * shapes[0].tokens_per_block,
        cache_dtype="bfloat16",
        tokens_per_block=shapes[0].tokens_per_block,
        attention_backends=(),
        tokens_per_hash=shapes[0].tokens_per_block,
        scheduler_block_tokens=shapes[0].tokens_per_block,
        groups=tuple(_group(index, shape) for index, shape in enumerate(shapes)),
        allocations=allocations,
        slots=slots,
        offload=Offload(
            blocks_per_chunk=tuple(shape.blocks_per_chunk for shape in shapes),
            tokens_per_chunk=tuple(
                shape.blocks_per_chunk * shape.tokens_per_block for shape in shapes
            ),
            chunk_bytes=chunk_bytes,
            vllm_bytes_per_chunk=widest * max(shape.blocks_per_chunk for shape in shapes),
            vllm_num_chunks=None,
            replicated=False,
        ),
    )


def name(group: int, layer: int) -> str:
    return f"group{group}.layer{layer}"


def _group(index: int, shape: Shape) -> Group:
    return Group(
        kind=shape.kind,  # type: ignore[arg-type]
        layers=tuple(name(index, layer) for layer in range(len(shape.pages))),
        tokens_per_block=shape.tokens_per_block,
        page_bytes=max(shape.pages),
        row_bytes=shape.row_bytes,
        sliding_window=shape.sliding_window,
    )


def _widest(shapes: Sequence[Shape]) -> list[int]:
    """Per layer number the widest page of any group: groups overlay each other."""
    return [
        max(shape.pages[layer] for shape in shapes if layer < len(shape.pages))
        for layer in range(max(len(shape.pages) for shape in shapes))
    ]


def _pools(shapes: Sequence[Shape], num_blocks: int) -> tuple[tuple[int, ...], tuple[Slot, ...]]:
    """Pool ``i`` holds layer ``i`` of every group."""
    strides = _widest(shapes)
    slots = tuple(
        Slot(
            layer=name(group, layer),
            group=group,
            allocation=layer,
            offset_bytes=0,
            stride_bytes=strides[layer],
            page_bytes=page,
        )
        for group, shape in enumerate(shapes)
        for layer, page in enumerate(shape.pages)
    )
    return tuple(stride * num_blocks for stride in strides), slots


def _packed(shapes: Sequence[Shape], num_blocks: int) -> tuple[tuple[int, ...], tuple[Slot, ...]]:
    """One slab; a block's pages of a group are next to each other."""
    stride = max(shape.row_bytes for shape in shapes)
    slots = tuple(
        Slot(
            layer=name(group, layer),
            group=group,
            allocation=0,
            offset_bytes=sum(shape.pages[:layer]),
            stride_bytes=stride,
            page_bytes=page,
        )
        for group, shape in enumerate(shapes)
        for layer, page in enumerate(shape.pages)
    )
    return (stride * num_blocks,), slots


def _layer_outer(
    shapes: Sequence[Shape], num_blocks: int
) -> tuple[tuple[int, ...], tuple[Slot, ...]]:
    """One slab; all blocks of a layer are next to each other."""
    strides = _widest(shapes)
    slots = tuple(
        Slot(
            layer=name(group, layer),
            group=group,
            allocation=0,
            offset_bytes=sum(strides[:layer]) * num_blocks,
            stride_bytes=strides[layer],
            page_bytes=page,
        )
        for group, shape in enumerate(shapes)
        for layer, page in enumerate(shape.pages)
    )
    return (sum(strides) * num_blocks,), slots


_LAY_OUT = {"pools": _pools, "packed": _packed, "layer-outer": _layer_outer}


@st.composite
def shapes(draw: st.DrawFn, *, max_page_bytes: int = 96) -> Shape:
    """A group with pages of one size or of several."""
    num_layers = draw(st.integers(1, 4))
    page = draw(st.integers(1, max_page_bytes))
    pages = draw(
        st.one_of(
            st.just((page,) * num_layers),
            st.tuples(*[st.integers(1, max_page_bytes)] * num_layers),
        )
    )
    return Shape(pages=pages, blocks_per_chunk=draw(st.integers(1, 3)))


@st.composite
def plans(draw: st.DrawFn, *, min_blocks: int = 1) -> Plan:
    """A plan of one to three groups, in any layout."""
    return make(
        draw(st.sampled_from(LAYOUTS)),
        draw(st.lists(shapes(), min_size=1, max_size=3)),
        draw(st.integers(min_blocks, 12)),
    )
