"""Configs in manifests and scripts: checked, mended and planned where they stand."""

from __future__ import annotations

import json

import pytest

from tests.cli.texts import MODEL

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: prefill}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.28.0
        env:
        - name: OTHER
          value: "x"
        - name: VLLM_USE_PACKED_HMA_KV_CACHE
          value: "1"
        args:
        - serve
        - meta-llama/Llama-3.1-8B
        - --tensor-parallel-size=2
        - --kv-transfer-config
        - >-
          {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config":
          {"cpu_bytes_to_use": "68719476736", "blocks_per_chnk": 8}}
"""

REPORT = """\
serve.yaml:14:19: warning: env:VLLM_USE_PACKED_HMA_KV_CACHE: is read by no release of vLLM \
[deprecated]
  14 |           value: "1"
     |                   ^
  hint: use kv_connector_extra_config.enable_cross_layers_blocks, in 0.24 to 0.28
  fix: remove it (kvengine check --fix does it)
serve.yaml:22:12: info: kv_connector_extra_config.cpu_bytes_to_use: is the text "68719476736", \
read as a number [coerced]
  22 |           {"cpu_bytes_to_use": "68719476736", "blocks_per_chnk": 8}}
     |            ^^^^^^^^^^^^^^^^^^
  hint: write 68719476736
  fix: write 68719476736 (kvengine check --fix does it)
serve.yaml:22:47: error: kv_connector_extra_config.blocks_per_chnk: is no option [unknown]
  22 |           {"cpu_bytes_to_use": "68719476736", "blocks_per_chnk": 8}}
     |                                               ^^^^^^^^^^^^^^^^^
  hint: did you mean 'blocks_per_chunk'?
1 error, 1 warning, 1 info in 1 file
"""

PAIR = """\
#!/bin/sh
vllm serve m --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}' &
vllm serve m --kv-transfer-config '{"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"}'
"""


def test_a_manifest_is_checked_inside_its_strings(run, folder):
    """Places lie in the manifest, paths in the config, the release comes from the image."""
    (folder / "serve.yaml").write_text(MANIFEST)

    ran = run("check", "serve.yaml")

    assert (ran.code, ran.err) == (1, "")
    assert ran.out.splitlines()[:4] == REPORT.splitlines()[:4]
    assert ran.out == REPORT


def test_json_says_both_paths(run, folder):
    """That of the text in the manifest, and that inside the config."""
    (folder / "serve.yaml").write_text(MANIFEST)
    found = json.loads(run("check", "serve.yaml", "--format", "json").out)["problems"]

    assert [(one["path"], one["config"], one["config_path"]) for one in found] == [
        ("env:VLLM_USE_PACKED_HMA_KV_CACHE", 0, None),
        (
            "/spec/template/spec/containers/0/args/4",
            0,
            "/kv_connector_extra_config/cpu_bytes_to_use",
        ),
        (
            "/spec/template/spec/containers/0/args/4",
            0,
            "/kv_connector_extra_config/blocks_per_chnk",
        ),
    ]


def test_fix_mends_a_manifest(run, folder):
    """The variable goes, the number loses its quotes, all else stays."""
    (folder / "serve.yaml").write_text(MANIFEST)

    ran = run("check", "--fix", "serve.yaml")

    assert (folder / "serve.yaml").read_text() == MANIFEST.replace(
        '        - name: VLLM_USE_PACKED_HMA_KV_CACHE\n          value: "1"\n', ""
    ).replace('"68719476736"', "68719476736")
    assert ran.out.endswith("1 error in 1 file\n")
    assert run("check", "--fix", "serve.yaml").out == ran.out


def test_a_pair_is_checked_against_each_other(run, folder):
    """Prefill and decode of one file need the same connector."""
    (folder / "pair.sh").write_text(PAIR)

    ran = run("check", "pair.sh", "--select", "conflict")

    assert ran.code == 1
    assert "pair.sh:3:" in ran.out
    assert "is MooncakeConnector here and NixlConnector there [conflict]" in ran.out


def test_a_command_line_is_read_from_standard_input(run):
    """As somebody pastes it."""
    line = b'vllm serve m --kv-transfer-config \'{"kv_connector": "OffloadingConnector"}\'\n'

    ran = run("check", "-", stdin=line)

    assert ran.code == 1
    assert "<stdin>:1:36: error: kv_role: is required with 'kv_connector' [missing]" in ran.out


@pytest.mark.parametrize("name", ["notes.yaml", "run.sh", "app.py"])
def test_a_file_without_a_config_is_no_error(run, folder, name):
    """It is said, in case that it was meant to have one."""
    (folder / name).write_text("a: 1\n" if name.endswith("yaml") else "echo\n")

    ran = run("check", name)

    assert ran.code == 0
    assert ran.out.startswith(f"{name}:1:1: info: holds no transfer config [missing]\n")
    assert run("check", "--skip-others", name).out == "ok: 0 files\n"


def test_folders_hold_scripts_and_manifests(run, folder):
    """--recursive finds them by content."""
    for name, text in {"a/k.yaml": MANIFEST, "a/b/run.sh": PAIR, "a/c.yaml": "a: 1\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    ran = run("check", "-r", "a", "--severity", "error")

    assert ran.code == 1
    assert "a/k.yaml:22:47: error: " in ran.out
    assert "a/b/run.sh:3:" in ran.out
    assert ran.out.endswith(" in 2 files\n")


def test_a_manifest_is_planned_with_its_own_flags(run, folder):
    """Model and memory are ours; tensor parallelism and the release are the manifest's."""
    (folder / "serve.yaml").write_text(MANIFEST.replace("blocks_per_chnk", "blocks_per_chunk"))
    (folder / "config.json").write_text(MODEL)
    ours = ("--model", "config.json", "--memory", "4 GiB")

    ran = run("plan", "serve.yaml", *ours, "--json")
    plan = json.loads(ran.out)

    assert plan["vllm"] == "0.28"
    assert plan["groups"][0]["page_bytes"] == 2 * 16 * 4 * 128 * 2
    assert plan["offload"]["tiers"][0]["capacity_bytes"] == 68719476736
    one = json.loads(run("plan", "serve.yaml", *ours, "--tp", "1", "--json").out)
    assert one["groups"][0]["page_bytes"] == 2 * 16 * 8 * 128 * 2


def test_one_config_of_several_is_chosen(run, folder):
    """The error says which there are."""
    (folder / "pair.sh").write_text(PAIR)
    (folder / "config.json").write_text(MODEL)
    ours = ("--model", "config.json", "--memory", "4 GiB")

    ran = run("plan", "pair.sh", *ours)

    assert ran == (
        1,
        "error: flag:--config: the file holds 2 configs: choose one with --config N [choice]\n"
        "  hint: 0: line 2; 1: line 3\n"
        "1 error\n",
        "",
    )
    assert run("plan", "pair.sh", *ours, "--config", "0").out.startswith("model ")
    assert run("plan", "pair.sh", *ours, "--config", "2").code == 1


def test_an_offloading_size_alone_makes_a_config(run, folder):
    """--kv-offloading-size is what vLLM makes of it."""
    (folder / "run.sh").write_text("vllm serve m --kv-offloading-size 8 --max-model-len 4K\n")
    (folder / "config.json").write_text(MODEL)
    ran = run("plan", "run.sh", "--model", "config.json", "--memory", "4 GiB", "--json")
    plan = json.loads(ran.out)

    assert plan["max_model_len"] == 4096
    assert plan["offload"]["tiers"][0]["capacity_bytes"] == 8 << 30
