"""The engine document, ``schema = 2``: model, parallelism, memory and KV transfer in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from kvengine.config.layers import HandLayers
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.options import Deprecated, option, own_keys
from kvengine.rules.readings import FileOrTable, Size, SwitchText

__all__ = [
    "PACKED_VARIABLE",
    "Cache",
    "Config",
    "Device",
    "Environment",
    "Model",
    "Parallel",
    "Scheduler",
    "Speculative",
]

PACKED_VARIABLE = "VLLM_USE_PACKED_HMA_KV_CACHE"


@own_keys("^x-")
@frozen(kw_only=True)
class Model:
    """The model whose KV cache is planned."""

    config: Mapping[str, Any] = option(
        "A Hugging Face config.json: a path relative to this file, or its content as a table."
        " Never fetched.",
        factory=dict,
        reading=FileOrTable(),
        examples=("gpt-oss-20b.json",),
    )
    layers: Sequence[HandLayers] = option(
        "The layers described by hand, for a model or an engine that we do not know.",
        factory=list,
        spelled_since=2,
        examples=([{"kind": "full", "count": 24, "heads": 8, "head_size": 128}],),
    )
    max_model_len: int | None = option(
        "Longest request, prompt and answer together; -1 takes as much as fits the memory.",
        unit="tokens",
        ge=-1,
        default=None,
        default_text="the model's own limit",
        examples=(131072,),
    )
    dtype: str | None = option(
        "Data type of the model, and of its KV cache unless cache.dtype says otherwise.",
        default=None,
        default_text="the model's own",
        examples=("bfloat16",),
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Parallel:
    """How one engine is spread over devices."""

    tensor: int = option("Tensor parallel size.", unit="ranks", ge=1, default=1, examples=(2,))
    pipeline: int = option("Pipeline stages.", unit="stages", ge=1, default=1, examples=(2,))
    pipeline_layers: Sequence[int] | None = option(
        "Layers per stage, where they differ from vLLM's own split (VLLM_PP_LAYER_PARTITION).",
        unit="layers",
        ge=0,
        default=None,
        default_text="vLLM's own split",
        examples=([10, 22],),
    )
    decode_context: int = option(
        "Decode context parallel size: ranks of a tensor-parallel group that split the tokens.",
        unit="ranks",
        ge=1,
        default=1,
        examples=(2,),
    )
    prefill_context: int = option(
        "Prefill context parallel size.", unit="ranks", ge=1, default=1, examples=(2,)
    )
    data: int = option(
        "Data parallel size: engines that each have their own KV cache and host memory.",
        unit="engines",
        ge=1,
        default=1,
        examples=(4,),
    )
    executor: Literal["mp", "ray", "uni", "external_launcher"] = option(
        "What starts the workers (--distributed-executor-backend); with nodes it decides whether"
        " replicated KV is kept once.",
        default="mp",
        examples=("ray",),
    )
    nodes: int = option(
        "Machines that one engine spans.", unit="machines", ge=1, default=1, examples=(2,)
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Cache:
    """The KV cache in device memory."""

    memory: int | Sequence[int] | None = option(
        "Bytes for KV cache on each rank: a number, a text with a unit, or one of them per"
        " pipeline stage.",
        unit="bytes",
        ge=0,
        reading=Size(),
        default=None,
        examples=("40 GiB", 42949672960, ["40 GiB", "38 GiB"]),
    )
    tokens_per_block: int | None = option(
        "Tokens per block (vLLM's --block-size).",
        unit="tokens",
        ge=1,
        default=None,
        default_text="as the release resolves it",
        examples=(16,),
    )
    dtype: str = option(
        "Data type of the KV cache (--kv-cache-dtype).",
        default="auto",
        examples=("auto", "bfloat16", "fp8"),
    )
    hybrid: bool | None = option(
        "Whether layers of different kinds get groups of their own; false is"
        " --disable-hybrid-kv-cache-manager.",
        default=None,
        default_text="as the release resolves it",
        examples=(True,),
    )
    prefix_caching: bool | None = option(
        "Whether blocks are found again by their content (--enable-prefix-caching).",
        default=None,
        default_text="as the release resolves it: off for Mamba hybrids up to 0.27, else on",
        examples=(True,),
    )
    num_blocks: int | None = option(
        "Number of blocks instead of what fits the memory (--num-gpu-blocks-override).",
        unit="blocks",
        ge=1,
        default=None,
        examples=(1000,),
    )
    layout: str | None = option(
        "Physical order of layer, block, head, token and content (VLLM_KV_CACHE_LAYOUT), from"
        " 0.29.",
        default=None,
        default_text="as the release resolves it",
        examples=("LBNHC", "BLHNC"),
    )
    prefix_match_unit: int | None = option(
        "Tokens per unit of prefix matching (--prefix-match-unit).",
        unit="tokens",
        ge=1,
        default=None,
        default_text="the greatest common divisor of the groups' block sizes",
        examples=(16,),
    )
    mamba_cache_mode: Literal["none", "align", "all"] | None = option(
        "How recurrent states are cached (--mamba-cache-mode).",
        default=None,
        default_text="as the release resolves it",
        examples=("align",),
    )
    mamba_block_size: int | None = option(
        "Tokens between cached recurrent states (--mamba-block-size).",
        unit="tokens",
        ge=1,
        default=None,
        default_text="as the release resolves it",
        examples=(512,),
    )
    mamba_cache_dtype: str = option(
        "Data type of recurrent states (--mamba-cache-dtype).",
        default="auto",
        examples=("auto", "float32"),
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Scheduler:
    """Limits of the scheduler that bear on memory."""

    max_num_batched_tokens: int = option(
        "Tokens computed in one step (--max-num-batched-tokens).",
        unit="tokens",
        ge=1,
        default=8192,
        examples=(8192,),
    )
    async_scheduling: bool | None = option(
        "Whether the next step is scheduled while one runs: two batches are then in flight.",
        default=None,
        default_text="true, unless the speculative method forbids it",
        examples=(True,),
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Speculative:
    """Speculative decoding (--speculative-config)."""

    method: str = option("How tokens are drafted.", examples=("eagle", "eagle3", "mtp", "ngram"))
    num_speculative_tokens: int | None = option(
        "Tokens drafted per step.", unit="tokens", ge=1, default=None, examples=(3,)
    )
    prompt_lookup_max: int | None = option(
        "Longest n-gram looked up in the prompt (ngram).",
        unit="tokens",
        ge=1,
        default=None,
        examples=(4,),
    )
    draft: Mapping[str, Any] | None = option(
        "The draft model's config.json: a path relative to this file, or its content.",
        default=None,
        reading=FileOrTable(),
        examples=("eagle-head.json",),
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Device:
    """The accelerator."""

    compute_capability: str = option(
        "CUDA compute capability. It decides vLLM's attention backend, and with it block sizes.",
        default="9.0",
        examples=("9.0", "10.0"),
    )


@own_keys("^x-")
@frozen(kw_only=True)
class Environment:
    """Environment variables that a document of schema 1 sets."""

    VLLM_USE_PACKED_HMA_KV_CACHE: bool | None = option(
        "Asks for the packed layout. No release of vLLM reads it.",
        default=None,
        reading=SwitchText(),
        examples=("1",),
        deprecated=Deprecated(
            use="kv_connector_extra_config.enable_cross_layers_blocks",
            moves_to=("kv_transfer", "kv_connector_extra_config", "enable_cross_layers_blocks"),
            because="it lived between two releases of vLLM, none of which reads it",
        ),
    )


@own_keys("^x-", r"^\$schema$")
@frozen(kw_only=True)
class Config:
    """A whole engine document in today's spelling."""

    schema: Literal[2] = option("Version of this document's spelling.", examples=(2,))
    vllm: str | None = option(
        "The vLLM release it is for.",
        default=None,
        default_text="the newest known",
        examples=("0.28", "0.32"),
    )
    model: Model = option("The model.", factory=Model)
    parallel: Parallel = option("Parallelism.", factory=Parallel)
    cache: Cache = option("The KV cache on the device.", factory=Cache)
    scheduler: Scheduler = option("The scheduler.", factory=Scheduler)
    speculative: Speculative | None = option("Speculative decoding.", default=None)
    device: Device = option("The device.", factory=Device)
    environment: Environment | None = option(
        "Environment variables, from documents of schema 1.", default=None
    )
    kv_transfer: KVTransferConfig | None = option("vLLM's KVTransferConfig.", default=None)
