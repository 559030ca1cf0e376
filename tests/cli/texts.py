"""Documents that the tests of the commands write."""

from __future__ import annotations

import json

CLEAN = """\
schema = 2
vllm = "0.28"

[kv_transfer]
kv_connector = "OffloadingConnector"
kv_role = "kv_both"

[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 68719476736
"""

WRONG = """\
schema = 2
vllm = "0.28"

[cache]
tokens_per_block = "16"  # a text

[kv_transfer]
kv_connector = "OffloadingConnector"
kv_role = "kv_both"

[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 68719476736
blocks_per_chunk = 0
"""

WARNED = """\
schema = 1
vllm = "0.28"

[environment]
VLLM_USE_PACKED_HMA_KV_CACHE = "1"

[kv_transfer]
kv_connector = "OffloadingConnector"
kv_role = "kv_both"
kv_connector_extra_config = { cpu_bytes_to_use = 68719476736 }  # as before
"""

BARE = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",\n\
 "kv_connector_extra_config": {"cpu_bytes_to_use": "68719476736"}}\n'

MODEL = json.dumps(
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 32,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    }
)
