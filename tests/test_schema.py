"""schema/ holds what the declarations say, and what was released stays as it is."""

from __future__ import annotations

import hashlib
import json

import pytest

from kvengine.config.published import GENERATED, NAMES, published, schema_folder

FROZEN = {"kv-engine-1": "fb50f0c45fbe708315ad6a3605322d4e403d06af8115973cbc87efafe3780bc1"}
"""Released schemas, by the SHA-256 of their file: never edited again."""


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_generated_schema_is_not_stale(name):
    """After a change of a declaration: make schema."""
    assert published(name) == json.loads(json.dumps(GENERATED[name]()))


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_a_released_schema_is_never_edited(name):
    """Editors and pipelines rely on it."""
    content = (schema_folder() / f"{name}.json").read_bytes()

    assert hashlib.sha256(content).hexdigest() == FROZEN[name]


def test_every_schema_is_generated_or_frozen():
    """Nothing in between."""
    assert {*NAMES} == {*GENERATED, *FROZEN}


def properties(schema):
    """Every property that is described anywhere in a schema, with its name."""
    if isinstance(schema, dict):
        for name, described in schema.get("properties", {}).items():
            if isinstance(described, dict) and "description" in described:
                yield name, described
        for part in schema.values():
            yield from properties(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from properties(part)


@pytest.mark.parametrize("name", NAMES)
def test_every_property_has_a_description(name):
    """What an editor shows on hover ends like a sentence."""
    found = [*properties(published(name))]

    assert found
    assert [key for key, schema in found if not schema["description"].endswith(".")] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_an_example(name):
    """Completion in an editor starts from it."""
    found = [(key, schema) for key, schema in properties(published(name)) if "type" in schema]

    assert [key for key, schema in found if "examples" not in schema] == []
