"""The checker and the published schemas accept and reject the same documents."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.validators import extend

from kvengine.config.engine import Config
from kvengine.config.published import GENERATED, published
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.check import check
from kvengine.rules.releases import KNOWN
from tests.config.mutations import mutants
from tests.documents import documents


@cache
def validator(name):
    strict = Draft7Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return extend(Draft7Validator, type_checker=strict)(published(name))


def errors(model, document, mode, release=None):
    found = check(model, document, mode=mode, release=release)
    return [p for p in found if p.severity == "error"]


def unsaid(problem):
    """Whether JSON Schema has no words for a rule, or it is about the text itself."""
    if problem.code == "placeholder":
        return True
    counts = problem.code == "conflict" and problem.path[-1:] == ("kv_connector",)
    return counts or (problem.code == "range" and problem.path[-1:] == ("low_water_s",))


def agree(schema, document, wrong):
    said = [problem for problem in wrong if not unsaid(problem)]
    if wrong and not said:
        return
    assert validator(schema).is_valid(document) == (not said), [*map(str, said)]


@pytest.mark.parametrize("name", ["kv-engine-1", *GENERATED])
def test_published_schemas_are_schemas(name):
    """Every published schema is a valid draft-07 schema."""
    Draft7Validator.check_schema(published(name))


@given(document=documents(Config))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_engine_documents_are_judged_alike(document):
    """For an engine document the checker and kv-engine-2.json agree."""
    document["schema"] = 2

    agree("kv-engine-2", document, errors(Config, document, "strict"))


@given(transfer=mutants())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_transfer_configs_of_engine_documents_are_judged_alike(transfer):
    """Strictly: a text is no number there."""
    document = {"schema": 2, "kv_transfer": transfer}

    agree("kv-engine-2", document, errors(Config, document, "strict"))


@given(document=documents(KVTransferConfig) | mutants())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_bare_transfer_configs_are_judged_alike(document):
    """For a bare transfer config the checker and kv-transfer.json agree."""
    agree("kv-transfer", document, errors(KVTransferConfig, document, "release"))


@given(document=documents(KVTransferConfig) | mutants(), wanted=st.sampled_from(KNOWN))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_bare_transfer_configs_are_judged_alike_by_release(document, wanted):
    """For one release, names, keys and rules that come and go included."""
    wrong = errors(KVTransferConfig, document, "release", wanted)

    agree(f"vllm/kv-transfer-{wanted}", document, wrong)
