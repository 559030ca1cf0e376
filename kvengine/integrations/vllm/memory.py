"""The shared region as host memory that movers copy to and from."""

from __future__ import annotations

import numpy as np

from kvengine.integrations.vllm.region import Region
from kvengine.runtime.memory import HostMemory

__all__ = ["RegionMemory"]


class RegionMemory(HostMemory):
    """The data of a region, without a copy; the mover for the device pins it where it can."""

    def __init__(self, region: Region) -> None:
        self.num_bytes = self.mapped_bytes = region.data_bytes
        self.bytes = np.frombuffer(region.data, dtype=np.uint8)
        self.address = int(self.bytes.ctypes.data)
