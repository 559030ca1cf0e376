"""vLLM's group numbers may have gaps; ours have none."""

from kvengine.integrations.vllm.keys import Numbers


def key(group):
    return b"hash" + group.to_bytes(4, "big")


def test_keys_pass_as_they_are_when_the_numbers_agree():
    """Then nothing is rebuilt: the same objects come back."""
    keys = [key(0), key(1)]
    numbers = Numbers([0, 1])

    assert all(a is b for a, b in zip(numbers.ours(keys), keys, strict=True))
    assert numbers.our(keys[1]) is keys[1]


def test_numbers_with_gaps_are_closed_and_opened_again():
    """Since 0.31 only groups that can be cached by prefix are offloaded."""
    numbers = Numbers([1, 4])

    assert numbers.ours([key(4), key(1)]) == [key(1), key(0)]
    assert numbers.theirs([key(1), key(0)]) == [key(4), key(1)]
