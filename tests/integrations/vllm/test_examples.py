"""The manifests in examples/vllm and the documentation: checked as users would, and run."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kvengine.cli import main

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "vllm"
FILES = [EXAMPLES / "deployment.yaml", EXAMPLES / "docker-run.sh", ROOT / "docs" / "vllm.md"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_config_in_a_manifest_is_found_and_good(file, tmp_path, capsys):
    """A misspelt key in the same place is an error, so the config itself was read."""
    assert main(["check", "--vllm", "0.32", str(file)]) == 0
    wrong = tmp_path / file.name
    wrong.write_text(file.read_text().replace('"cpu_bytes_to_use"', '"cpu_byte_to_use"'))

    assert main(["check", "--vllm", "0.32", str(wrong)]) == 1
    assert "cpu_byte_to_use" in capsys.readouterr().out


def deployment():
    """The manifest's objects by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(FILES[0].read_text())}


def test_the_init_step_of_the_deployment_accepts_its_own_config_map(tmp_path):
    """The very command that the init container runs, on the file that it mounts."""
    manifest = deployment()
    ((name, text),) = manifest["ConfigMap"]["data"].items()
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    (check,) = pod["initContainers"]
    program, *arguments = check["command"]
    (tmp_path / name).write_text(text)

    assert program == "kvengine"
    assert main([a.replace("/etc/kv", str(tmp_path)) for a in arguments]) == 0
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in (check, *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_shared_memory_of_the_manifests_holds_what_they_configure(tmp_path):
    """The region is reserved at start: less shared memory than that would stop it."""
    manifest = deployment()
    config = json.loads(manifest["ConfigMap"]["data"]["kv-transfer.json"])
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    (memory,) = [v["emptyDir"] for v in pod["volumes"] if "emptyDir" in v]
    extra = config["kv_connector_extra_config"]

    assert memory["medium"] == "Memory"
    assert int(memory["sizeLimit"].removesuffix("Gi")) << 30 > extra["cpu_bytes_to_use"]


def test_the_docker_script_checks_first_and_passes_the_same_config_on(tmp_path):
    """With a ``docker`` that runs kvengine here and writes down what it is asked to serve."""
    served = tmp_path / "served"
    kvengine = f"{shlex.quote(sys.executable)} -m kvengine"
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/usr/bin/env bash\n"
        'case "$*" in\n'
        f'*"--entrypoint kvengine"*) while [ "$1" != check ]; do shift; done; {kvengine} "$@" ;;\n'
        f"*) printf '%s\\n' \"${{@: -1}}\" > {shlex.quote(str(served))} ;;\n"
        "esac\n"
    )
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(FILES[1])], env=environment, cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(served.read_text())["kv_connector"] == "OffloadingConnector"
