"""The comparison with vLLM's sources, on a small package of its shape."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kvengine.rules.releases import release

SCRIPT = Path(__file__).parent.parent.parent / "scripts/compare_vllm.py"

FILES = {
    "envs.py": 'environment_variables = {"VLLM_NIXL_SIDE_CHANNEL_PORT": 1, "VLLM_NIXL_NEW": 2}\n',
    "config/kv_transfer.py": (
        "class KVTransferConfig:\n"
        "    kv_connector: str\n"
        "    kv_brand_new: int\n"
        "    def get_from_extra_config(self, key, default): ...\n"
    ),
    "distributed/kv_transfer/factory.py": (
        'Factory.register_connector("NixlConnector", "vllm.x", "Nixl")\n'
        'Factory.register_connector("NovelConnector", "vllm.y", "Novel")\n'
    ),
    "distributed/kv_transfer/novel.py": (
        "class Novel:\n"
        "    def __init__(self, config):\n"
        "        self._extra = config.kv_connector_extra_config or {}\n"
        '        self.one = self._extra.get("novel_one", 1)\n'
        '        self.two = config.get_from_extra_config("novel_two", 2)\n'
        '        self.three = "novel_three" in config.kv_connector_extra_config\n'
        '        self.four = config.kv_connector_extra_config["backends"]\n'
    ),
    "v1/kv_offload/tiering/factory.py": (
        'F.register_tier("fs", "vllm.v1.kv_offload.tiering.fs", "FileSystemTier")\n'
    ),
    "v1/kv_offload/tiering/fs.py": (
        "class FileSystemTier:\n    def __init__(self, root_dir, n_read_threads, max_files): ...\n"
    ),
}


@pytest.fixture
def compare(monkeypatch):
    spec = importlib.util.spec_from_file_location("compare_vllm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "compare_vllm", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "vllm-0.33.0.dist-info").mkdir()
    return tmp_path


def test_what_is_new_is_missing_and_what_left_is_gone(compare, package):
    """Fields, connectors, keys in every form of access, tier arguments, variables."""
    folder = compare.package(package)

    lines = compare.report(folder, compare.release_of(folder))

    missing = {line.split("  (")[0] for line in lines if line.startswith("missing")}
    assert missing == {
        "missing  field kv_brand_new",
        "missing  connector NovelConnector",
        "missing  key novel_one",
        "missing  key novel_two",
        "missing  key novel_three",
        "missing  key of tier fs: max_files",
        "missing  variable VLLM_NIXL_NEW",
    }
    assert "gone     connector OffloadingConnector" in lines
    assert "gone     key of tier fs: n_write_threads" in lines
    assert "gone     key backends" not in lines


def test_the_release_comes_from_the_metadata(compare, package):
    """Or from the command line."""
    assert compare.release_of(compare.package(package)) == release("0.33")


def test_nothing_is_imported(compare, package):
    """A package that would raise on import is compared all the same."""
    (package / "vllm/config/kv_transfer.py").write_text(
        "raise SystemExit(3)\nclass KVTransferConfig:\n    kv_connector: str\n"
    )

    assert compare.report(compare.package(package), release("0.33"))
