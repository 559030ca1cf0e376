"""The shared region as host memory that movers copy to and from."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from kvengine.integrations.vllm.region import Region
from kvengine.runtime.memory import HostMemory

__all__ = ["RegionMemory"]

_log = logging.getLogger(__name__)


class RegionMemory(HostMemory):
    """The data of a region. With a CUDA or ROCm device its pages are registered with the driver."""

    def __init__(self, region: Region, device: torch.device) -> None:
        self.num_bytes = self.mapped_bytes = region.data_bytes
        self.bytes = np.frombuffer(region.data, dtype=np.uint8)
        self.address = int(self.bytes.ctypes.data)
        self.pinned = device.type == "cuda" and self._register()

    def release(self) -> None:
        """Take the registration back; no copy may be under way."""
        if self.pinned:
            _driver().cudaHostUnregister(self.address)
            self.pinned = False

    def _register(self) -> bool:
        code = _driver().cudaHostRegister(self.address, self.mapped_bytes, 0)
        if int(code) == 0:
            return True
        _log.warning(
            "host memory could not be pinned (error %s): copies go through the driver's own", code
        )
        return False


def _driver() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]
