"""Values on the wire without copies: sent from the host slot, received into the host slot.

The client's own parser collects a reply in a buffer, joins it and slices it: three copies of each
value. It lets a connection bring its own parser and packer, though, so a connection here has ones
of ours: an argument may consist of several buffers, and the values that answer an ``MGET`` are
read from the socket to where the calling thread wants them. Everything else about connections
(TLS, authentication, pools, Sentinel, Cluster redirection) stays the client's.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen
from redis.connection import Connection, DefaultParser, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import InvalidResponse
from redis.exceptions import TimeoutError as TooLate
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from kvengine.runtime.tiers.valkey.sockets import Sockets

__all__ = ["Gathered", "connection_class", "landing"]

_ROOM_BYTES = 64 << 10
_SMALL_BYTES = 8 << 10
_MOST_LINE_BYTES = 32 << 10
_MOST_VALUE_BYTES = 512 << 20
_CLOSED = "the server closed the connection"


@frozen(eq=False)
class Gathered:
    """One argument of a command, sent as several buffers one after the other."""

    buffers: Sequence[memoryview]

    def __len__(self) -> int:
        return sum(len(buffer) for buffer in self.buffers)


class _Task(threading.local):
    """What the thread that executes a command wants of its replies."""

    targets: Sequence[Sequence[memoryview]] = ()
    deadline_s: float | None = None


_task = _Task()


@contextmanager
def landing(deadline_s: float, targets: Sequence[Sequence[memoryview]] = ()) -> Iterator[None]:
    """Until ``deadline_s``, answers may take; those to an ``MGET`` go where ``targets`` say.

    A value whose length is that of its target's buffers together is read into them, and its length
    stands for it in the reply; any other value comes as bytes, a missing one as None.
    """
    _task.targets, _task.deadline_s = targets, deadline_s
    try:
        yield
    finally:
        _task.targets, _task.deadline_s = (), None


class _Packer:
    """Commands as lists of buffers to be sent; large buffers of arguments are not copied."""

    def pack(self, *args: Any) -> list[bytes | memoryview]:
        name, *rest = args
        words: list[Any] = name.encode().split() if isinstance(name, str) else name.split()
        words += rest
        out: list[bytes | memoryview] = []
        text = b"*%d\r\n" % len(words)
        for word in words:
            if isinstance(word, Gathered):
                text += b"$%d\r\n" % len(word)
                for buffer in word.buffers:
                    if len(buffer) < _SMALL_BYTES:
                        text += buffer
                    else:
                        out += [text, buffer]
                        text = b""
                text += b"\r\n"
                continue
            value = word if isinstance(word, bytes) else str(word).encode()
            text += b"$%d\r\n%b\r\n" % (len(value), value)
        return [*out, text]


class _Parser:
    """RESP2 replies; ``expect`` says where the values of the next one go."""

    parse_error: Any = staticmethod(DefaultParser.parse_error)
    """The client's own way from the text of an error to an exception."""

    def __init__(self, socket_read_size: int = _ROOM_BYTES) -> None:
        self._data = bytearray(max(_ROOM_BYTES, socket_read_size))
        self._room = memoryview(self._data)
        self._start = self._end = 0
        self._sock: Any = None
        self._timeout_s: float | None = None
        self._targets: Iterator[Sequence[memoryview]] = iter(())

    def expect(self, targets: Sequence[Sequence[memoryview]]) -> None:
        """The values of the next reply are for these buffers, in this order."""
        self._targets = iter(targets)

    def on_connect(self, connection: Any) -> None:
        """Read from a connection's socket from now on."""
        self._sock = connection._sock
        self._timeout_s = connection.socket_timeout
        self._start = self._end = 0

    def on_disconnect(self) -> None:
        """Forget the socket and what was read ahead."""
        self._sock = None
        self._start = self._end = 0
        self._targets = iter(())

    def can_read(self, timeout: float = 0) -> bool:
        """Whether an idle connection has something to read, or was closed: then it is of no use."""
        if self._start < self._end:
            return True
        if self._sock is None:
            return False
        try:
            self._fill(timeout)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        finally:
            self._sock.settimeout(self._timeout_s)
        return True

    def read_response(self, disable_decoding: bool = False, **_: Any) -> Any:
        """The next reply: bytes, int, list, None, or an exception value of the client's."""
        try:
            return self._reply(None)
        finally:
            self._targets = iter(())

    def _reply(self, target: Sequence[memoryview] | None) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if rest == b"-1" and kind in b"$*":
            return None
        if kind == b"$":
            return self._value(int(rest), target)
        if kind == b"*":
            return [self._reply(next(self._targets, None)) for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        if kind != b"-":
            raise InvalidResponse(f"not a RESP2 reply: {line[:40]!r}")
        error = self.parse_error(rest.decode("utf-8", "replace"))
        if isinstance(error, LostConnection):
            raise error
        return error

    def _value(self, length: int, target: Sequence[memoryview] | None) -> bytes | int:
        if not 0 <= length <= _MOST_VALUE_BYTES:
            raise InvalidResponse(f"a value of {length} bytes")
        end = bytearray(2)
        if target is not None and sum(map(len, target)) == length:
            for view in target:
                self._read_into(view)
            value: bytes | int = length
        else:
            room = bytearray(length)
            self._read_into(memoryview(room))
            value = bytes(room)
        self._read_into(memoryview(end))
        if end != b"\r\n":
            raise InvalidResponse("a value without its end")
        return value

    def _line(self) -> bytes:
        while (end := self._data.find(b"\r\n", self._start, self._end)) < 0:
            if self._end - self._start > _MOST_LINE_BYTES:
                raise InvalidResponse("a line without its end")
            self._fill()
        line = bytes(self._room[self._start : end])
        self._start = end + 2
        return line

    def _read_into(self, view: memoryview) -> None:
        ahead = min(len(view), self._end - self._start)
        view[:ahead] = self._room[self._start : self._start + ahead]
        self._start += ahead
        while ahead < len(view):
            if len(view) - ahead < _SMALL_BYTES:
                self._fill()
                return self._read_into(view[ahead:])
            ahead += self._receive(view[ahead:])
        return None

    def _fill(self, wait_s: float | None = None) -> None:
        """Read ahead, as much as there is and fits."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._room):
            left = self._end - self._start
            self._room[:left] = bytes(self._room[self._start : self._end])
            self._start, self._end = 0, left
        self._end += self._receive(self._room[self._end :], wait_s)

    def _receive(self, view: memoryview, wait_s: float | None = None) -> int:
        if self._sock is None:
            raise LostConnection(_CLOSED)
        if wait_s is not None or _task.deadline_s is not None:
            self._sock.settimeout(_left_s() if wait_s is None else wait_s)
        count: int = self._sock.recv_into(view)
        if not count:
            raise LostConnection(_CLOSED)
        return count


class _Landing:
    """What a connection of the client's becomes: ours to pack and parse."""

    sockets: Sockets
    _parser: _Parser
    _sock: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs |= {"parser_class": _Parser, "command_packer": _Packer()}
        super().__init__(*args, **kwargs)

    def set_parser(self, parser_class: Any) -> None:
        """Parse as before; older clients wish for another parser in a cluster, for its errors."""
        super().set_parser(_Parser)  # type: ignore[misc]
        if parser_class is not _Parser:
            self._parser.parse_error = parser_class.parse_error

    def send_command(self, *args: Any, **kwargs: Any) -> None:
        """Send, perhaps after connecting, and have the values of an ``MGET`` land."""
        super().send_command(*args, **kwargs)  # type: ignore[misc]
        self._parser.expect(_task.targets if args[0] == "MGET" else ())

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        """The next reply; after anything else, which a sentinel's would survive, disconnected."""
        return super().read_response(*args, **kwargs | {"disconnect_on_error": True})  # type: ignore[misc]

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send within the deadline."""
        if self._sock is not None and _task.deadline_s is not None:
            self._sock.settimeout(_left_s())
        super().send_packed_command(command, check_health)  # type: ignore[misc]

    def _connect(self) -> socket.socket:
        return self.sockets.open(super()._connect)  # type: ignore[misc]


class _Plain(_Landing, Connection):
    pass


class _Tls(_Landing, SSLConnection):
    pass


class _Unix(_Landing, UnixDomainSocketConnection):
    pass


class _Sentinel(_Landing, SentinelManagedConnection):
    pass


class _SentinelTls(_Landing, SentinelManagedSSLConnection):
    pass


def connection_class(
    sockets: Sockets, *, tls: bool, unix: bool = False, sentinel: bool = False
) -> type:
    """For the ``connection_class`` of a pool: connections of this kind, which ``sockets`` knows."""
    kind: type = _Tls if tls else _Plain
    if unix:
        kind = _Unix
    elif sentinel:
        kind = _SentinelTls if tls else _Sentinel
    return type(kind.__name__, (kind,), {"sockets": sockets})


def _left_s() -> float:
    assert _task.deadline_s is not None
    left_s = _task.deadline_s - time.monotonic()
    if left_s <= 0:
        raise TooLate("the deadline has passed")
    return left_s
