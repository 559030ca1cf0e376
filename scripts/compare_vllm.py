#!/usr/bin/env python3
"""Compare our declarations with the sources of a vLLM release, installed or unpacked.

    scripts/compare_vllm.py PATH [--release 0.34]

PATH is the folder of the ``vllm`` package, or one that holds it. Nothing is imported: files are
parsed, and what they read from a transfer config is found by its shape. Lists what the release
has and we do not declare for it ("missing"), and what we declare and it does not show ("gone").
Exit code 1 if there is either.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from kvengine.config.connectors import CONNECTOR, CONNECTORS
from kvengine.config.connectors.offloading import SPECS
from kvengine.config.environment import Variables
from kvengine.config.tiers import TIERS
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.families import leaves
from kvengine.rules.options import own_keys_of
from kvengine.rules.registry import Registry
from kvengine.rules.releases import NEWEST, Release, release
from kvengine.rules.shapes import fields_of

FOLDERS = (
    "distributed/kv_transfer",
    "v1/kv_offload",
    "v1/simple_kv_offload",
    "config",
    "v1/core",
    "v1/worker",
    "distributed/mooncake_store.py",
)
VARIABLES = re.compile(r"NIXL|MOONCAKE|MORIIO|KV_|P2P_|OFFLOAD|LMCACHE|PREFIX_CACHE")
UNRELATED = re.compile(
    r"EC_|FLASHINFER|MLA|DEBUG|NCCL|FP8|KV_SPLITS|CUTLASS|XQA|SKIP_P2P|DCP|WEIGHT|_PLE_|NIXL_EP"
)
NOT_FOR_USERS = {"self", "tier_type", "args", "kwargs", "module_path", "backpressure_detector"}
INVISIBLE = {
    "host_pool_gib": "read from the children by a loop over both forms",
    "enable_cross_layers_blocks": "compared as text by a helper",
    "type": "taken out by the factory",
    "module_path": "taken out by the factory",
    "backpressure": "taken out by the spec",
}
"""Declared keys that sources do not show in a form that is looked for."""


@frozen
class Found:
    """One name and the first place where it stands."""

    name: str
    where: str


def package(path: Path) -> Path:
    """The folder of the vllm package at ``path`` or below it."""
    for folder in (path, path / "vllm", *path.glob("**/site-packages/vllm")):
        if (folder / "config").is_dir() and (folder / "envs.py").is_file():
            return folder
    sys.exit(f"compare_vllm: there is no vllm package at {path}")


def release_of(folder: Path) -> Release | None:
    """The release, from the metadata beside the package."""
    for info in folder.parent.glob("vllm*.dist-info"):
        match = re.search(r"-(\d+\.\d+)", info.name)
        if match:
            return release(match[1])
    return None


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every file that could read a transfer config, parsed."""
    for part in FOLDERS:
        base = folder / part
        for file in [base] if base.is_file() else sorted(base.rglob("*.py")):
            yield str(file.relative_to(folder)), ast.parse(file.read_text("utf-8"))


def text_of(node: ast.AST | None) -> str | None:
    """A literal text, if the node is one."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def holders(tree: ast.Module) -> set[str]:
    """Names and attributes of a file that hold an extra config."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            source = ast.unparse(node.value)
            if re.search(r"extra_config( or \{\})?\)?$", source) and "ec_connector" not in source:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {ast.unparse(target) for target in targets}
    return found


def extra_keys(file: str, tree: ast.Module) -> Iterator[Found]:
    """Keys that a file reads from an extra config."""
    known = holders(tree)

    def holds(node: ast.AST) -> bool:
        source = ast.unparse(node)
        inside = re.search(r"(?<!loader_)extra_config(', \{\}\))?$", source) is not None
        return source in known or (inside and "ec_connector" not in source)

    for node in ast.walk(tree):
        key = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if (node.func.attr == "get_from_extra_config" and "ec_" not in file) or (
                node.func.attr in ("get", "pop", "setdefault") and holds(node.func.value)
            ):
                key = text_of(node.args[0])
        elif isinstance(node, ast.Subscript) and holds(node.value):
            key = text_of(node.slice)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            key = text_of(node.left) if holds(node.comparators[0]) else None
        if key is not None:
            yield Found(key, f"{file}:{getattr(node, 'lineno', 0)}")


def registered(tree: ast.Module, method: str) -> Iterator[tuple[str, str, str]]:
    """Name, module and class of every call of a register method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [text_of(argument) for argument in node.args]
            if node.func.attr == method and len(parts) == 3 and None not in parts:
                yield tuple(part or "" for part in parts)  # type: ignore[misc]


def fields_in(tree: ast.Module, name: str) -> Iterator[Found]:
    """The annotated fields of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield Found(line.target.id, f"{name}:{line.lineno}")


def arguments_of(tree: ast.Module, name: str) -> Iterator[str]:
    """The arguments of a class's constructor."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                    every = (*line.args.posonlyargs, *line.args.args, *line.args.kwonlyargs)
                    yield from (argument.arg for argument in every)


def of_registry(registry: Registry, wanted: Release) -> set[str]:
    """The names that we have for a release, other packages' aside."""
    return {
        name
        for name in registry
        if registry.valid(name, wanted) and not registry.facts(name).origin
    }


