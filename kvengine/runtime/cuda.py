"""The mover of caches on an accelerator: pinned memory, side streams, events.

CUDA and ROCm are one to torch; others (XPU) have the same streams and events in a module of their
own, but no way to pin memory that is there already.

Every worker thread has a stream and a staging buffer per direction, so stores and loads overlap.
A transfer begins with a wait for the fence, an event that the caller's stream records behind all
work it was given (case R02), and ends when the host has seen the event behind its last copy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import torch

from kvengine.runtime.memory import HostMemory
from kvengine.runtime.rows import Move, Rows
from kvengine.runtime.staged import StagedMover

__all__ = ["CudaMover"]

_log = logging.getLogger(__name__)


class CudaMover(StagedMover):
    """Moves chunks between a device and host memory, which it pins unless that is done.

    When the driver refuses to pin, copies still work, slower: the driver stages them. That is
    logged once (case R11).
    """

    def __init__(self, rows: Sequence[Rows], host: HostMemory) -> None:
        super().__init__(rows, host)
        self._api: Any = torch.get_device_module(self.device)
        self._memory = host
        self._mine = not getattr(host, "pinned", False) and self._pin(host)
        self._local = threading.local()

    def fence(self) -> object:
        """An event behind what the calling thread's current stream has been given so far."""
        event = self._api.Event()
        event.record(self._api.current_stream(self.device))
        return event

    def store(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the device to the places; returns when the bytes are in host memory."""
        self._run(moves, fence, to_host=True)

    def load(self, moves: Sequence[Move], fence: object = None) -> None:
        """Copy from the places to the device; returns when any stream may read the blocks."""
        self._run(moves, fence, to_host=False)

    def close(self) -> None:
        """Wait for the device and give the pinned pages back."""
        self._api.synchronize(self.device)
        if self._mine:
            self._api.cudart().cudaHostUnregister(self._memory.address)
            self._mine = False

    def _run(self, moves: Sequence[Move], fence: object, *, to_host: bool) -> None:
        with self._api.device(self.device):
            stream, staging, done = self._side(to_host)
            with self._api.stream(stream):
                if fence is not None:
                    stream.wait_event(fence)
                try:
                    self._queue(moves, staging, to_host=to_host)
                finally:
                    # Also after an error: what was queued must not outlive the call.
                    done.record(stream)
                    done.synchronize()

    def _side(self, to_host: bool) -> tuple[Any, torch.Tensor, Any]:
        """This thread's stream, staging buffer and final event of one direction."""
        name = "store" if to_host else "load"
        side = getattr(self._local, name, None)
        if side is None:
            stream = self._api.Stream(self.device)
            with self._api.stream(stream):
                staging = self.make_staging()
            waits = {"blocking": True} if self.device.type == "cuda" else {}
            side = (stream, staging, self._api.Event(**waits))
            setattr(self._local, name, side)
        made: tuple[Any, torch.Tensor, Any] = side
        return made

    def _pin(self, host: HostMemory) -> bool:
        if self.device.type != "cuda":
            return False
        code = self._api.cudart().cudaHostRegister(host.address, host.mapped_bytes, 0)
        if int(code) == 0:
            return True
        _log.warning("host memory could not be pinned (error %s): copies will be slower", code)
        return False
