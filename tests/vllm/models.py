"""Tiny models written on the spot: a dense Llama, a Gemma 3 with two attention groups, a DeepSeek.

The weights have unit gain, so that what a model says depends on its KV cache: with the weights
that vLLM draws for ``load_format="dummy"`` (within 1e-3) a cache of zeros changes no token. Tied
Gemma embeddings are kept small for the same reason: at unit scale every prediction is the input
token itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4, 4, 2, 64, 1024
HYBRID_LAYERS = 11
LATENT, ROTARY, PLAIN = 512, 64, 64
"""Of the MLA model: latent and rotary values per token, and of a head what is not rotated."""
WINDOW_TOKENS = 128


def config(kind: str, *, max_tokens: int = 2048) -> dict[str, Any]:
    """The ``config.json`` of a ``dense``, ``hybrid`` (window and full layers) or ``mla`` model."""
    width = HEADS * HEAD_DIM
    shared = {
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": max_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if kind == "dense":
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            **shared,
        }
    if kind == "mla":  # no layer with experts
        shared.pop("head_dim")
        return {
            "architectures": ["DeepseekV2ForCausalLM"],
            "model_type": "deepseek_v2",
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            **shared,
            "num_key_value_heads": HEADS,
            "q_lora_rank": None,
            "kv_lora_rank": LATENT,
            "qk_nope_head_dim": PLAIN,
            "qk_rope_head_dim": ROTARY,
            "v_head_dim": HEAD_DIM,
            "first_k_dense_replace": LAYERS,
            "n_routed_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 64,
        }
    # Six window layers and five full ones: two groups whose rows differ in size.
    kinds = ["full_attention" if i % 2 else "sliding_attention" for i in range(HYBRID_LAYERS)]
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": HEAD_DIM,
        "sliding_window": WINDOW_TOKENS,
        "layer_types": kinds,
        "tie_word_embeddings": True,
        **shared,
        "num_hidden_layers": HYBRID_LAYERS,
    }


def write_model(folder: Path, kind: str, *, seed: int = 0) -> Path:
    """Write config, weights and a tokenizer into *folder*; the folder."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    described = config(kind)
    (folder / "config.json").write_text(json.dumps(described, indent=1))
    write_tokenizer(folder)
    generator = torch.Generator().manual_seed(seed)
    gemma = kind == "hybrid"
    width, inner = described["hidden_size"], described["intermediate_size"]

    def matrix(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * gain / columns**0.5

    def scale(size: int) -> torch.Tensor:
        return torch.zeros(size) if gemma else torch.ones(size)  # Gemma adds one

    def latent_attention() -> dict[str, torch.Tensor]:
        return {
            "q_proj": matrix(HEADS * (PLAIN + ROTARY), width, 2.0),
            "kv_a_proj_with_mqa": matrix(LATENT + ROTARY, width, 2.0),
            "kv_b_proj": matrix(HEADS * (PLAIN + HEAD_DIM), LATENT),
            "o_proj": matrix(width, HEADS * HEAD_DIM, 3.0),
        }

    embeddings = torch.randn(VOCABULARY, width, generator=generator)
    weights = {
        "model.embed_tokens.weight": embeddings * (0.02 if gemma else 1.0),
        "model.norm.weight": scale(width),
    }
    if not gemma:
        weights["lm_head.weight"] = matrix(VOCABULARY, width)
    for layer in range(described["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        attention = (
            latent_attention()
            if kind == "mla"
            else {
                "q_proj": matrix(HEADS * HEAD_DIM, width, 2.0),
                "k_proj": matrix(KV_HEADS * HEAD_DIM, width, 2.0),
                "v_proj": matrix(KV_HEADS * HEAD_DIM, width),
                "o_proj": matrix(width, HEADS * HEAD_DIM, 3.0),
            }
        )
        feed = {
            "gate_proj": matrix(inner, width),
            "up_proj": matrix(inner, width),
            "down_proj": matrix(width, inner),
        }
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind == "mla":
            attention["kv_a_layernorm"] = scale(LATENT)
        if gemma:
            attention |= {"q_norm": scale(HEAD_DIM), "k_norm": scale(HEAD_DIM)}
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        weights |= {f"{at}self_attn.{name}.weight": value for name, value in attention.items()}
        weights |= {f"{at}mlp.{name}.weight": value for name, value in feed.items()}
        weights |= {f"{at}{name}.weight": scale(width) for name in norms}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def write_tokenizer(folder: Path) -> None:
    """A word per token, for a server that answers with text."""
    words = {f"t{number}": number for number in range(VOCABULARY)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "t0"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def prompt(seed: int, num_tokens: int = 500) -> list[int]:
    """Token ids that are the same for one seed everywhere, and different for another."""
    step, bend = 7 * (seed + 1), seed + 3
    return [3 + (step * i + i * i * bend) % (VOCABULARY - 3) for i in range(num_tokens)]
