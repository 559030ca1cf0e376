"""A TCP proxy that delays, cuts and corrupts what goes through it."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator


class Proxy:
    """Between a client and a server on loopback; set the attributes to make trouble.

    ``delay_s`` before each piece, ``cut`` the chance that a piece ends the connection,
    ``corrupt`` the chance that a bit of a piece is flipped, ``stall`` to pass nothing on.
    """

    def __init__(self, to_port: int, seed: int = 0) -> None:
        self.delay_s = self.cut = self.corrupt = 0.0
        self.stall = False
        self.cuts = self.flips = 0
        self._chance = random.Random(seed)
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(5)

    def drop(self) -> None:
        """End every connection."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open = []

    def _start(self, target, *args) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to_port), 5)
            except OSError:
                continue
            self._open += [near, far]
            self._start(self._pump, near, far)
            self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                while self.stall and not self._closed:
                    time.sleep(0.01)
                time.sleep(self.delay_s)
                if self._chance.random() < self.corrupt:
                    room = bytearray(data)
                    room[self._chance.randrange(len(room))] ^= 1 << self._chance.randrange(8)
                    data = bytes(room)
                    self.flips += 1
                if self._chance.random() < self.cut:
                    data = data[: self._chance.randrange(len(data) + 1)]
                    sink.sendall(data)
                    self.cuts += 1
                    break
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy(to_port: int, seed: int = 0) -> Iterator[Proxy]:
    running = Proxy(to_port, seed)
    try:
        yield running
    finally:
        running.close()
