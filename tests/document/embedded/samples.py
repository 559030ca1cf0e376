"""Files as people write them, by name: what ``find`` is tested with."""

from __future__ import annotations

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: prefill}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: "vllm/vllm-openai:v0.28.0"
        command: ["/bin/sh", "-c"]
        args:
          - |
            export PYTHONHASHSEED=0
            # start
            exec vllm serve meta-llama/Llama-3.1-8B \\
              --tensor-parallel-size 2 \\
              --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both",
                "kv_connector_extra_config":{"cpu_bytes_to_use":'"$CPU"'}}'
        env:
        - name: CPU
          value: "1000"
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: decode}
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
        - name: leader
          image: vllm/vllm-openai:v0.30.1
          args:
          - --model=m
          - --kv-transfer-config
          - '{"kv_connector":"NixlConnector","kv_role":"kv_both","engine_id":"$(POD_IP)"}'
          - "--block-size=64"
          env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        - name: other
          image: registry.example/llm:1
          args: ["--kv-transfer-config={\\"kv_connector\\":\\"NixlConnector\\",\\
            \\"kv_role\\":\\"kv_both\\"}"]
        - name: third
          image: vllm/vllm-openai:latest
          args:
          - --kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}
          env: {VLLM_USE_PACKED_HMA_KV_CACHE: "1"}
"""

COMPOSE = """\
services:
  one:
    image: vllm/vllm-openai:v0.27.1
    environment:
      - PYTHONHASHSEED=0
    command: >
      --model m
      --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both",
      "kv_connector_extra_config":{"cpu_bytes_to_use": ${CPU:-100}}}'
      --tensor-parallel-size ${TP}
  two:
    image: vllm/vllm-openai:v0.27.1
    environment: {VLLM_USE_PACKED_HMA_KV_CACHE: "1"}
    command:
      - --kv-transfer-config
      - '{"kv_connector":"NixlConnector",
         "kv_role":"kv_both"}'
"""

OPTIONS = """\
model: m
tensor_parallel_size: 2
enable-prefix-caching: false
kv-transfer-config:
  kv_connector: NixlConnector
  kv_role: kv_both  # both
"""

OPTIONS_TEXT = """\
kv_transfer_config: '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_buffer_size":8G}'
"""

SCRIPT = """\
#!/bin/bash
set -euo pipefail
CPU_GB=${CPU_GB:-64}
export PYTHONHASHSEED=0
KV_CONFIG="{
  \\"kv_connector\\": \\"OffloadingConnector\\",
  \\"kv_role\\": \\"kv_both\\",
  \\"kv_connector_extra_config\\": {\\"cpu_bytes_to_use\\": $((CPU_GB * 1024 ** 3))}
}"
ARGS=(
  --model "$MODEL"
  --kv-transfer-config "$KV_CONFIG"
)
docker run --gpus all -e VLLM_NIXL_SIDE_CHANNEL_PORT=1 vllm/vllm-openai:v0.30.0 "${ARGS[@]}"
ssh host "vllm serve m --kv-transfer-config '{\\"kv_connector\\":\\"NixlConnector\\",\\
\\"kv_role\\":\\"kv_both\\"}'"
"""

HEREDOC = """\
KV_TRANSFER_CONFIG=$(cat <<EOF
{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
 "kv_connector_extra_config": {"cpu_bytes_to_use": ${CPU_BYTES}}}
EOF
)
vllm serve m --block-size 256 --kv-transfer-config "${KV_TRANSFER_CONFIG}"
"""

APPLY = """\
cat <<EOF | kubectl apply -f -
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: v
    image: vllm/vllm-openai:v0.29.0
    args: ["--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"$ROLE"}']
EOF
"""

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  start.sh: |
    #!/bin/sh
    vllm serve m --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
  config.yaml: |
    model: m
    kv-transfer-config:
      kv_connector: NixlConnector
      kv_role: kv_both
  KV_TRANSFER_CONFIG: '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
"""

VALUES = """\
modelSpec:
- name: llama
  repository: vllm/vllm-openai
  tag: v0.28.0
  extraArgs: ["--kv-transfer-config", '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}']
  kvTransferConfig: {kv_connector: NixlConnector, kv_role: kv_both}
  extra: "--kv-transfer-config '{\\"kv_connector\\":\\"NixlConnector\\",
    \\"kv_role\\":\\"kv_both\\"}'"
"""

DOCKERFILE = """\
FROM --platform=linux/amd64 vllm/vllm-openai:v0.28.0 AS base
ENV PYTHONHASHSEED=0 \\
    KV='{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
RUN pip install x && \\
    echo hi
ENTRYPOINT ["vllm", "serve", "m"]
CMD ["--kv-transfer-config", \\
  "{\\"kv_connector\\": \\"NixlConnector\\", \\"kv_role\\": \\"kv_both\\"}"]
"""

PROGRAM = """\
import os
llm = LLM(model="m", tensor_parallel_size=2, enable_prefix_caching=True,
  kv_transfer_config={"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 4 << 30, "é": os.environ["X"]}})
a = KVTransferConfig(kv_connector="NixlConnector", kv_role="kv_both")
b = KVTransferConfig.from_cli('{"kv_connector":"NixlConnector","kv_role":"kv_both"}')
subprocess.run(["vllm", "serve", "m", "--kv-transfer-config",
  '{"kv_connector":"NixlConnector","kv_role":"kv_both"}', "--block-size", "16"])
"""

README = """\
# Use
Pass `--kv-transfer-config` to `vllm serve`. It takes --kv-transfer-config JSON.
```bash
vllm serve m --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
```
```json
{"kv_connector": "NixlConnector", "kv_role": "kv_both"}
```
```yaml
kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}
```
"""

VARIABLES = """\
PYTHONHASHSEED=0
KV_TRANSFER_CONFIG={"kv_connector":"NixlConnector","kv_role":"kv_both"}
VLLM_ARGS=--kv-offloading-size 5 --block-size 16
"""

MANIFEST_JSON = (
    '{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"v","image":"vllm/vllm-openai:'
    'v0.29.0","args":["--kv-transfer-config","{\\"kv_connector\\":\\"NixlConnector\\",\\"kv_role'
    '\\":\\"kv_both\\"}"]}]}}'
)

DOTTED = """\
vllm serve m --kv-transfer-config.kv_connector NixlConnector \\
  --kv_transfer_config.kv_role=kv_both \\
  --kv-transfer-config.kv_connector_extra_config.backends+ LIBFABRIC
"""

BARE = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\n'
ENGINE = 'schema = 2\n[kv_transfer]\nkv_connector = "NixlConnector"\nkv_role = "kv_both"\n'

SAMPLES = {
    "k8s.yaml": MANIFEST,
    "compose.yaml": COMPOSE,
    "options.yaml": OPTIONS,
    "options-text.yaml": OPTIONS_TEXT,
    "run.sh": SCRIPT,
    "heredoc.sh": HEREDOC,
    "apply.sh": APPLY,
    "configmap.yaml": CONFIG_MAP,
    "values.yaml": VALUES,
    "Dockerfile": DOCKERFILE,
    "serve.py": PROGRAM,
    "README.md": README,
    "vars.env": VARIABLES,
    "pod.json": MANIFEST_JSON,
    "<stdin>": DOTTED,
    "bare.json": BARE,
    "engine.toml": ENGINE,
}
