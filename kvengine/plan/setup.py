"""The engine's configuration, resolved: what vLLM makes of a document before it plans.

Everything that it refuses here is a PlanError of stage ``setup``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from kvengine.config.engine import Config
from kvengine.errors import PlanError, Problem, show
from kvengine.plan.dtypes import storage_of
from kvengine.plan.facts import OLDEST, PLANNED, Facts, facts_for
from kvengine.plan.models import Architecture, describe
from kvengine.plan.models.drafts import draft_layers
from kvengine.plan.models.handmade import described_by_hand
from kvengine.plan.specs import Layer
from kvengine.rules.releases import NEWEST, release

__all__ = ["Setup", "resolve_setup"]

_FEW_BATCHES = frozenset({"ngram", "medusa", "mlp_speculator", "suffix"})
"""Drafting methods that switch asynchronous scheduling off."""

_OWN_DRAFTS = frozenset({"mtp", "eagle", "eagle3", "dflash", "dspark"})


@frozen(kw_only=True)
class Setup:
    """One engine, resolved. Counts are tokens unless their name says otherwise.

    ``stages`` are the layers of each pipeline stage, in order. ``max_model_len`` is the length
    asked for, or the model's own limit when ``auto_fit`` searches for what fits.
    """

    facts: Facts
    model: Architecture
    stages: tuple[tuple[Layer, ...], ...]
    tensor: int
    context: int
    prefill_context: int
    executor: str
    nodes: int
    max_model_len: int
    auto_fit: bool
    in_flight: int
    cache_dtype: str
    model_dtype: str
    capability: str
    asked_block: int | None
    asked_layout: str | None
    prefix_match_unit: int | None
    prefix_caching: bool
    mamba_mode: str
    mamba_block: int | None
    mamba_dtype: str
    drafts: int
    retained_tokens: int
    hybrid: bool
    has_connector: bool
    asks_packed: bool
    num_blocks: int | None
    memory: tuple[int, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, drafts last."""
        return tuple(layer for stage in self.stages for layer in stage)

    @property
    def compute_major(self) -> int:
        """Generation of the device: 9 for Hopper, 10 and 12 for Blackwell."""
        return int(self.capability.split(".")[0])

    @property
    def pipeline(self) -> int:
        """Pipeline stages."""
        return len(self.stages)

    @property
    def world(self) -> int:
        """Ranks of the engine."""
        return self.tensor * self.pipeline * self.prefill_context

    @property
    def storage(self) -> str:
        """What layers store unless they are left unquantised."""
        return storage_of(self.cache_dtype, self.model_dtype)


def resolve_setup(config: Config) -> Setup:
    """What the engine resolves a document to; PlanError where it would refuse to start."""
    facts, problems = _release(config)
    model = _model(config, facts)
    _check_parallel(config, model)
    dtype = _cache_dtype(config, model, facts)
    prefix_caching = _prefix_caching(config, model, facts)
    length, auto_fit = _length(config, model, facts)
    drafts = _draft_tokens(config)
    extra = config.kv_transfer.kv_connector_extra_config if config.kv_transfer else None
    return Setup(
        facts=facts,
        model=model,
        stages=_stages(config, model, facts),
        tensor=config.parallel.tensor,
        context=config.parallel.decode_context,
        prefill_context=config.parallel.prefill_context,
        executor=config.parallel.executor,
        nodes=config.parallel.nodes,
        max_model_len=length,
        auto_fit=auto_fit,
        in_flight=_in_flight(config, facts),
        cache_dtype=dtype,
        model_dtype=config.model.dtype or model.text.dtype,
        capability=_capability(config),
        asked_block=config.cache.tokens_per_block,
        asked_layout=config.cache.layout,
        prefix_match_unit=config.cache.prefix_match_unit,
        prefix_caching=prefix_caching,
        mamba_mode=_mamba_mode(config, model, facts, prefix_caching),
        mamba_block=config.cache.mamba_block_size,
        mamba_dtype=config.cache.mamba_cache_dtype,
        drafts=drafts,
        retained_tokens=_retained(config, model, drafts),
        hybrid=config.cache.hybrid is not False,
        has_connector=config.kv_transfer is not None and bool(config.kv_transfer.kv_connector),
        asks_packed=bool(getattr(extra, "enable_cross_layers_blocks", False)),
        num_blocks=config.cache.num_blocks,
        memory=_memory(config),
        problems=problems,
    )


