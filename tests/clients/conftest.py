"""Installs the clients once, as the lock file has them, or skips with the reason."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.documents import schemas

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
INSTALL_LIMIT_S = 120
RUN_LIMIT_S = 120

Driver = Callable[[str, list[dict[str, Any]]], dict[str, Any]]


def install() -> None:
    """``npm ci`` unless what lies there came from this very lock file."""
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".installed"
    if stamp.is_file() and stamp.read_text() == lock:
        return
    command = ["npm", "ci", "--prefer-offline"]
    done = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
    )
    if done.returncode or "TAR_ENTRY_ERROR" in done.stderr:  # a file not written is only a warning
        pytest.skip(f"npm ci failed: {' '.join(done.stderr.split())[:200]}")
    stamp.write_text(lock)


@pytest.fixture(scope="session")
def modules() -> Path:
    """The folder of the installed clients."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm for the editors' own code")
    with (HERE / "package.json").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # one worker installs, the others wait
        try:
            install()
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm ci took more than {INSTALL_LIMIT_S} s")
    return MODULES


@pytest.fixture(scope="session")
def ask(modules: Path) -> Driver:
    """Put documents to one driver, in one process: name -> answer."""

    def ask(driver: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
        done = subprocess.run(
            ["node", HERE / f"{driver}.mjs"],
            input=json.dumps({"schemas": schemas(), "documents": documents}),
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers: dict[str, Any] = json.loads(done.stdout)
        return answers

    return ask
