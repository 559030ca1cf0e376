"""The JSON Schemas that we publish: read from disk, or generated from the declarations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvengine.config.engine import Config
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.jsonschema import object_schema, root_schema

__all__ = ["GENERATED", "NAMES", "published", "schema_folder"]

_BASE = "https://kvengine.dev/schema"

GENERATED: Mapping[str, Callable[[], dict[str, Any]]] = {
    "kv-engine-2": lambda: root_schema(
        "kvengine engine document, schema 2",
        f"{_BASE}/kv-engine-2.json",
        object_schema(Config, "strict"),
    ),
    "kv-transfer": lambda: root_schema(
        "vLLM KV transfer config, any release",
        f"{_BASE}/kv-transfer.json",
        object_schema(KVTransferConfig, "release"),
    ),
}
"""Name -> generator of every schema that still follows the declarations."""

NAMES = ("kv-engine-1", *GENERATED)
"""Every published schema; those not generated are frozen."""


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
