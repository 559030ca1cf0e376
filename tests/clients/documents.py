"""What the clients are asked about: examples and real configs, each beside its schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import tomli
import tomlkit
import yaml
from attrs import frozen
from jsonschema import Draft7Validator

from kvengine.config.published import NAMES, published
from tests.config.mutations import REAL

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ABOUT_THE_TEXT = {"duplicate-key.json"}
"""Examples that are wrong as a text: parsed, nothing is left to see."""

READERS: dict[str, Callable[[str], Any]] = {
    ".json": json.loads,
    ".toml": tomli.loads,
    ".yaml": yaml.safe_load,
}


@frozen
class Asked:
    """A document, the name of its schema, and its own text if it is a file."""

    name: str
    schema: str
    data: Any
    file: Path | None = None

    def accepted(self) -> bool:
        """Whether the published schema, as jsonschema reads it, accepts the document."""
        return validator(self.schema).is_valid(self.data)

    def text(self, *suffixes: str) -> str:
        """Its own text if the file has one of these suffixes, JSON otherwise."""
        if self.file is not None and self.file.suffix in suffixes:
            return self.file.read_text("utf-8")
        return json.dumps(self.data, indent=2)

    def toml(self) -> str:
        """As TOML that starts with the address of its schema, as editors want it."""
        toml = self.file is not None and self.file.suffix == ".toml"
        text = self.text(".toml") if toml else tomlkit.dumps(self.data)
        return "".join(line for line in text.splitlines(True) if not line.startswith("#:schema"))


@cache
def schemas() -> dict[str, Any]:
    """Every published schema by name."""
    return {name: published(name) for name in NAMES}


@cache
def validator(name: str) -> Draft7Validator:
    """Draft 7 as the package jsonschema has it."""
    return Draft7Validator(schemas()[name])


def example(file: Path) -> Asked:
    """One file of examples/ beside the schema that it asks for."""
    data = READERS[file.suffix](file.read_text("utf-8"))
    schema = f"kv-engine-{data['schema']}" if "schema" in data else "kv-transfer"
    return Asked(f"{file.parent.name}-{file.name}", schema, data, file)


def examples() -> list[Asked]:
    """Every example document whose shape or relations are to be judged."""
    files = [*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("valid/*"), *EXAMPLES.glob("invalid/*")]
    documents = [file for file in files if file.suffix in READERS]
    return [example(file) for file in sorted(documents) if file.name not in ABOUT_THE_TEXT]


def wrapped(schema: str, config: Any) -> Any:
    """A transfer config as documents of another kind hold it."""
    if schema == "vllm-config":
        return {"kv-transfer-config": config}
    if schema.startswith("kv-engine-"):
        return {"schema": int(schema[-1]), "kv_transfer": config}
    return config


def real_configs() -> list[Asked]:
    """Configs of real users: for any release, and under the other schemas in turn."""
    found = []
    for number, config in enumerate(REAL):
        other = NAMES[number % len(NAMES)]
        found.append(Asked(f"real-{number}.json", "kv-transfer", config))
        found.append(Asked(f"turn-{number}.json", other, wrapped(other, config)))
    return found


def everything() -> list[Asked]:
    """Examples, real configs, and for every schema the empty document."""
    return [
        *examples(),
        *real_configs(),
        *(Asked(f"empty-{number}.json", name, {}) for number, name in enumerate(NAMES)),
    ]
