"""Small connectors: ``HF3FSKVConnector``, ``HiSparseConnector``, ``FlexKVConnectorV1``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.options import open_keys, option
from kvengine.rules.readings import FloatCall

__all__ = ["FlexKVConnectorV1", "HF3FSKVConnector", "HiSparseConnector"]


@frozen(kw_only=True, slots=False)
class HF3FSKVConnector(ExtraConfig):
    """Blocks in the 3FS file system."""

    hf3fs_storage_path: str = option(
        "Mount point.", default="/vllm-workspace/mnt/hf3fs", examples=("/mnt/3fs",)
    )
    hf3fs_metadata_server_url: str = option(
        "Address of the metadata service.",
        default="http://localhost:18000",
        examples=("http://10.0.0.1:18000",),
    )
    hf3fs_file_size: int = option(
        "Size of one data file.", unit="bytes", ge=1, default=1073741824, examples=(1073741824,)
    )
    hf3fs_client_numjobs: int = option("Jobs of the client.", ge=1, default=16, examples=(16,))
    hf3fs_max_device_buffer_count: int = option(
        "Buffers on the device; raised to what the jobs need.",
        unit="buffers",
        default=128,
        examples=(128,),
    )


@frozen(kw_only=True, slots=False)
class HiSparseConnector(ExtraConfig):
    """Host memory behind sparse attention (CUDA, models with a top-k index, 0.30 and later).

    Alone or as one child of MultiConnector; without pipeline and decode context parallelism.
    """

    host_pool_gib: float = option(
        "Host memory for the pool.",
        unit="GiB",
        gt=0,
        reading=FloatCall(),
        examples=(64,),
        traps=("in GiB, where other connectors count bytes",),
    )


@frozen(kw_only=True, slots=False)
class FlexKVConnectorV1(ExtraConfig):
    """The flexkv package reads the whole config itself; vLLM reads none of its keys."""

    values: Mapping[str, Any] = open_keys()
