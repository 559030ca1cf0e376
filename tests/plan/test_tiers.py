import pytest

from kvengine.plan.plan import Tier
from kvengine.plan.tiers import Chunks, part_bytes, tiers_of

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Extra:
    secondary_tiers = (
        {"type": "fs", "root_dir": "/kv", "max_bytes": GIB},
        {"type": "valkey", "url": "valkey://store"},
    )


def test_each_tier_says_what_it_holds_and_moves():
    """A disk keeps whole blocks of 4 KiB, a store values near 1 MiB; two ranks share both."""
    chunks = Chunks(num_bytes=(1536 * KIB, 641 * KIB), tokens=(64, 32), copies=2)

    host, disk, store = tiers_of(Extra, GIB, chunks)

    per_64_tokens = 2 * (1536 * KIB + 2 * 641 * KIB)
    assert host == Tier(
        type="host",
        capacity_bytes=GIB,
        num_chunks=(341, 817),
        tokens=GIB // per_64_tokens * 64,
    )
    assert disk.num_chunks == (341, GIB // (2 * 644 * KIB))
    assert disk.io_bytes == (1536 * KIB, 644 * KIB)
    assert (store.capacity_bytes, store.tokens, store.num_chunks) == (None, None, (None, None))
    assert store.io_bytes == (768 * KIB, 641 * KIB)


@pytest.mark.parametrize(
    ("chunk", "part"), [(1, 64), (MIB, MIB), (MIB + 1, 512 * KIB + 64), (5 * MIB, MIB)]
)
def test_the_values_of_a_store_are_about_equal(chunk, part):
    """None is larger than 1 MiB, and none is a small rest."""
    assert part_bytes(chunk) == part


def test_without_tiers_there_is_nothing_to_say():
    """No budget, nothing behind it."""
    assert tiers_of(object(), None, Chunks(num_bytes=(1,), tokens=(1,), copies=1)) == ()