def _release(config: Config) -> tuple[Facts, tuple[Problem, ...]]:
    wanted = NEWEST if config.vllm is None else release(config.vllm)
    if wanted in PLANNED:
        return facts_for(wanted), ()
    planned = facts_for(wanted)
    problem = Problem(
        "unchecked",
        ("vllm",),
        f"is {wanted}, whose planning we do not know; planned as {planned.release}",
        f"releases {OLDEST} to {NEWEST} are planned exactly",
        "warning",
    )
    return planned, (problem,)


def _model(config: Config, facts: Facts) -> Architecture:
    by_hand: Sequence[Any] = getattr(config.model, "layers", None) or ()
    if by_hand:
        return described_by_hand(config.model.config, by_hand)
    if not config.model.config:
        raise PlanError(
            "setup",
            "missing",
            "model.config is not given, so there are no layers to plan for",
            "give a Hugging Face config.json, or describe the layers in [[model.layers]]",
            path=("model", "config"),
        )
    return describe(config.model.config, facts.release)


def _refuse(code: str, message: str, hint: str, *path: str) -> PlanError:
    return PlanError("setup", code, message, hint, path=path)


def _capability(config: Config) -> str:
    given = config.device.compute_capability
    if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", given) is None:
        raise _refuse(
            "range",
            f"compute_capability {show(given)} is not one such as 9.0",
            "9.0 is Hopper, 10.0 Blackwell",
            "device", "compute_capability",
        )  # fmt: skip
    return given


