"""Every fact about the configuration surface of vLLM 0.21-0.33 is declared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvengine.config.command_line import Flags
from kvengine.config.connectors import CONNECTORS, OUTSIDE
from kvengine.config.connectors.base import ExtraConfig
from kvengine.config.connectors.mooncake_store import MooncakeFile
from kvengine.config.connectors.offloading import SPECS
from kvengine.config.environment import Variables
from kvengine.config.tiers import TIERS
from kvengine.config.tiers.backpressure import Backpressure, EMABackpressure
from kvengine.config.tiers.base import SINCE_BACKPRESSURE
from kvengine.config.tiers.kvcr import KvcrDisk
from kvengine.config.tiers.obj import ObjectStore
from kvengine.config.transfer import Child, KVTransferConfig
from kvengine.rules.options import own_keys_of, variant_of
from kvengine.rules.releases import KNOWN, Releases, release
from kvengine.rules.shapes import fields_of

FACTS = json.loads((Path(__file__).parent.parent / "data/facts/vllm.json").read_text())


READINGS = {
    r"^int\(value\)|^truth test, then int|^max\(1, int": {"IntCall"},
    r"^float\(value\)": {"FloatCall"},
    r"^bool\(value\)|^truth test$": {"Truth"},
    r"lower\(\) (==|in)|lower\(\)\.strip\(\) in|lower\(\) == \"true\"": {"TrueText"},
    r"^value is True": {"OnlyTrue"},
    r"^str\(value\)\.lower\(\)$|upper\(\)$": {"Word"},
    r"^str\(value\)$": {"TextCall"},
}
"""How the facts describe a conversion, and how we declare it; everything else is taken as it is."""


def facts(part):
    return [
        pytest.param(entry, id=entry.get("id") or entry.get("path") or entry["name"])
        for entry in FACTS[part]
    ]


def span(releases):
    return {str(known) for known in KNOWN if known in releases}


def between(entry):
    """The releases of an entry that has since and until, both ends in."""
    if entry["since"] is None:
        return set()
    last = release(entry["until"]) if entry["until"] else KNOWN[-1]
    return {str(known) for known in KNOWN if release(entry["since"]) <= known <= last}


def classes_of(entry):
    """The classes that declare an extra key, each with the releases that know the class."""
    path, of = entry["path"], entry["of"] or ""
    if path.startswith("$MOONCAKE"):
        return [(MooncakeFile, Releases())]
    if path.startswith("connectors[]."):
        return [(Child, Releases())]
    if ".g3." in path:
        return [(KvcrDisk, TIERS.facts("kvcr").vllm)]
    if ".store_config." in path:
        return [(ObjectStore, TIERS.facts("obj").vllm)]
    if ".backpressure." in path:
        return [(EMABackpressure, SINCE_BACKPRESSURE)]
    if path.startswith("secondary_tiers[]."):
        names = re.findall(r"tier (fs|obj|p2p|kvcr|example)", of) or [
            name for name in TIERS if name not in ("valkey", "p2p")
        ]
        return [(TIERS[name], TIERS.facts(name).vllm) for name in names]
    if entry["connectors"] == ["*core*"]:
        return [(ExtraConfig, Releases())]
    found = []
    for name in entry["connectors"]:
        registry = CONNECTORS if name in CONNECTORS else OUTSIDE
        model, known = registry[name], registry.facts(name).vllm
        specs = [spec for spec in ("CPUOffloadingSpec", "TieringOffloadingSpec") if spec in of]
        if variant_of(model) is not None:
            if not specs or "rejects it" in of or "does not pass" in of or "base class" in of:
                specs = ["TieringOffloadingSpec"]
            found += [(SPECS[spec], SPECS.facts(spec).vllm) for spec in specs]
        else:
            found.append((model, known))
    return found


@pytest.mark.parametrize("entry", facts("extra_keys"))
def test_every_extra_key_is_declared_for_its_releases(entry):
    """By the class of its connector, spec or tier, with the releases that read it."""
    key = re.split(r"\[\]\.|:|config\.|backpressure\.|g3\.", entry["path"])[-1]
    if key == "lmcache.*":
        assert all(r"^lmcache\." in own_keys_of(CONNECTORS[name]) for name in entry["connectors"])
        return
    wanted = {*entry["releases"]}

    for model, known in classes_of(entry):
        fields = fields_of(model)
        assert key in fields, (model, key)
        option = fields[key].option
        declared = span(option.vllm)
        if (key, entry["connectors"]) == ("enable_cross_layers_blocks", ["MooncakeStoreConnector"]):
            assert wanted <= declared
            continue
        inside = span(known)
        if "fs_python" in str(entry["of"]):
            inside.add("0.22")
        assert declared & inside == wanted & inside, (model, key)


@pytest.mark.parametrize("entry", facts("extra_keys"))
def test_every_extra_key_is_read_as_the_release_reads_it(entry):
    """int() is int(), a truth test is one, and the rest is taken as it is."""
    key = re.split(r"\[\]\.|:|config\.|backpressure\.|g3\.", entry["path"])[-1]
    coercion = entry["coercion"]
    for model, _ in classes_of(entry):
        if key not in fields_of(model):
            continue
        reading = type(fields_of(model)[key].option.reading).__name__
        wanted = next(
            (kinds for pattern, kinds in READINGS.items() if re.search(pattern, coercion)),
            {"Truth"} if entry["type"].startswith("bool") else {"Raw"},
        )
        assert reading in wanted, (key, coercion, reading)


@pytest.mark.parametrize("entry", facts("extra_keys"))
def test_what_a_release_insists_on_is_required(entry):
    """A required key is required, in the newest release or by a rule of its own."""
    key = re.split(r"\[\]\.|:|config\.|backpressure\.|g3\.", entry["path"])[-1]
    if entry["required"] and key != "backpressure_cls":
        for model, _ in classes_of(entry):
            assert fields_of(model)[key].option.required, (model, key)


@pytest.mark.parametrize("entry", facts("fields"))
def test_every_field_is_declared_for_its_releases(entry):
    """A field of KVTransferConfig, with the releases that accept it."""
    option = fields_of(KVTransferConfig)[entry["name"]].option

    assert span(option.vllm) == between(entry)


@pytest.mark.parametrize("entry", facts("connectors"))
def test_every_connector_is_declared_for_its_releases(entry):
    """Its name, and whether the hybrid KV manager stays on with it."""
    registry = CONNECTORS if entry["name"] in CONNECTORS else OUTSIDE
    named = registry.facts(entry["name"])
    hybrid = {str(known) for known in KNOWN if known in named.vllm and named.is_hybrid(known)}

    assert span(named.vllm) == between(entry)
    assert hybrid == {*entry["hybrid"]}


@pytest.mark.parametrize("entry", facts("env"))
def test_every_variable_is_declared_for_its_releases(entry):
    """An environment variable, with the releases that read it."""
    assert span(fields_of(Variables)[entry["name"]].option.vllm) == between(entry)


@pytest.mark.parametrize("names", FACTS["flags"])
def test_every_flag_is_declared(names):
    """A shortcut on the command line; a negated one is the same flag."""
    assert names.split(" / ")[0] in fields_of(Flags)


def test_every_declared_key_of_vllm_is_a_fact():
    """Nothing is declared for vLLM that no release reads, but what other packages are known for."""
    known = {
        re.split(r"\[\]\.|config\.|backpressure\.|g3\.", e["path"])[-1] for e in FACTS["extra_keys"]
    }
    tiers = {name: TIERS[name] for name in TIERS if name != "valkey"}
    models = [CONNECTORS[name] for name in CONNECTORS if not CONNECTORS.facts(name).origin]
    models += [SPECS["CPUOffloadingSpec"], SPECS["TieringOffloadingSpec"], *tiers.values()]
    models = [model for model in models if variant_of(model) is None]

    extra = {
        (model.__name__, key) for model in models for key in fields_of(model) if key not in known
    }

    assert extra == set()
    assert variant_of(Backpressure) is not None
