"""The flags of ``plan``: each stands for one key of the engine document."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from attrs import frozen

from kvengine.errors import Path

if TYPE_CHECKING:
    from kvengine.document.embedded import Source

__all__ = ["FLAGS", "Flag", "Flags", "add_flags", "flags_of", "given", "overlaid"]

Flags = Mapping[Path, tuple[str, Any]]
"""Path in an engine document -> the flag that sets it, and its value."""


def _sizes(text: str) -> Any:
    """One size, or with commas one per pipeline stage."""
    parts = [part.strip() for part in text.split(",")]
    return parts if len(parts) > 1 else parts[0]


def _count(text: str) -> int:
    """A number as vLLM takes it: 32k is 32000, 32K is 32768."""
    scale = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1:], 1)
    return int(text if scale == 1 else text[:-1]) * scale


def _file(text: str) -> str:
    """A path from here, whatever folder the document lies in."""
    return str(FilePath(text).absolute())


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


@frozen
class Flag:
    """One flag and the key that it sets; without ``read`` it is a switch that sets ``value``."""

    names: tuple[str, ...]
    path: Path
    shows: str = ""
    read: Callable[[str], Any] | None = None
    value: Any = None

    @property
    def dest(self) -> str:
        """Where argparse keeps it."""
        return "flag_" + "_".join(map(str, self.path))


FLAGS = (
    Flag(("--model",), ("model", "config"), "CONFIG.JSON", _file),
    Flag(("--memory",), ("cache", "memory"), "SIZE[,SIZE]", _sizes),
    Flag(("--max-model-len",), ("model", "max_model_len"), "N", _count),
    Flag(("--dtype",), ("model", "dtype"), "T", str),
    Flag(("--tp", "--tensor-parallel-size"), ("parallel", "tensor"), "N", int),
    Flag(("--pp", "--pipeline-parallel-size"), ("parallel", "pipeline"), "N", int),
    Flag(("--pipeline-layers",), ("parallel", "pipeline_layers"), "N,N", _numbers),
    Flag(("--dcp", "--decode-context-parallel-size"), ("parallel", "decode_context"), "N", int),
    Flag(("--pcp", "--prefill-context-parallel-size"), ("parallel", "prefill_context"), "N", int),
    Flag(("--dp", "--data-parallel-size"), ("parallel", "data"), "N", int),
    Flag(("--block-size",), ("cache", "tokens_per_block"), "N", int),
    Flag(("--kv-cache-dtype",), ("cache", "dtype"), "T", str),
    Flag(("--num-gpu-blocks-override",), ("cache", "num_blocks"), "N", int),
    Flag(("--layout",), ("cache", "layout"), "NAME", str),
    Flag(("--disable-hybrid-kv-cache-manager",), ("cache", "hybrid"), value=False),
    Flag(("--no-enable-prefix-caching",), ("cache", "prefix_caching"), value=False),
    Flag(("--max-num-batched-tokens",), ("scheduler", "max_num_batched_tokens"), "N", int),
    Flag(("--compute-capability",), ("device", "compute_capability"), "X.Y", str),
)
"""Every flag, in the order of the help; long names are vLLM's own where it has one."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add every flag, its help read off the option that it sets."""
    group = parser.add_argument_group("options that complete or override the file")
    for flag in FLAGS:
        says = ".".join(map(str, flag.path))
        if flag.read is None:
            group.add_argument(
                *flag.names,
                dest=flag.dest,
                action="store_const",
                const=flag.value,
                help=f"{says} = {str(flag.value).lower()}",
            )
        else:
            group.add_argument(
                *flag.names, dest=flag.dest, metavar=flag.shows, type=flag.read, help=says
            )


def given(arguments: argparse.Namespace) -> dict[Path, tuple[str, Any]]:
    """Path -> the flag's name and its value, for every flag on the command line."""
    return {
        flag.path: (flag.names[0], value)
        for flag in FLAGS
        if (value := getattr(arguments, flag.dest)) is not None
    }


def flags_of(source: Source) -> dict[Path, tuple[str, Any]]:
    """The same, for the command line that a config was found in; memory and model are ours."""
    from kvengine.config.flags import flag as value_of

    found: dict[Path, tuple[str, Any]] = {}
    for flag in FLAGS:
        for name in flag.names:
            text = value_of(source.flags, name)
            if text is None or name == "--model" or (f"flag:{name}",) in source.unresolved:
                continue
            try:
                found[flag.path] = (name, flag.value if flag.read is None else flag.read(text))
            except (TypeError, ValueError):  # the check says so
                continue
    return found


def overlaid(data: Mapping[str, Any], flags: Mapping[Path, tuple[str, Any]]) -> dict[str, Any]:
    """The document's data with the flags in place of what it says; tables only where needed."""
    from kvengine.document.changes import CannotEdit, changed
    from kvengine.errors import Put

    result: Any = dict(data)
    for path, (_, value) in flags.items():
        try:
            result = changed(result, Put(path, value))
        except CannotEdit:  # the file has something else where the table belongs: that is said
            continue
    assert isinstance(result, dict)
    return result