def _check_parallel(config: Config, model: Architecture) -> None:
    tensor, context = config.parallel.tensor, config.parallel.decode_context
    if model.heads % tensor:
        raise _refuse(
            "geometry",
            f"{model.heads} attention heads cannot be divided over {tensor} tensor-parallel ranks",
            "use a tensor size that divides the heads",
            "parallel", "tensor",
        )  # fmt: skip
    heads = model.kv_heads
    if not model.latent and heads and (heads % tensor and tensor % heads):
        raise _refuse(
            "geometry",
            f"{heads} KV heads and {tensor} tensor-parallel ranks do not divide each other",
            "use a tensor size that divides the KV heads, or a multiple of them",
            "parallel", "tensor",
        )  # fmt: skip
    if model.text.get("model_type") == "gpt_oss" and tensor > heads:
        raise _refuse(
            "geometry",
            f"gpt-oss does not repeat its {heads} KV heads over {tensor} tensor-parallel ranks",
            f"use at most {heads} ranks",
            "parallel", "tensor",
        )  # fmt: skip
    if model.state is not None and not model.state.recurrence.divides_over(tensor):
        raise _refuse(
            "geometry",
            f"the recurrent states cannot be divided over {tensor} tensor-parallel ranks",
            "use a tensor size that divides their heads and groups",
            "parallel", "tensor",
        )  # fmt: skip
    if context == 1:
        return
    most = tensor if model.latent else max(tensor // max(heads, 1), 1)
    if tensor % context or context > most:
        raise _refuse(
            "geometry",
            f"decode context parallel size {context} is more than {most}, all that {tensor}"
            f" tensor-parallel ranks and {heads} KV heads allow",
            "it divides the ranks that hold the same KV heads",
            "parallel", "decode_context",
        )  # fmt: skip


def _cache_dtype(config: Config, model: Architecture, facts: Facts) -> str:
    dtype = config.cache.dtype
    path = ("cache", "dtype")
    if dtype not in facts.cache_dtypes:
        raise _refuse(
            "choice",
            f"cache dtype {dtype!r} is not one that vLLM {facts.release} knows",
            "one of " + ", ".join(sorted(facts.cache_dtypes)),
            *path,
        )
    model_dtype = config.model.dtype or model.text.dtype
    if facts.dtype_must_match and dtype in ("float16", "bfloat16") and dtype != model_dtype:
        raise _refuse(
            "conflict",
            f"cache dtype {dtype} does not go with the model's {model_dtype}",
            f"use auto or {model_dtype}",
            *path,
        )
    if dtype.startswith("nvfp4") and dtype != "nvfp4_ds_mla" and model.latent:
        raise _refuse(
            "choice", f"cache dtype {dtype} is not for latent attention", "use fp8", *path
        )
    if model.packed_latent:
        is_default = dtype == "auto" and facts.compressed_auto_is_fp8
        if not is_default and not dtype.startswith("fp8"):
            raise _refuse(
                "choice",
                f"cache dtype {dtype} is not what DeepSeek-V4 stores: only fp8 is",
                'set cache.dtype = "fp8"',
                *path,
            )
        return "fp8_ds_mla"
    if model.name == "DeepseekV32ForCausalLM" and dtype == "bfloat16":
        return "auto"
    return dtype


def _prefix_caching(config: Config, model: Architecture, facts: Facts) -> bool:
    if config.cache.prefix_caching is not None:
        return config.cache.prefix_caching
    if model.state is None:
        return True
    return model.hybrid and facts.mamba_prefix_caching


def _mamba_mode(config: Config, model: Architecture, facts: Facts, prefix_caching: bool) -> str:
    if model.state is None or not prefix_caching:
        return "none"
    asked = config.cache.mamba_cache_mode
    return "all" if asked == "all" and facts.mamba_mode_all else "align"


def _length(config: Config, model: Architecture, facts: Facts) -> tuple[int, bool]:
    limit = model.text.max_length(scale_yarn=facts.yarn_scales_length)
    asked = config.model.max_model_len
    if limit == 0 or asked == 0:
        raise _refuse("range", "requests of 0 tokens are none", "", "model", "max_model_len")
    if asked is None or asked == -1:
        return model.text.default_length(limit), asked == -1
    if limit is not None and asked > limit:
        raise _refuse(
            "range",
            f"max_model_len {asked} is more than the model's own limit of {limit}",
            f"use at most {limit}",
            "model", "max_model_len",
        )  # fmt: skip
    return asked, False


def _in_flight(config: Config, facts: Facts) -> int:
    batch = config.scheduler.max_num_batched_tokens
    if not facts.batches_in_flight:
        return batch
    asked = config.scheduler.async_scheduling
    drafting = config.speculative is not None and config.speculative.method in _FEW_BATCHES
    overlaps = not drafting if asked is None else asked
    return batch * 2 if overlaps else batch


def _draft_tokens(config: Config) -> int:
    speculative = config.speculative
    if speculative is None:
        return 0
    return speculative.num_speculative_tokens or 1


def _retained(config: Config, model: Architecture, drafts: int) -> int:
    """Tokens that windows keep beyond their edge, for several prediction modules in a row."""
    if config.speculative is None or config.speculative.method != "mtp":
        return 0
    modules = model.text.integer("num_nextn_predict_layers", default=1)
    return drafts - 1 if min(modules, drafts) > 1 else 0


def _stages(config: Config, model: Architecture, facts: Facts) -> tuple[tuple[Layer, ...], ...]:
    count = model.num_layers
    shares = _shares(config, count)
    stages: list[list[Layer]] = [[] for _ in shares]
    owner = [stage for stage, share in enumerate(shares) for _ in range(share)]
    for layer in model.layers:
        if layer.index >= count:
            raise _refuse(
                "geometry",
                f"model.config puts {layer.name} in layer {layer.index}, counted from 0, but gives"
                f" the model {count} layers",
                "its list of layer types and its number of layers must agree",
                "model", "config",
            )  # fmt: skip
        stages[owner[layer.index]].append(layer)
    if config.speculative is not None and config.speculative.method in _OWN_DRAFTS:
        draft = config.speculative.draft
        stages[-1].extend(draft_layers(draft, count, facts.release) if draft else model.drafts)
    return tuple(tuple(stage) for stage in stages)


def _shares(config: Config, count: int) -> list[int]:
    stages = config.parallel.pipeline
    given = config.parallel.pipeline_layers
    if given:
        if len(given) != stages or sum(given) != count:
            raise _refuse(
                "geometry",
                f"pipeline_layers names {len(given)} stages with {sum(given)} layers together; the"
                f" engine has {stages} stages and the model {count} layers",
                "one number per stage, all layers of the model together",
                "parallel", "pipeline_layers",
            )  # fmt: skip
        return list(given)
    if stages > max(count, 1):
        raise _refuse(
            "geometry",
            f"{stages} pipeline stages are more than the model's {count} layers",
            f"use at most {count} stages",
            "parallel", "pipeline",
        )  # fmt: skip
    shares = [count // stages] * stages
    for i in range(count % stages):
        shares[-2 - i if stages > 1 else -1] += 1
    return shares


def _memory(config: Config) -> tuple[int, ...]:
    memory = config.cache.memory
    stages = config.parallel.pipeline
    if memory is None:
        if config.cache.num_blocks is not None:
            return (0,) * stages
        raise _refuse(
            "missing",
            "cache.memory is not given, so the number of blocks is unknown",
            "give the bytes for KV cache on each rank, such as \"40 GiB\"",
            "cache", "memory",
        )  # fmt: skip
    if isinstance(memory, int):
        return (memory,) * stages
    if len(memory) != stages:
        raise _refuse(
            "geometry",
            f"cache.memory has {len(memory)} entries for {stages} pipeline stages",
            "give one number for all, or one per stage",
            "cache", "memory",
        )  # fmt: skip
    return tuple(memory)
