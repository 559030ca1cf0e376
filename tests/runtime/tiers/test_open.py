"""From ``secondary_tiers`` to open tiers, or one reason why not."""

from __future__ import annotations

import pytest

from kvengine.config.load import load
from kvengine.config.tiers import OwnTier
from kvengine.config.tiers.own import DiskOptions, ValkeyOptions
from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.health import Guarded
from kvengine.runtime.tiers.open import open_tiers, options_of
from tests.runtime.tiers.kit import DONE, MIB, identity, keys_of, put, readable

FS = {"type": "fs", "max_bytes": 16 * MIB, "segment_bytes": "1 MiB"}


def test_vllms_own_form_of_a_disk_tier_works(tmp_path):
    """Keys that mean something to vLLM only are passed over; sizes may have units."""
    config = {
        "type": "fs",
        "root_dir": str(tmp_path),
        "n_read_threads": 2,
        "n_write_threads": 2,
        "enable_kv_events": False,
        "locality": "LOCAL",
        "max_bytes": "16 MiB",
        "segment_bytes": "1 MiB",
    }
    (tier,) = open_tiers([config], identity())
    with tier:
        assert isinstance(tier, Guarded)
        assert set(put(tier, keys_of(range(3)))) == {DONE}
        assert readable(tier, keys_of(range(3))) == keys_of(range(3))
        assert tier.stats().capacity_bytes == 16 * MIB


def test_tiers_keep_their_order_and_get_names(tmp_path):
    """Two of a type are told apart in metrics."""
    configs = [{**FS, "root_dir": str(tmp_path / name)} for name in ("a", "b")]
    tiers = open_tiers([*configs, {"type": "valkey", "url": "valkey://127.0.0.1:1"}], identity())
    names = [tier.name for tier in tiers]
    for tier in tiers:
        tier.close()

    assert names == ["fs", "fs-2", "valkey"]


def test_a_tier_that_cannot_be_opened_closes_the_others(tmp_path):
    """Their lanes are free again."""
    good = {**FS, "root_dir": str(tmp_path)}
    with pytest.raises(TierError):
        open_tiers([good, {"type": "fs", "root_dir": "/proc/nowhere"}], identity())
    (tier,) = open_tiers([good], identity())
    with tier:
        assert [path.parent.name for path in tmp_path.glob("*/*/LOCK")] == ["0"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "obj"}, "a tier of type 'obj': type is no tier of kvengine"),
        ({}, 'a tier of type None: type is required (add for example type = "fs")'),
        (
            {"type": "fs"},
            "a tier of type 'fs': root_dir is required (add for example root_dir ="
            ' "/var/cache/kv")',
        ),
        (
            {"type": "valkey"},
            "a tier of type 'valkey': url is required (add for example url ="
            ' "valkey://cache:6379/0")',
        ),
        (
            {"type": "fs", "root_dir": "/x", "fsinc": "put"},
            "a tier of type 'fs': fsinc is no option (did you mean 'fsync'?)",
        ),
        (
            {"type": "fs", "root_dir": "/x", "zzz": 1},
            "a tier of type 'fs': zzz is no option",
        ),
        (
            {"type": "fs", "root_dir": "/x", "n_read_threads": 0, "n_write_threads": True},
            "a tier of type 'fs': n_read_threads must be at least 1, not 0; n_write_threads must"
            " be a whole number, not true (write for example 4)",
        ),
        (
            {"type": "fs", "root_dir": "$HOME/kv"},
            "a tier of type 'fs': root_dir is \"$HOME/kv\", known only when the variable is"
            " (write its value: nothing fills it in any more)",
        ),
        (
            {"type": "fs", "root_dir": "/x", "max_bytes": "much"},
            "a tier of type 'fs': 'much' is not a size; write bytes or a number with KiB, MiB, "
            "GiB, ...",
        ),
        (
            {"type": "valkey", "url": "valkey://x", "timeout_s": 0},
            "a tier of type 'valkey': timeout_s must be above 0, not 0",
        ),
    ],
)
def test_what_is_wrong_is_said(config, message):
    """Before anything is opened."""
    with pytest.raises(TierError) as caught:
        open_tiers([config], identity())

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "config",
    [
        DiskOptions(root_dir="/x", n_read_threads=0),
        DiskOptions(root_dir="/x", fsync="sometimes"),
        DiskOptions(root_dir="${HOME}/kv"),
        DiskOptions(root_dir="/x\0y"),
        ValkeyOptions(url=[]),
        ValkeyOptions(url="http://me:secret@x"),
        ValkeyOptions(url=("valkey://x", "valkey://y")),
        ValkeyOptions(url="valkey://x", timeout_s=float("nan")),
        ValkeyOptions(url="valkey://x", timeout_s=float("inf")),
        OwnTier(),
        {"type": "fs", "root_dir": "/x", 1: 2},
        "fs",
        None,
    ],
    ids=str,
)
def test_whatever_is_given_is_judged(config):
    """Values of our classes too: nobody has checked one that was made by hand."""
    with pytest.raises(TierError) as caught:
        open_tiers([config], identity())

    assert "secret" not in str(caught.value)


def test_what_a_loaded_config_has_will_do():
    """Its lists are tuples, and its sizes numbers."""
    table = {"type": "valkey", "url": ["valkey://a", "valkey://b"], "cluster": True}
    extra = {
        "spec_name": "KVEngineOffloadingSpec",
        "spec_module_path": "kvengine.integrations.vllm",
        "cpu_bytes_to_use": 1 << 30,
        "secondary_tiers": [table],
    }
    config = load(
        {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }
    )
    (tier,) = config.kv_transfer.kv_connector_extra_config.secondary_tiers

    assert tier.url == ("valkey://a", "valkey://b")
    assert options_of(tier) == options_of(table)
