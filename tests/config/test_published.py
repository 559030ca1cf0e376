"""What the published schemas promise to editors and validators."""

from __future__ import annotations

import json

import pytest

from kvengine.config.published import GENERATED, catalog, published, schema_folder
from kvengine.rules.releases import KNOWN

BRANCHES = ("if", "then", "else", "not", "items", "contains", "propertyNames")
ANNOTATIONS = {"errorMessage", "deprecationMessage"}
KEYWORDS = {
    "$schema", "$id", "$ref", "title", "description", "default", "examples", "deprecated",
    "type", "enum", "const", "properties", "required", "patternProperties", "dependencies",
    "additionalProperties", "propertyNames", "minProperties", "items", "contains", "minItems",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern",
    "minLength", "allOf", "anyOf", "if", "then", "not", "definitions",
}  # fmt: skip


def parts(schema):
    """Every schema inside a schema, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        for part in schema.get(name, {}).values():
            yield from parts(part)
    for name in BRANCHES:
        yield from parts(schema.get(name))
    for name in ("allOf", "anyOf"):
        for part in schema.get(name, ()):
            yield from parts(part)


@pytest.mark.parametrize("name", GENERATED)
def test_ajv_in_strict_mode_has_nothing_to_object(name):
    """Required keys are named among the properties, and no keyword is unknown."""
    for part in parts(published(name)):
        assert {*part.get("required", ())} <= {*part.get("properties", {})}
        assert {*part} <= KEYWORDS | ANNOTATIONS


@pytest.mark.parametrize("name", GENERATED)
def test_every_reference_leads_somewhere(name):
    """Inside the same file: nothing is fetched."""
    schema = published(name)

    for part in parts(schema):
        if "$ref" in part:
            assert part["$ref"].removeprefix("#/definitions/") in schema["definitions"]


def test_the_catalog_names_every_file():
    """In SchemaStore's form, with one version for each release."""
    written = json.loads((schema_folder() / "catalog.json").read_text())
    entries = written["schemas"]

    assert written == catalog()
    assert all({"name", "description", "fileMatch", "url"} <= {*entry} for entry in entries)
    (transfer,) = [entry for entry in entries if "versions" in entry]
    assert len(transfer["versions"]) == len(KNOWN)
    for entry in entries:
        assert (schema_folder() / entry["url"].rpartition("/")[2]).is_file()


@pytest.mark.parametrize("release", KNOWN, ids=str)
def test_a_schema_of_one_release_offers_its_names_only(release):
    """P2pNcclConnector up to 0.23, HiSparseConnector from 0.30."""
    choice = published(f"vllm/kv-transfer-{release}")["definitions"]["ConnectorChoice"]
    names = choice["allOf"][-1]["then"]["properties"]["kv_connector"]["enum"]

    assert ("P2pNcclConnector" in names) == (str(release) < "0.24")
    assert ("HiSparseConnector" in names) == (str(release) >= "0.30")
    assert {"OffloadingConnector", "NixlConnector", "MultiConnector"} <= {*names}
