"""Imports between the layers go one way, and the light commands stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kvengine"
ORDER = ["errors", "units", "document", "rules", "config", "plan", "runtime", "integrations", "cli"]
SAME_RANK = [{"errors", "units"}, {"integrations", "cli"}]
HEAVY = {"torch", "numpy", "triton", "vllm"}


def layer(module: str) -> str | None:
    """The layer that a module of kvengine belongs to; None for the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "kvengine" and parts[1] in ORDER else None


def module_of(file: Path) -> str:
    return ".".join(("kvengine", *file.relative_to(PACKAGE).with_suffix("").parts))


def imports(file: Path) -> set[str]:
    """Every module that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=module_of)
def test_a_module_imports_its_own_layer_and_those_to_its_left(file):
    """errors, units <- document <- rules <- config <- plan <- runtime <- integrations, cli."""
    own = layer(module_of(file))
    if own is None:
        pytest.skip("the front door may import everything, lazily")

    for module in imports(file):
        other = layer(module)
        if other is not None and other != own:
            assert ORDER.index(other) < ORDER.index(own), f"{own} imports {module}"
            assert not any({own, other} <= ranks for ranks in SAME_RANK), f"{own} imports {module}"


@pytest.mark.parametrize(
    "file",
    [
        file
        for file in sorted(PACKAGE.rglob("*.py"))
        if layer(module_of(file)) not in ("runtime", "integrations")
    ],
    ids=module_of,
)
def test_only_the_runtime_and_the_integrations_import_torch(file):
    """Everything else runs where torch is not installed."""
    assert not {module.split(".")[0] for module in imports(file)} & HEAVY


@pytest.mark.parametrize(
    "command",
    [
        "import kvengine",
        "import kvengine; kvengine.load('examples/gpt-oss-20b.toml')",
        "import kvengine; kvengine.make_plan(kvengine.load('examples/gpt-oss-20b.toml'))",
        "from kvengine.cli import main; main(['check', 'examples/gpt-oss-20b.toml'])",
        "from kvengine.cli import main; main(['plan', 'examples/gpt-oss-20b.toml'])",
        "from kvengine.cli import main; main(['migrate', 'examples/gpt-oss-20b.toml'])",
        "from kvengine.cli import main; main(['schema', 'kv-engine-2'])",
        "from kvengine.cli import main; main(['explain', 'exclusive'])",
    ],
)
def test_the_light_commands_import_neither_torch_nor_numpy(command):
    """check, migrate, schema, plan and explain work without the runtime extra."""
    code = f"{command}\nimport sys\nassert not {HEAVY!r} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
