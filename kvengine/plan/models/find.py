"""Which family a config.json belongs to, by ``architectures`` or ``model_type``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvengine.errors import PlanError, show
from kvengine.plan.models import (
    deepseek,
    deepseek_v4,
    delta,
    dense,
    gemma,
    llama4,
    mamba,
    minimax,
    others,
)
from kvengine.plan.models.architecture import Architecture, Family
from kvengine.plan.models.text import Text
from kvengine.rules.releases import NEWEST, Release, Releases

__all__ = ["architectures", "describe"]

_LLAMA_LIKE = [
    "AXK1ForCausalLM",
    "ApertusForCausalLM",
    "ArceeForCausalLM",
    "AfmoeForCausalLM",
    "AquilaForCausalLM",
    "BaichuanForCausalLM",
    "CohereForCausalLM",
    "CwmForCausalLM",
    "DeciLMForCausalLM",
    "DeepseekForCausalLM",
    "Dots1ForCausalLM",
    "EagleLlamaForCausalLM",
    "Ernie4_5ForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "ExaoneMoeForCausalLM",
    "Fairseq2LlamaForCausalLM",
    "FlexOlmoForCausalLM",
    "GemmaForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeForCausalLM",
    "GlmForCausalLM",
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "HunYuanDenseV1ForCausalLM",
    "HunYuanMoEV1ForCausalLM",
    "HYV3ForCausalLM",
    "HyperCLOVAXForCausalLM",
    "InternLM3ForCausalLM",
    "InternLMForCausalLM",
    "IQuestCoderForCausalLM",
    "Jais2ForCausalLM",
    "LagunaForCausalLM",
    "LlamaForCausalLM",
    "LLaMAForCausalLM",
    "MiMoForCausalLM",
    "MiniCPMForCausalLM",
    "MiniMaxM2ForCausalLM",
    "Ministral3ForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "NemotronForCausalLM",
    "Olmo2ForCausalLM",
    "OlmoForCausalLM",
    "OlmoeForCausalLM",
    "OPTForCausalLM",
    "OrionForCausalLM",
    "PanguEmbeddedForCausalLM",
    "PersimmonForCausalLM",
    "Phi3ForCausalLM",
    "PhiForCausalLM",
    "PhiMoEForCausalLM",
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
    "SolarForCausalLM",
    "StableLmForCausalLM",
    "Starcoder2ForCausalLM",
    "Step1ForCausalLM",
    "Step3TextForCausalLM",
    "TeleChat2ForCausalLM",
    "TeleChat3ForCausalLM",
    "XverseForCausalLM",
]

_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(_LLAMA_LIKE, dense.dense),
    "OPTForCausalLM": dense.named("model.decoder.layers.{i}.self_attn.attn"),
    "BloomForCausalLM": dense.named("transformer.h.{i}.self_attention.attn"),
    "ChatGLMModel": dense.named("transformer.encoder.layers.{i}.self_attention.attn"),
    "ExaoneForCausalLM": dense.named("transformer.h.{i}.attn.attention.attn"),
    "FalconForCausalLM": others.falcon,
    "GPT2LMHeadModel": dense.named("transformer.h.{i}.attn.attn"),
    "GPTJForCausalLM": dense.named("transformer.h.{i}.attn.attn"),
    "GPTBigCodeForCausalLM": dense.named("transformer.h.{i}.attn.attn"),
    "GPTNeoXForCausalLM": dense.named("gpt_neox.layers.{i}.attention.attn"),
    "InternLM2ForCausalLM": dense.named("model.layers.{i}.attention.attn"),
    "Gemma2ForCausalLM": dense.windowed,
    "Cohere2ForCausalLM": dense.cohere2,
    "Exaone4ForCausalLM": dense.exaone4,
    "GptOssForCausalLM": dense.gpt_oss,
    "Olmo3ForCausalLM": dense.olmo3,
    **dict.fromkeys(
        ("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
        dense.qwen,
    ),
    "Gemma3ForCausalLM": gemma.gemma3,
    "Gemma3nForCausalLM": gemma.gemma3n,
    "Gemma4ForCausalLM": gemma.gemma4,
    "Llama4ForCausalLM": llama4.llama4,
    **dict.fromkeys(
        ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM",
         "GlmMoeDsaForCausalLM", "Glm4MoeLiteForCausalLM", "KimiK2ForCausalLM",
         "MistralLarge3ForCausalLM", "PanguUltraMoEForCausalLM"),
        deepseek.deepseek,
    ),
    "DeepseekV4ForCausalLM": deepseek_v4.deepseek_v4,
    "MiniMaxM3SparseForCausalLM": minimax.minimax_m3,
    "MiMoV2FlashForCausalLM": minimax.mimo_v2,
    "MiMoV2ForCausalLM": minimax.mimo_v2,
    "MambaForCausalLM": mamba.mamba,
    "FalconMambaForCausalLM": mamba.mamba,
    "Mamba2ForCausalLM": mamba.mamba2,
    "JambaForCausalLM": mamba.jamba,
    "BambaForCausalLM": mamba.granite_hybrid,
    "GraniteMoeHybridForCausalLM": mamba.granite_hybrid,
    "FalconH1ForCausalLM": mamba.falcon_h1,
    "Zamba2ForCausalLM": mamba.zamba2,
    "NemotronHForCausalLM": mamba.nemotron_h,
    "Qwen3NextForCausalLM": delta.qwen_delta,
    "Qwen3_5ForCausalLM": delta.qwen_delta,
    "Qwen3_5MoeForCausalLM": delta.qwen_delta,
    "OlmoHybridForCausalLM": delta.qwen_delta,
    "KimiLinearForCausalLM": delta.kimi_linear,
    "Lfm2ForCausalLM": others.lfm2,
    "Lfm2MoeForCausalLM": others.lfm2,
    "LongcatFlashForCausalLM": others.longcat,
    "LongcatFlashNgramForCausalLM": others.longcat,
    "Step3p5ForCausalLM": others.step3p5,
    "BailingMoeV2_5ForCausalLM": others.bailing_linear,
    "BailingMoeForCausalLM": dense.named("model.layers.{i}.attention.attn"),
    "BailingMoeV2ForCausalLM": dense.named("model.layers.{i}.attention.attn"),
}  # fmt: skip
"""Architecture, as vLLM's registry names text models, to the family that describes it."""

