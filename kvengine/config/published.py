"""The JSON Schemas that we publish: read from disk, or generated from the declarations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kvengine.rules.releases import KNOWN, Release

__all__ = ["GENERATED", "NAMES", "WRITTEN", "catalog", "published", "schema_folder"]

_BASE = "https://kvengine.dev/schema"


def _engine() -> dict[str, Any]:
    from kvengine.config.engine import Config
    from kvengine.rules.jsonschema import object_schema, root_schema

    title = "kvengine engine document, schema 2"
    return root_schema(title, f"{_BASE}/kv-engine-2.json", object_schema(Config, "strict"))


def _transfer(release: Release | None) -> dict[str, Any]:
    from kvengine.config.transfer import KVTransferConfig
    from kvengine.rules.jsonschema import object_schema, root_schema

    name = "kv-transfer" if release is None else f"vllm/kv-transfer-{release}"
    title = f"vLLM KV transfer config, {f'vLLM {release}' if release else 'any release'}"
    schema = object_schema(KVTransferConfig, "release", release=release)
    return root_schema(title, f"{_BASE}/{name}.json", schema)


def _config_file() -> dict[str, Any]:
    from kvengine.config.config_file import ConfigFile
    from kvengine.rules.jsonschema import object_schema, root_schema

    title = "KV transfer in a vLLM --config file, any release"
    return root_schema(title, f"{_BASE}/vllm-config.json", object_schema(ConfigFile, "release"))


GENERATED: Mapping[str, Callable[[], dict[str, Any]]] = {
    "kv-engine-2": _engine,
    "kv-transfer": partial(_transfer, None),
    "vllm-config": _config_file,
    **{f"vllm/kv-transfer-{release}": partial(_transfer, release) for release in KNOWN},
}
"""Name -> generator of every schema that still follows the declarations."""

NAMES = ("kv-engine-1", *GENERATED)
"""Every published schema; those not generated are frozen."""

_FILES = {
    "kv-engine-2": (
        "kvengine engine document",
        "Model, parallelism, memory and KV transfer of one engine",
        ["kv-engine.toml", "kv-engine.json", "kv-engine.yaml", "*.kv-engine.toml"],
    ),
    "kv-transfer": (
        "vLLM KV transfer config",
        "The object that vLLM's --kv-transfer-config takes",
        ["kv-transfer.json", "*.kv-transfer.json"],
    ),
    "vllm-config": (
        "vLLM --config file",
        "KV transfer in a configuration file of vllm serve",
        ["vllm.yaml", "vllm-config.yaml", "*.vllm.yaml"],
    ),
}


def catalog() -> dict[str, Any]:
    """The schemas in the form of SchemaStore's catalog, for editors."""
    entries = []
    for name, (title, description, files) in _FILES.items():
        entry: dict[str, Any] = {
            "name": title,
            "description": description,
            "fileMatch": files,
            "url": f"{_BASE}/{name}.json",
        }
        if name == "kv-transfer":
            entry["versions"] = {
                f"vLLM {release}": f"{_BASE}/vllm/kv-transfer-{release}.json" for release in KNOWN
            }
        entries.append(entry)
    head = {"$schema": "https://json.schemastore.org/schema-catalog.json", "version": 1}
    return {**head, "schemas": entries}


WRITTEN: Mapping[str, Callable[[], dict[str, Any]]] = {**GENERATED, "catalog": catalog}
"""Name -> generator of every file of the schema folder that is not frozen."""


def schema_folder() -> Path:
    """Where the schemas lie: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "_schema"
    return inside if inside.is_dir() else package.parent / "schema"


def published(name: str) -> dict[str, Any]:
    """A published schema by name, such as ``kv-engine-2``; KeyError for an unknown one."""
    if name not in NAMES:
        raise KeyError(name)
    schema: dict[str, Any] = json.loads((schema_folder() / f"{name}.json").read_bytes())
    return schema
