"""What is on disk describes itself, and nothing torn or foreign passes for it."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from kvengine.runtime.tiers.disk.format import (
    BLOCK_BYTES,
    MAX_KEY_BYTES,
    Entry,
    SegmentHeader,
    extent_head_bytes,
    index_bytes,
    pack_extent_head,
    pack_index,
    parse_extent_head,
    parse_index,
    parse_trailer,
)

NONCE = b"n" * 16
HEADER = SegmentHeader(1 << 20, NONCE, 7, "ab" * 16)
entries = st.lists(
    st.builds(
        Entry,
        st.binary(min_size=1, max_size=MAX_KEY_BYTES),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.binary(min_size=16, max_size=16),
    ),
    max_size=100,
)


def flipped(data: bytes, bit: int) -> bytes:
    room = bytearray(data)
    room[bit // 8] ^= 1 << bit % 8
    return bytes(room)


def test_a_header_is_one_block_and_comes_back():
    """Size, nonce, sequence and identity."""
    block = HEADER.pack()

    assert len(block) == BLOCK_BYTES
    assert SegmentHeader.parse(memoryview(block)) == HEADER


@given(entries)
def test_an_extent_head_comes_back(some):
    """With its entries, and the place where it ends."""
    head = pack_extent_head(NONCE, 8192, 65536, some)
    extent = parse_extent_head(memoryview(b"\0" * 8192 + head), HEADER, 8192)

    assert len(head) == extent_head_bytes(len(some))
    assert extent is not None
    assert (extent.end, extent.entries) == (65536, some)


@given(entries)
def test_an_index_comes_back(some):
    """Found from the last block of the segment."""
    index = memoryview(pack_index(NONCE, some))
    size = parse_trailer(index[-BLOCK_BYTES:], NONCE)

    assert size == len(index) == index_bytes(len(some))
    assert parse_index(index) == some


@given(st.data(), entries)
def test_no_flipped_bit_passes(data, some):
    """A header, extent head or index with a wrong bit in what it says is none."""
    header = HEADER.pack()
    head = pack_extent_head(NONCE, 0, 65536, some)
    index = pack_index(NONCE, some)
    bit = data.draw(st.integers(0, 8 * 90 - 1))

    assert SegmentHeader.parse(memoryview(flipped(header, bit % (8 * 76)))) is None
    assert parse_extent_head(memoryview(flipped(head, bit % (8 * 40))), HEADER, 0) is None
    broken = memoryview(flipped(index, 8 * len(index) - 1 - bit % (8 * 60)))
    assert parse_trailer(broken[-BLOCK_BYTES:], NONCE) is None


def test_an_extent_of_another_use_or_place_is_none():
    """What is left over from earlier in a file used again is not seen."""
    head = memoryview(pack_extent_head(NONCE, 4096, 8192, []))
    later = SegmentHeader(1 << 20, b"m" * 16, 8, "ab" * 16)

    assert parse_extent_head(head, HEADER, 4096, room_at=4096) is not None
    assert parse_extent_head(head, later, 4096, room_at=4096) is None
    assert parse_extent_head(head, HEADER, 8192, room_at=8192) is None


def test_an_extent_that_would_end_behind_its_segment_is_none():
    """Its length is not believed."""
    head = memoryview(pack_extent_head(NONCE, 4096, (1 << 20) + 4096, []))

    assert parse_extent_head(head, HEADER, 4096, room_at=4096) is None


def test_another_format_version_is_none():
    """A later kvengine's segments are not read."""
    room = memoryview(os.urandom(BLOCK_BYTES))

    assert SegmentHeader.parse(room) is None
