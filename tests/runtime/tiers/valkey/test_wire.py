"""Replies land where they are wanted, however the network cuts them up."""

from __future__ import annotations

import random
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as TooLate

from kvengine.runtime.tiers.valkey.parts import cut, heads, verified
from kvengine.runtime.tiers.valkey.wire import Gathered, _Packer, _Parser, landing


class Connection:
    """As much of a connection as a parser sees."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.socket_timeout = 5.0


def bulk(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)


def reply(data: bytes, targets=(), *, seed=0, times=1, deadline_s=5.0, close=False):
    """What a parser makes of bytes that come in random pieces."""
    near, far = socket.socketpair()
    chance = random.Random(seed)

    def send() -> None:
        rest = data
        while rest:
            count = chance.choice([1, 2, 3, 100, 5000, len(rest)])
            far.sendall(rest[:count])
            rest = rest[count:]
        if close:
            far.close()

    sender = threading.Thread(target=send)
    parser = _Parser(1 << 16)
    parser.on_connect(Connection(near))
    sender.start()
    try:
        with landing(time.monotonic() + deadline_s, targets):
            parser.expect(targets)
            replies = [parser.read_response() for _ in range(times)]
    finally:
        sender.join()
        near.close()
        far.close()
    return replies if times > 1 else replies[0]


@given(
    st.lists(st.none() | st.binary(max_size=40) | st.integers(60_000, 200_000), max_size=5),
    st.integers(0, 1000),
)
def test_values_land_in_their_targets(shapes, seed):
    """Those of the right length; others come as bytes, missing ones as None; nothing mixes."""
    chance = random.Random(seed)
    values = [chance.randbytes(s) if isinstance(s, int) else s for s in shapes]
    targets = []
    for value in values:
        length = len(value or b"")
        length += chance.choice([0, 0, 0, 1])
        first = min(7, length)
        targets.append([memoryview(bytearray(first)), memoryview(bytearray(length - first))])
    data = b"*%d\r\n" % len(values) + b"".join(map(bulk, values)) + b"+next\r\n"
    answer, following = reply(data, targets, seed=seed, times=2)

    assert following == b"next"
    for value, target, got in zip(values, targets, answer, strict=True):
        if got is None:
            assert value is None
        elif isinstance(got, bytes):
            assert got == value
        else:
            assert got == len(value)
            assert b"".join(target) == value


@pytest.mark.parametrize(
    ("data", "meaning"),
    [
        (b"+OK\r\n", b"OK"),
        (b":42\r\n", 42),
        (b"$3\r\nabc\r\n", b"abc"),
        (b"$0\r\n\r\n", b""),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n", [[1], b"a"]),
        (b"*0\r\n", []),
    ],
)
def test_every_kind_of_reply(data, meaning):
    """As the client's own parser reads it."""
    assert reply(data) == meaning


def test_an_error_is_the_clients_own_kind():
    """An exception value, for the client to raise."""
    error = reply(b"-WRONGTYPE not a string\r\n")

    assert isinstance(error, ResponseError)
    assert str(error) == "WRONGTYPE not a string"


@pytest.mark.parametrize(
    "data",
    [b"?what\r\n", b"$3\r\nabcXX", b"$-7\r\n", b"$99999999999\r\n", b"x" * 40_000],
    ids=["kind", "end", "negative", "huge", "endless line"],
)
def test_nonsense_is_an_error(data):
    """Never a hang, never a huge allocation."""
    with pytest.raises((InvalidResponse, ValueError)):
        reply(data)


def test_a_connection_that_ends_in_a_value_is_lost():
    """Half a value is none."""
    target = [memoryview(bytearray(100))]
    with pytest.raises(LostConnection) as caught:
        reply(b"*1\r\n$100\r\n" + b"x" * 50, [target], close=True)

    assert str(caught.value) == "the server closed the connection"


def test_the_deadline_holds_for_the_whole_reply():
    """Even if some bytes come all the time."""
    near, far = socket.socketpair()
    stop = threading.Event()

    def drip() -> None:
        far.sendall(b"$1000000\r\n")
        while not stop.wait(0.01):
            far.send(b"x")

    dripper = threading.Thread(target=drip)
    dripper.start()
    parser = _Parser()
    parser.on_connect(Connection(near))
    started_s = time.monotonic()
    with pytest.raises((TooLate, TimeoutError)), landing(started_s + 0.1):
        parser.read_response()
    stop.set()
    dripper.join()
    near.close()
    far.close()

    assert time.monotonic() - started_s < 2


def test_a_gathered_argument_is_sent_without_copying():
    """Its large buffers themselves are in the list, in order; small ones join the text."""
    head, body = memoryview(b"head"), memoryview(bytearray(b"b" * 10_000))
    packed = _Packer().pack("SET", b"key", Gathered([head, body]), "EX", 7)

    assert packed[1] is body
    assert b"".join(packed) == (
        b"*5\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10004\r\nhead"
        + b"b" * 10_000
        + b"\r\n$2\r\nEX\r\n$1\r\n7\r\n"
    )


@given(st.integers(1, 4_000_000))
def test_parts_cover_a_chunk_and_are_alike(length):
    """None longer than 1 MiB, no tiny rest."""
    parts = cut(memoryview(bytes(length)))
    sizes = [len(part) for part in parts]

    assert sum(sizes) == length
    assert len(sizes) == -(-length // (1 << 20))
    assert max(sizes) <= 1 << 20
    assert max(sizes) - min(sizes) < 64 * len(sizes)


@given(st.binary(min_size=1, max_size=50), st.integers(0, 2**16), st.booleans())
def test_only_the_right_heads_verify_a_chunk(payload, bit, in_payload):
    """Any flipped bit in a head or in the bytes shows."""
    found = heads(b"key", memoryview(payload), 2)
    room = bytearray(payload)
    assert verified(b"key", memoryview(room), found)
    assert not verified(b"another", memoryview(room), found)
    broken = bytearray(found[1])
    victim = room if in_payload else broken
    victim[bit // 8 % len(victim)] ^= 1 << bit % 8

    assert not verified(b"key", memoryview(room), [found[0], bytes(broken)])