_DATED: tuple[tuple[str, Releases, Family], ...] = (
    # Served by the Transformers library's own modules, which have other names.
    ("GPTNeoXForCausalLM", Releases(since="0.32"), dense.named("model.layers.{i}.attention.attn")),
    # The window was one token short.
    ("Cohere2ForCausalLM", Releases(until="0.29"), dense.named(window=dense.every(4, full=-1))),
)
"""Families that differ in some releases."""

_ALIASES: dict[str, str] = {
    "ChatGLMForConditionalGeneration": "ChatGLMModel",
    "RWForCausalLM": "FalconForCausalLM",
    "BaiChuanForCausalLM": "BaichuanForCausalLM",
    "KimiK25ForConditionalGeneration": "DeepseekV3ForCausalLM",
    "KimiVLForConditionalGeneration": "DeepseekV3ForCausalLM",
    "KimiK3ForConditionalGeneration": "KimiLinearForCausalLM",
    "Mistral3ForConditionalGeneration": "MistralForCausalLM",
    "LlavaForConditionalGeneration": "LlamaForCausalLM",
    "Qwen2VLForConditionalGeneration": "Qwen2ForCausalLM",
    "Qwen2_5_VLForConditionalGeneration": "Qwen2ForCausalLM",
    "Qwen3VLForConditionalGeneration": "Qwen3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3MoeForCausalLM",
    "Glm4vForConditionalGeneration": "Glm4ForCausalLM",
    "Glm4vMoeForConditionalGeneration": "Glm4MoeForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration": "MiniMaxM3SparseForCausalLM",
}
"""Other names, and multimodal models with the text model inside."""

_MODEL_TYPES: dict[str, str] = {
    "afmoe": "AfmoeForCausalLM", "apertus": "ApertusForCausalLM", "arcee": "ArceeForCausalLM",
    "bamba": "BambaForCausalLM", "bloom": "BloomForCausalLM", "chatglm": "ChatGLMModel",
    "cohere": "CohereForCausalLM", "cohere2": "Cohere2ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM", "deepseek_v4": "DeepseekV4ForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM", "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "exaone": "ExaoneForCausalLM", "exaone4": "Exaone4ForCausalLM",
    "falcon": "FalconForCausalLM", "falcon_h1": "FalconH1ForCausalLM",
    "falcon_mamba": "FalconMambaForCausalLM", "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM", "gemma3": "Gemma3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "gemma3n": "Gemma3nForCausalLM",
    "gemma3n_text": "Gemma3nForCausalLM", "gemma4": "Gemma4ForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM", "glm": "GlmForCausalLM", "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM", "glm4_moe_lite": "Glm4MoeLiteForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM", "gpt2": "GPT2LMHeadModel",
    "gpt_bigcode": "GPTBigCodeForCausalLM", "gpt_neox": "GPTNeoXForCausalLM",
    "gpt_oss": "GptOssForCausalLM", "gptj": "GPTJForCausalLM", "granite": "GraniteForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM", "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM", "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "internlm2": "InternLM2ForCausalLM", "internlm3": "InternLM3ForCausalLM",
    "jamba": "JambaForCausalLM", "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM", "llama": "LlamaForCausalLM",
    "llama4": "Llama4ForCausalLM", "llama4_text": "Llama4ForCausalLM",
    "mamba": "MambaForCausalLM", "mamba2": "Mamba2ForCausalLM", "mimo": "MiMoForCausalLM",
    "mimo_v2": "MiMoV2ForCausalLM", "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minicpm": "MiniCPMForCausalLM", "minimax_m2": "MiniMaxM2ForCausalLM",
    "minimax_m3": "MiniMaxM3SparseForCausalLM", "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM", "mixtral": "MixtralForCausalLM",
    "nemotron": "NemotronForCausalLM", "nemotron_h": "NemotronHForCausalLM",
    "olmo": "OlmoForCausalLM", "olmo2": "Olmo2ForCausalLM", "olmo3": "Olmo3ForCausalLM",
    "olmo_hybrid": "OlmoHybridForCausalLM", "olmoe": "OlmoeForCausalLM", "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM", "phi3": "Phi3ForCausalLM", "phimoe": "PhiMoEForCausalLM",
    "qwen2": "Qwen2ForCausalLM", "qwen2_moe": "Qwen2MoeForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "qwen3_5": "Qwen3_5ForCausalLM", "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_5_moe": "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM", "qwen3_next": "Qwen3NextForCausalLM",
    "qwen2_5_vl_text": "Qwen2ForCausalLM", "qwen2_vl_text": "Qwen2ForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM", "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "seed_oss": "SeedOssForCausalLM", "smollm3": "SmolLM3ForCausalLM",
    "solar": "SolarForCausalLM", "stablelm": "StableLmForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM", "step3_text": "Step3TextForCausalLM",
    "zamba2": "Zamba2ForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM",
    "longcat_flash": "LongcatFlashForCausalLM", "step3p5": "Step3p5ForCausalLM",
    "bailing_hybrid": "BailingMoeV2_5ForCausalLM", "bailing_moe": "BailingMoeForCausalLM",
}  # fmt: skip

