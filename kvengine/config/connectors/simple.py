"""``SimpleCPUOffloadConnector``: whole blocks to pinned host memory, or to files."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import Absent, In
from kvengine.rules.options import option
from kvengine.rules.readings import IntCall, Truth
from kvengine.rules.relations import Fault, IgnoredUnless, rules
from kvengine.rules.releases import Releases
from kvengine.rules.words import TextCall

__all__ = ["SimpleCPUOffloadConnector"]

_DISK = Releases(since="0.28")
_ON_DISK_ONLY = ("disk_path", "disk_capacity_bytes", "disk_buffer_slots", "use_page_cache")


@rules(
    Fault(
        at=Absent("disk_path"),
        when=(In("kv_offload_backend", ("disk",)),),
        says="is required with kv_offload_backend = disk",
        because="the disk backend needs a directory",
        code="missing",
        vllm=_DISK,
    ),
    *(
        IgnoredUnless(
            name,
            key="kv_offload_backend",
            values=("disk",),
            because="only the disk backend reads it",
            vllm=_DISK,
        )
        for name in _ON_DISK_ONLY
    ),
)
@frozen(kw_only=True, slots=False)
class SimpleCPUOffloadConnector(ExtraConfig):
    """Blocks go to host memory, or to disk through a small host buffer, and come back."""

    cpu_bytes_to_use: int = option(
        "Host memory for all ranks together; each rank takes its share.",
        unit="bytes",
        default=8589934592,
        reading=IntCall(),
        examples=(68719476736,),
        traps=(
            "optional here, required by OffloadingConnector",
            "a budget below one block still gives one block",
        ),
    )
    cpu_bytes_to_use_per_rank: int | None = option(
        "Host memory of each rank; it wins over cpu_bytes_to_use.",
        unit="bytes",
        default=None,
        reading=IntCall(),
        examples=(17179869184,),
        traps=("the engine logs a warning whenever the two do not agree",),
    )
    lazy_offload: bool = option(
        "Store a block only shortly before the device needs its place, not as soon as it is"
        " computed.",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    kv_offload_backend: Literal["cpu", "disk"] = option(
        "Where blocks go: host memory, or files.",
        default="cpu",
        reading=TextCall(),
        vllm=_DISK,
        examples=("disk",),
        traps=("before 0.28 it and every disk key are ignored",),
    )
    disk_path: str | None = option(
        "Directory of the disk backend.", default=None, vllm=_DISK, examples=("/var/cache/kv",)
    )
    disk_capacity_bytes: int = option(
        "Capacity on disk.",
        unit="bytes",
        ge=1,
        default=107374182400,
        reading=IntCall(),
        vllm=_DISK,
        examples=(107374182400,),
        traps=("checked to be positive from 0.30 on",),
    )
    disk_buffer_slots: int = option(
        "Staging slots for each direction; fewer than one counts as one.",
        unit="slots",
        default=2,
        reading=IntCall(),
        vllm=_DISK,
        examples=(4,),
    )
    use_page_cache: bool = option(
        "Go through the page cache instead of direct I/O.",
        default=False,
        reading=Truth(),
        vllm=_DISK,
        examples=(True,),
    )
    num_cpu_blocks: int | None = option(
        "Blocks of the pool on every rank, instead of what the byte budget gives; must fit into"
        " it.",
        unit="blocks",
        ge=1,
        default=None,
        nullable=True,
        vllm=Releases(since="0.33"),
        instead="cpu_bytes_to_use",
        examples=(4096,),
        traps=("it does not raise the byte budget",),
    )
