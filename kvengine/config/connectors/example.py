"""Connectors to learn and to measure with: ``Example...`` and ``DecodeBenchConnector``."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.options import option
from kvengine.rules.readings import Truth
from kvengine.rules.releases import Releases

__all__ = ["DecodeBenchConnector", "ExampleConnector", "ExampleHiddenStatesConnector"]


@frozen(kw_only=True, slots=False)
class ExampleConnector(ExtraConfig):
    """Writes KV cache to files, to show how a connector works; not for production."""

    shared_storage_path: str = option(
        "Directory for the files.", default="/tmp", examples=("/var/tmp/kv",)
    )


@frozen(kw_only=True, slots=False)
class ExampleHiddenStatesConnector(ExtraConfig):
    """Writes hidden states to files."""

    shared_storage_path: str = option(
        "Directory for the files.", default="/tmp", examples=("/var/tmp/states",)
    )
    num_writer_threads: int = option(
        "Threads that write.",
        unit="threads",
        ge=1,
        default=8,
        vllm=Releases(since="0.22"),
        examples=(8,),
    )
    use_synchronization_lock: bool = option(
        "Lock files, so that readers wait until one is complete.",
        default=True,
        reading=Truth(),
        vllm=Releases(since="0.22"),
        examples=(False,),
    )
    allow_custom_save_path: bool = option(
        "Let clients choose where a file goes: a matter of trust.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.24"),
        examples=(True,),
    )


@frozen(kw_only=True, slots=False)
class DecodeBenchConnector(ExtraConfig):
    """Fills the cache with made-up values, to measure decoding alone."""

    fill_mean: float = option("Mean of the values.", default=0.015, examples=(0.015,))
    fill_std: float = option(
        "Their deviation; 0 makes them all alike.", default=0.0, examples=(0.01,)
    )
    startup_fill: bool = option(
        "Fill the whole cache once, at the start.",
        default=False,
        reading=Truth(),
        vllm=Releases(since="0.31"),
        examples=(True,),
    )
