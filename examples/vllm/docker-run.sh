#!/usr/bin/env bash
# vLLM with kvengine's offloading spec in a container: checked first, then served.
#
# The image is vLLM's own with kvengine on top (Dockerfile beside this file). Host memory for
# chunks is shared memory: --shm-size must hold cpu_bytes_to_use and what vLLM needs besides.
set -euo pipefail

image=vllm-kvengine:0.32
model=openai/gpt-oss-20b
config='{
  "kv_connector": "OffloadingConnector",
  "kv_role": "kv_both",
  "kv_connector_extra_config": {
    "spec_name": "KVEngineOffloadingSpec",
    "spec_module_path": "kvengine.integrations.vllm",
    "cpu_bytes_to_use": 34359738368,
    "blocks_per_chunk": 8,
    "eviction_policy": "s3fifo",
    "secondary_tiers": [{"type": "fs", "root_dir": "/var/cache/kv", "max_bytes": 214748364800}]
  }
}'

docker run --rm -i --entrypoint kvengine "$image" check --vllm 0.32 - <<<"$config"

exec docker run --rm --gpus all --shm-size 40g -p 8000:8000 \
    -v /data/kv:/var/cache/kv -v /data/huggingface:/root/.cache/huggingface \
    "$image" --model "$model" --kv-transfer-config "$config"
