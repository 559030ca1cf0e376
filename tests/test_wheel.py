"""The wheel brings all it needs: the schemas too, and no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import kvengine
assert kvengine.__file__.startswith({place!r}), kvengine.__file__
from kvengine.cli import main
sys.exit(main({arguments!r}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel of this checkout, unpacked into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    place = folder / "site"
    install = [*pip, "install", "--no-deps", "--target", place, wheel]
    subprocess.run(install, check=True, capture_output=True)
    return place


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (["check", "gpt-oss-20b.toml"], "ok: gpt-oss-20b.toml"),
        (["plan", "gpt-oss-20b.toml"], "109,226 of 384 KiB"),
        (["migrate", "valid/schema-1.toml"], "schema = 2"),
        (["schema", "kv-engine-1"], '"title": "kvengine engine document, schema 1"'),
        (["schema", "vllm/kv-transfer-0.33"], "vLLM KV transfer config, vLLM 0.33"),
        (["explain", "known-issue"], "known-issue"),
    ],
)
def test_the_light_commands_work_from_the_wheel_without_torch(installed, arguments, shows):
    """As after pip install kvengine, in an environment that has neither torch nor numpy."""
    code = WITHOUT_TORCH.format(place=str(installed), arguments=arguments)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "examples",
        env=environment,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert shows in done.stdout