def declared_keys(wanted: Release) -> set[str]:
    """Every extra key that some connector or spec reads in a release."""
    models = {
        model
        for name, found in leaves(CONNECTOR).items()
        if name in of_registry(CONNECTORS, wanted)
        for model in found
        if model.__name__ != "KVEngineOffloadingSpec"
    }
    models |= {
        SPECS[name] for name in of_registry(SPECS, wanted) if name != "KVEngineOffloadingSpec"
    }
    return {
        key
        for model in models
        for key, field in fields_of(model).items()
        if wanted in field.option.vllm
        and not any(re.search(p, key) for p in own_keys_of(model) if p != "^x-")
    }


def compare(what: str, theirs: dict[str, str], ours: set[str]) -> Iterator[str]:
    """The lines about one part of the surface."""
    for name in sorted(theirs.keys() - ours):
        yield f"missing  {what} {name}  ({theirs[name]})"
    for name in sorted(ours - theirs.keys() - INVISIBLE.keys()):
        yield f"gone     {what} {name}"


def report(folder: Path, wanted: Release) -> list[str]:
    """Every difference between a release and what we declare for it."""
    keys: dict[str, str] = {}
    names: dict[str, dict[str, str]] = {"connector": {}, "spec": {}, "tier": {}}
    lines: list[str] = []
    fields: dict[str, str] = {}
    parsed = dict(trees(folder))
    for file, tree in parsed.items():
        for found in extra_keys(file, tree):
            keys.setdefault(found.name, found.where)
        for kind in names:
            for name, module, cls in registered(tree, f"register_{kind}"):
                names[kind][name] = file
                if kind == "tier":
                    lines += tier_lines(parsed, wanted, name, module, cls)
        if file == "config/kv_transfer.py":
            fields = {found.name: found.where for found in fields_in(tree, "KVTransferConfig")}
    own_fields = {
        key for key, field in fields_of(KVTransferConfig).items() if wanted in field.option.vllm
    }
    lines += compare("field", fields, own_fields)
    lines += compare("connector", names["connector"], of_registry(CONNECTORS, wanted))
    lines += compare("spec", names["spec"], of_registry(SPECS, wanted) - {"KVEngineOffloadingSpec"})
    lines += compare("tier", names["tier"], of_registry(TIERS, wanted))
    ours = declared_keys(wanted)
    others = ("/umbp/", "/tiering/kvcr/")
    seen = {k: where for k, where in keys.items() if not any(part in where for part in others)}
    children = {"kv_connector", "kv_role", "engine_id"}
    seen = {k: w for k, w in seen.items() if k not in children and not k.startswith("lmcache")}
    lines += compare("key", seen, ours)
    lines += variable_lines(folder, wanted)
    return lines


def tier_lines(
    parsed: dict[str, ast.Module], wanted: Release, name: str, module: str, cls: str
) -> Iterator[str]:
    """What a tier's constructor takes, beside what its base class takes."""
    file = module.removeprefix("vllm.").replace(".", "/") + ".py"
    if file not in parsed or name not in TIERS:
        return
    base = set()
    for other in ("v1/kv_offload/tiering/base.py", "v1/kv_offload/tiering/manager.py"):
        if other in parsed:
            base |= {*arguments_of(parsed[other], "SecondaryTierManager")}
    theirs = {
        argument: f"{file} {cls}"
        for argument in arguments_of(parsed[file], cls)
        if argument not in base | NOT_FOR_USERS
    }
    ours = {k for k, field in fields_of(TIERS[name]).items() if wanted in field.option.vllm}
    yield from compare(f"key of tier {name}:", theirs, ours)


def variable_lines(folder: Path, wanted: Release) -> Iterator[str]:
    """Environment variables whose names sound like KV transfer."""
    declared = fields_of(Variables)
    ours = {n for n, field in declared.items() if wanted in field.option.vllm}
    theirs = {}
    for node in ast.walk(ast.parse((folder / "envs.py").read_text("utf-8"))):
        for key in node.keys if isinstance(node, ast.Dict) else ():
            name = text_of(key)
            if name and VARIABLES.search(name) and not UNRELATED.search(name):
                theirs[name] = f"envs.py:{key.lineno}" if key else "envs.py"
    shown = {name for name in ours if name in theirs or name.startswith("VLLM_")}
    unlike = {name for name in shown if not VARIABLES.search(name)}
    elsewhere = {"VLLM_MORIIO_TRANSFER_TIMEOUT_S"}
    yield from compare("variable", theirs, shown - unlike - elsewhere)


def main() -> int:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--release", help="default: as the metadata beside the package says")
    arguments = parser.parse_args()
    folder = package(arguments.path)
    wanted = release(arguments.release) if arguments.release else release_of(folder) or NEWEST
    lines = report(folder, wanted)
    print(f"vLLM {wanted}: {len(lines)} differences")
    print("".join(f"{line}\n" for line in lines), end="")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
