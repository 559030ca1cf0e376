import pytest

from kvengine.runtime.claims import Claims


def test_blocks_have_many_readers_or_one_writer():
    """Reading together is fine; writing wants a block for itself."""
    claims = Claims(100)
    claims.take([1, 2], 10, write=False)
    claims.take([2], 10, write=False)
    claims.take([3], 10, write=True)
    claims.check([[1, 2]], write=False)
    for blocks, write in (([2], True), ([3], True), ([3], False)):
        with pytest.raises(ValueError) as error:
            claims.check([blocks], write=write)
        assert str(error.value) == f"block {blocks[0]} belongs to a job that is not done yet"

    claims.give([2], 10, write=False)
    with pytest.raises(ValueError):
        claims.check([[2]], write=True)
    claims.give([1, 2], 10, write=False)
    claims.give([3], 10, write=True)
    claims.check([[1, 2, 3]], write=True)
    assert claims.in_flight_bytes == 0


def test_room_is_counted_from_the_front():
    """Chunks fit until the first that does not."""
    claims = Claims(100)
    claims.take([], 30, write=True)

    assert claims.room_for([30, 40, 10]) == 2
    assert claims.room_for([80, 10]) == 0
    assert claims.room_for([]) == 0
