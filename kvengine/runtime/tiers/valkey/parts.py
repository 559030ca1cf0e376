"""How a chunk becomes values of a store: parts near 1 MiB, each naming what it belongs to.

Every part begins with a head: format, its own number, the hash of the key, and length and xxh3-128
checksum of the whole chunk. A chunk is there only if all its parts are, with the right heads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from kvengine.plan.tiers import part_bytes

__all__ = ["HEAD_BYTES", "Sealed", "cut", "heads", "names", "verified"]

_HEAD = struct.Struct("<4sHHQQ16s")
HEAD_BYTES = _HEAD.size
_MAGIC = b"kvc1"


def cut(payload: memoryview) -> list[memoryview]:
    """Parts of about equal length, 1 MiB at most."""
    size = part_bytes(len(payload))
    return [payload[start : start + size] for start in range(0, len(payload), size)]


def names(space: bytes, key: bytes, num_parts: int) -> list[bytes]:
    """The store's keys of a chunk's parts; in a cluster all of them lie on one node."""
    stem = space + b"{" + key.hex().encode() + b"}:"
    return [b"%b%d" % (stem, number) for number in range(num_parts)]


def heads(key: bytes, payload: memoryview, num_parts: int) -> list[bytes]:
    """What goes before each part."""
    name, checksum = xxh3_64_intdigest(key), xxh3_128_digest(payload)
    return [
        _HEAD.pack(_MAGIC, number, num_parts, name, len(payload), checksum)
        for number in range(num_parts)
    ]


class Sealed(NamedTuple):
    """A chunk that is ready to be sent."""

    key: bytes
    parts: list[memoryview]
    heads: list[bytes]

    @classmethod
    def of(cls, key: bytes, payload: memoryview) -> Sealed:
        """With the heads that belong to its parts."""
        parts = cut(payload)
        return cls(key, parts, heads(key, payload, len(parts)))


def verified(
    key: bytes, payload: memoryview, found: Sequence[bytes | bytearray | memoryview]
) -> bool:
    """Whether a chunk is what was stored under its key, by the heads found with its parts."""
    return [bytes(head) for head in found] == heads(key, payload, len(found))
