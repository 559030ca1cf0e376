"""kvengine's own tiers: a check says before the start what the engine would refuse."""

from __future__ import annotations

import json

import pytest

from kvengine.config.load import load
from kvengine.config.transfer import KVTransferConfig
from kvengine.errors import dotted
from kvengine.rules.check import check
from kvengine.rules.releases import release
from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.open import options_of
from kvengine.runtime.tiers.valkey.address import addresses

ONE = "valkey://cache:6379/0"
TLS = "valkeys://cache"
GOOD = [
    {},
    {"url": "valkey://cache"},
    {"url": "redis://10.0.0.1:65535/15"},
    {"url": "valkeys://[fe80::1]:6379/3"},
    {"url": "valkey://[fe80::1%eth0]"},
    {"url": "unix:///run/valkey.sock"},
    {"url": "valkey://"},
    {"cluster": False, "service": "kv"},
    {"url": ["valkey://a:1", "valkey://b:2"], "cluster": True},
    {"url": ["valkey://a", "valkey://b"], "service": "kv"},
    {"url": TLS, "tls_ca": "/ca.pem"},
    {"url": TLS, "tls_cert": "/c.pem", "tls_key": "/k.pem"},
]
BAD = [
    ({"url": "valkey://u:hunter2@cache:1/0"}, "url", "holds credentials"),
    ({"url": ["valkey://u@cache"]}, "url", "holds credentials"),
    ({"url": "http://u:hunter2@cache"}, "url", "must begin with valkey://"),
    ({"url": ["http://cache"]}, "url", "must begin with valkey://"),
    ({"url": []}, "url", "is empty"),
    ({"url": "VALKEY://cache"}, "url", "must begin with valkey://"),
    ({"url": "valkey://h\uff0f1"}, "url", "must end with host:port"),
    ({"url": "valkey://cache:99999"}, "url", "must end with host:port"),
    ({"url": "valkey://cache:1/abc"}, "url", "must end with host:port"),
    ({"url": "valkey://cache?db=1"}, "url", "must end with host:port"),
    ({"url": ["valkey://a", "valkey://b"]}, "url", "needs cluster or service"),
    ({"url": ["valkey://a", TLS], "cluster": True}, "url", "uses TLS for some"),
    ({"url": "valkey://a/2", "cluster": True}, "url", "has the number of a database"),
    ({"url": "unix:///run/v.sock", "cluster": True}, "url", "is a socket of this machine"),
    ({"url": "unix:///run/v.sock", "service": "kv"}, "url", "is a socket of this machine"),
    ({"url": "unix://sock"}, "url", "must begin with valkey://"),
    ({"url": "unix:///run/v.sock?db=1"}, "url", "must begin with valkey://"),
    ({"cluster": True, "service": "kv"}, "service", "cannot be combined with 'cluster'"),
    ({"tls_ca": "/ca.pem"}, "tls_ca", "begins with valkeys://"),
    ({"url": TLS, "tls_cert": "/c.pem"}, "tls_key", "is required with 'tls_cert'"),
    ({"prefix": ""}, "prefix", "is empty"),
    ({"prefix": "a\n"}, "prefix", "may hold letters"),
    ({"url": "valkey://cache\n"}, "url", "holds white space"),
    ({"password_env": ""}, "password_env", "is empty"),
]


def transfer(*tiers, spec="KVEngineOffloadingSpec"):
    extra = {
        "spec_name": spec,
        "spec_module_path": "kvengine.integrations.vllm",
        "cpu_bytes_to_use": 1 << 30,
        "secondary_tiers": [*tiers],
    }
    if spec != "KVEngineOffloadingSpec":
        del extra["spec_module_path"]
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }


def problems(*tiers, spec="KVEngineOffloadingSpec"):
    config = transfer(*tiers, spec=spec)
    found = check(KVTransferConfig, config, mode="release", release=release("0.32"))
    return [problem for problem in found if problem.severity != "info"]


def valkey(**keys):
    return {"type": "valkey", "url": ONE, **keys}


@pytest.mark.parametrize("keys", GOOD, ids=json.dumps)
def test_what_the_engine_takes_is_in_order(keys):
    """Both agree."""
    assert problems(valkey(**keys)) == []
    assert addresses(options_of(valkey(**keys)))


@pytest.mark.parametrize(("keys", "where", "says"), BAD, ids=[json.dumps(one[0]) for one in BAD])
def test_what_the_engine_refuses_is_an_error(keys, where, says):
    """By the same rules: at the key, without the secret that may stand there."""
    (found,) = [p for p in problems(valkey(**keys)) if says in p.message]

    assert dotted(found.path).endswith(f"secondary_tiers[0].{where}")
    assert found.severity == "error"
    assert "hunter2" not in found.message + found.hint
    with pytest.raises(TierError) as caught:
        options_of(valkey(**keys))
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_url_ends_in_another_exception():
    """Tiers that are open by then are closed by whoever opens several."""
    with pytest.raises(TierError):
        addresses(options_of(valkey(url="valkey://[1:2]")))


def test_no_time_to_live_is_a_value_of_its_own():
    """Null is not the default: the server alone decides what leaves."""
    assert options_of(valkey(ttl_s=None)).ttl_s is None
    assert options_of(valkey()).ttl_s == 86400
    (tier,) = load(
        transfer(valkey(ttl_s=None))
    ).kv_transfer.kv_connector_extra_config.secondary_tiers
    assert tier.ttl_s is None


@pytest.mark.parametrize(
    ("keys", "where", "severity"),
    [
        ({"root_dir": ""}, "root_dir", "error"),
        ({"max_bytes": 1000}, "max_bytes", "error"),
        ({"root_dir": "~/kv"}, "root_dir", "warning"),
        ({"root_dir": "kv"}, "root_dir", "warning"),
    ],
)
def test_a_directory_and_a_limit_that_make_no_sense(keys, where, severity):
    """A path that leads elsewhere after the next start is a warning: it works once."""
    (found,) = problems({"type": "fs", "root_dir": "/kv", **keys})

    assert dotted(found.path).endswith(where)
    assert found.severity == severity


@pytest.mark.parametrize("spec", ["CPUOffloadingSpec", "TieringOffloadingSpec"])
def test_our_tiers_need_our_spec(spec):
    """Under another spec they are an error that says so."""
    found = problems(valkey(), spec=spec)

    assert any(p.severity == "error" and "KVEngineOffloadingSpec" in p.hint for p in found)


def test_keys_of_our_disk_need_our_spec_too():
    """vLLM has a tier of the same name, which knows no limit."""
    (found,) = problems(
        {"type": "fs", "root_dir": "/kv", "max_bytes": 1 << 30}, spec="TieringOffloadingSpec"
    )

    assert "spec_name = KVEngineOffloadingSpec" in found.message


def test_two_disks_on_one_directory():
    """They would share one limit and hold everything twice."""
    one = {"type": "fs", "root_dir": "/kv"}
    (found,) = problems(one, valkey(), {**one, "root_dir": "/kv/"})

    assert dotted(found.path).endswith("secondary_tiers[2].root_dir")
    assert found.severity == "warning"
    assert problems(one, {**one, "root_dir": "/kv2"}) == []
