"""The sockets of one store's client: closed together, and none is opened afterwards.

The client closes only what its pools know: not those of a pool that was handed to it (a cluster's
nodes have such), nor those of a node that has left the cluster, nor one that a thread is opening.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

from redis.exceptions import ConnectionError as LostConnection

__all__ = ["Sockets"]


class Sockets:
    """Every socket that ``open`` made and that is still there. Thread-safe."""

    def __init__(self) -> None:
        self._all: WeakSet[socket.socket] = WeakSet()
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def open(self, connect: Callable[[], socket.socket]) -> socket.socket:
        """A socket from ``connect``; the client's ConnectionError after ``close``."""
        if not self._closed.is_set():
            sock = connect()
            with self._lock:
                if not self._closed.is_set():
                    self._all.add(sock)
                    return sock
            sock.close()
        raise LostConnection("the tier is closed")

    def close(self) -> None:
        """Close all, also under threads that wait for them: those meet an error."""
        with self._lock:
            self._closed.set()
            for sock in self._all:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