_DEFAULTS: dict[str, Mapping[str, Any]] = {
    "gemma2": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
               "num_hidden_layers": 26, "hidden_size": 2304, "sliding_window": 4096,
               "max_position_embeddings": 8192},
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                    "num_hidden_layers": 26, "hidden_size": 2304, "sliding_window": 4096,
                    "max_position_embeddings": 131072},
    "mistral": {"num_key_value_heads": 8, "num_attention_heads": 32, "num_hidden_layers": 32,
                "hidden_size": 4096, "max_position_embeddings": 131072},
    "mixtral": {"num_key_value_heads": 8},
    "qwen3": {"head_dim": 128},
    "qwen3_moe": {"num_key_value_heads": 4},
    "gpt_oss": {"head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128},
    "cohere2": {"sliding_window": 4096},
    "qwen3_next": {"head_dim": 256},
    "step3p5": {"max_seq_len": 4096},
}  # fmt: skip
"""What a config leaves out because its class has it as a default."""


def describe(config: Mapping[str, Any], release: Release = NEWEST) -> Architecture:
    """The caches of the model of a config.json, as ``release`` builds it.

    Of a multimodal model these are the caches of its language model.

    Raises PlanError, code ``choice``, for an architecture that no family describes.
    """
    inner = _language_model(config)
    prefix = "" if inner is config else "language_model."
    name = _architecture(config, inner)
    dated = (f for known, releases, f in _DATED if known == name and release in releases)
    family = next(dated, _FAMILIES.get(name))
    if family is None:
        raise _unknown(config, inner)
    model_type = str(inner.get("model_type", ""))
    try:
        return family(name, Text(inner, _DEFAULTS.get(model_type, {})), prefix)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise PlanError(
            "setup",
            "type",
            f"model.config is not what a {name} has: {error}",
            "give the model's own config.json, as it is",
            path=("model", "config"),
        ) from error


def _language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("text_config", "language_config", "llm_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            return inner
    return config


def _architecture(config: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    names = (*architectures(config), *architectures(inner))
    for given in names:
        name = _ALIASES.get(given, given)
        if name in _FAMILIES:
            return name
        text_model = given.replace("ForConditionalGeneration", "ForCausalLM")
        if text_model in _FAMILIES:
            return text_model
    by_type = _MODEL_TYPES.get(str(inner.get("model_type", "")), "")
    return by_type or (names[0] if names else "")


def _unknown(config: Mapping[str, Any], inner: Mapping[str, Any]) -> PlanError:
    names = (*architectures(config), *architectures(inner))
    looked = [f"{show(name)} of architectures" for name in dict.fromkeys(names)]
    if (model_type := inner.get("model_type")) is not None:
        looked.append(f"{show(model_type)} of model_type")
    told = f"not {' nor '.join(looked)}" if looked else "it has no architectures and no model_type"
    return PlanError(
        "setup",
        "choice",
        f"model.config describes no architecture that we know: {told}",
        "describe the layers by hand: one [[model.layers]] table per run of layers, with kind"
        " (full, window, chunked, mla or state), count, heads, head_size and, where it applies,"
        " window",
        path=("model", "config"),
    )


def architectures(config: Mapping[str, Any]) -> list[str]:
    """The names that a config gives its architecture; what is no name is left out."""
    names = config.get("architectures")
    return [one for one in names if isinstance(one, str)] if isinstance(names, list) else []
