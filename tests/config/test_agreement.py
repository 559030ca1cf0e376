"""The checker and the published schemas accept and reject the same documents."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft7Validator
from jsonschema.validators import extend

from kvengine.config.engine import Config
from kvengine.config.published import GENERATED, published
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.check import check
from kvengine.rules.releases import release
from tests.documents import documents

EVERYTHING_IS_READ = release("0.31")
"""A release that rejects none of the fields: the published schemas know no release."""

RELEASE_DEPENDENT = {"removed", "renamed", "connector", "known-issue"}
"""Codes of rules that schema/README.md lists as left out."""


@cache
def validator(name):
    strict = Draft7Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return extend(Draft7Validator, type_checker=strict)(published(name))


def errors(model, document, mode):
    found = check(model, document, mode=mode, release=EVERYTHING_IS_READ)
    return [p for p in found if p.severity == "error" and p.code not in RELEASE_DEPENDENT]


@pytest.mark.parametrize("name", ["kv-engine-1", *GENERATED])
def test_published_schemas_are_schemas(name):
    """Every published schema is a valid draft-07 schema."""
    Draft7Validator.check_schema(published(name))


@given(document=documents(Config))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_engine_documents_are_judged_alike(document):
    """For an engine document the checker and kv-engine-2.json agree."""
    document["schema"] = 2

    assert validator("kv-engine-2").is_valid(document) == (not errors(Config, document, "strict"))


@given(document=documents(KVTransferConfig))
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_bare_transfer_configs_are_judged_alike(document):
    """For a bare transfer config the checker and kv-transfer.json agree."""
    wrong = errors(KVTransferConfig, document, "release")

    assert validator("kv-transfer").is_valid(document) == (not wrong)
