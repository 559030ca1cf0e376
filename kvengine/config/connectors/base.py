"""What every extra config of a connector inside vLLM has in common."""

from __future__ import annotations

from attrs import frozen

from kvengine.rules.options import option, own_keys
from kvengine.rules.readings import TrueText
from kvengine.rules.relations import Elsewhere, rules
from kvengine.rules.releases import Releases

__all__ = ["HIGHEST_PORT", "ExtraConfig"]

HIGHEST_PORT = 65535


@own_keys("^x-")
@rules(
    Elsewhere(
        ("kv_offloading_size", "kv_offloading_backend"),
        home="the command line",
        because="they are the flags --kv-offloading-size and --kv-offloading-backend",
    ),
)
@frozen(kw_only=True, slots=False)
class ExtraConfig:
    """Keys that the engine itself reads, whatever the connector."""

    enable_cross_layers_blocks: bool = option(
        "Packed layout for models of several groups: all pages of a block next to each other."
        " From 0.29 vLLM chooses the layout by itself (VLLM_KV_CACHE_LAYOUT overrides).",
        default=False,
        reading=TrueText(),
        vllm=Releases(since="0.24", until="0.29"),
        instead="cache.layout (VLLM_KV_CACHE_LAYOUT)",
        examples=(True,),
        traps=(
            "1, yes and on do not switch it on, only true and the text true",
            "a model with a single group is never packed by it",
            "with MultiConnector the engine looks at the outer extra config only, each child at"
            " its own",
            "models whose groups are all uniform-type (DeepSeek-V4) are packed without it",
        ),
    )
