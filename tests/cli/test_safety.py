"""Nothing that a file names is imported, fetched or run by a check."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WATCHED = """
import os, sys
from kvengine.cli import main

OUTWARD = ("socket.", "urllib.", "http.", "ftplib.", "subprocess.", "os.system", "os.exec",
           "os.fork", "os.posix_spawn")

def watch(event, arguments):
    name = str(arguments[0]) if arguments else ""
    if event.startswith(OUTWARD) or (event in ("import", "open") and "evil" in name):
        os.write(2, f"{event} {name}".encode())
        os._exit(97)

sys.addaudithook(watch)
sys.exit(0 if main(["check", *sys.argv[1:]]) in (0, 1, 2) else "odd exit code")
"""
BARE = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_module_path": "evil_module",
    "kv_connector_extra_config": {
        "spec_name": "Evil",
        "spec_module_path": "evil.spec",
        "eviction_policy": "Evil",
        "cache_policy_module_path": "evil.policy",
        "cpu_bytes_to_use": 1000,
        "secondary_tiers": [
            {"type": "evil", "module_path": "evil.tier"},
            {"type": "valkey", "url": "redis://127.0.0.1:1", "password_env": "EVIL"},
            {"type": "fs", "root_dir": "/evil"},
        ],
    },
}
CONNECTOR_ONLY = {**BARE, "kv_connector_module_path": None}
OWN = {"spec_name": "KVEngineOffloadingSpec", "spec_module_path": "evil.integrations"}
OWN_SPEC = {
    **CONNECTOR_ONLY,
    "kv_connector_extra_config": {**BARE["kv_connector_extra_config"], **OWN},
}
REFERENCES = {"$schema": "http://127.0.0.1:1/evil", "$ref": "http://127.0.0.1:1/evil", **BARE}
ENGINE = {
    "$schema": "http://127.0.0.1:1/evil.json",
    "schema": 2,
    "model": {"config": {"model_type": "llama", "auto_map": {"AutoConfig": "evil.Config"}}},
    "kv_transfer": OWN_SPEC,
}
FILES = {
    "bare.json": json.dumps(BARE),
    "connector.json": json.dumps(CONNECTOR_ONLY),
    "own.json": json.dumps(OWN_SPEC),
    "references.json": json.dumps(REFERENCES),
    "engine.json": json.dumps(ENGINE),
    "object.yaml": 'kv_connector: !!python/object/apply:os.system ["touch evil"]\n',
    "module.yaml": "kv_connector: !!python/module:evil_module\n",
    "include.yaml": "kv_connector: !include evil.yaml\n",
    "script.sh": "touch evil; $(touch evil) `touch evil`\n. ./evil.sh\nvllm serve m"
    f" --kv-transfer-config '{json.dumps(BARE)}' --config evil.yaml\n",
    "start.py": f"import evil_module\nLLM(kv_transfer_config=KVTransferConfig(**{BARE!r}))\n",
    "deployment.yaml": "kind: Deployment\nspec: {containers: [{command: [sh, -c], args: ["
    + json.dumps(f"touch evil && vllm serve m --kv-transfer-config '{json.dumps(BARE)}'")
    + "]}]}\n",
}


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_check_imports_fetches_opens_and_runs_nothing_that_a_file_names(tmp_path, form):
    """An audit hook of the interpreter sees every import, connection, process and file."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", WATCHED, "--format", form, *FILES]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {*FILES}


def test_the_audit_hook_sees_what_it_is_there_for(tmp_path):
    """The model of an engine document is opened on purpose: the hook reports it."""
    (tmp_path / "evil.json").write_text("{}")
    (tmp_path / "kv.toml").write_text('schema = 2\n[model]\nconfig = "evil.json"\n')

    command = [sys.executable, "-c", WATCHED, "kv.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (97, "open evil.json")
