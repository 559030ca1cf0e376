"""``kvengine bench``: a real run in small, and every way to be refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from tests.cli.texts import MODEL
from tests.runtime.tiers.kit import wait_until
from tests.runtime.tiers.valkey.servers import needs_server

PLAN = ("--model", "config.json", "--memory", "1 GiB", "--vllm", "0.28", "--max-model-len", "256")
SMALL = ("--seconds", "0.05", "--use", "24 MiB")


def test_a_run_measures_every_group_in_both_layouts(run, folder):
    """And a tier, if one is given, which leaves nothing; figures stand beside their limits."""
    (folder / "config.json").write_text(MODEL)

    ran = run("bench", *PLAN, *SMALL, "--json", "--tier", str(folder / "tier"))
    found = json.loads(ran.out)

    assert (ran.code, ran.err, found["version"]) == (0, "", 1)
    assert [(one["tier"], one["layout"], one["direction"]) for one in found["transfers"]] == [
        ("host", "unpacked", "store"),
        ("host", "unpacked", "load"),
        ("fs", "unpacked", "store"),
        ("fs", "unpacked", "load"),
        ("host", "packed", "store"),
        ("host", "packed", "load"),
    ]
    assert all(one["ratio"] > 0 for one in found["transfers"])
    assert found["tier"].startswith(f"fs in {folder / 'tier'}/")
    assert found["tier"].endswith(("direct I/O, fsync never", "buffered I/O, fsync never"))
    assert not (folder / "tier").exists()
    assert 0.9 < found["usable_share"] <= 1


def test_a_tier_of_the_config_is_measured_where_it_is(run, folder):
    """On its own disk; without one in the config, in a temporary directory."""
    (folder / "config.json").write_text(MODEL)
    tier = {"type": "fs", "root_dir": str(folder / "kv"), "max_bytes": 1 << 28}
    extra = {
        "spec_name": "KVEngineOffloadingSpec",
        "spec_module_path": "kvengine.integrations.vllm",
        "cpu_bytes_to_use": 1 << 28,
        "secondary_tiers": [tier],
    }
    transfer = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }
    (folder / "transfer.json").write_text(json.dumps(transfer))
    (folder / "kv").mkdir()
    fs = ("--tier", "fs", "--json")

    own = run("bench", "transfer.json", *PLAN, *SMALL, *fs)
    temporary = run("bench", *PLAN, *SMALL, *fs)

    assert (own.code, own.err, temporary.code) == (0, "", 0)
    assert list((folder / "kv").iterdir()) == []
    for ran in (own, temporary):
        assert "fs" in {one["tier"] for one in json.loads(ran.out)["transfers"]}


def test_in_place_of_vllms_tier_ours_is_measured(run, folder):
    """On the same disk: keys that only vLLM's has are left aside."""
    (folder / "config.json").write_text(MODEL)
    tier = {
        "type": "fs",
        "root_dir": str(folder / "kv"),
        "n_write_threads": 2,
        "backpressure": {"backpressure_cls": "EMABackpressureDetector"},
    }
    transfer = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": 1 << 28,
            "secondary_tiers": [tier],
        },
    }
    (folder / "transfer.json").write_text(json.dumps(transfer))
    (folder / "kv").mkdir()

    ran = run("bench", "transfer.json", *PLAN, "--vllm", "0.32", *SMALL, "--tier", "fs", "--json")

    assert (ran.code, ran.err) == (0, "")
    assert "fs" in {one["tier"] for one in json.loads(ran.out)["transfers"]}


@needs_server
def test_a_store_is_started_if_none_is_configured(run, folder):
    """A server that only the bench can reach, and that is gone afterwards."""
    (folder / "config.json").write_text(MODEL)

    ran = run("bench", *PLAN, *SMALL, "--json", "--tier", "valkey")

    assert (ran.code, ran.err) == (0, "")
    found = [one for one in json.loads(ran.out)["transfers"] if one["tier"] == "valkey"]
    assert [one["direction"] for one in found] == ["store", "load"]
    assert all(one["ratio"] > 0 for one in found)


def test_what_cannot_be_planned_is_not_measured(run, folder):
    """As with plan."""
    (folder / "config.json").write_text(MODEL)

    assert run("bench") == (2, "", "kvengine: bench: no FILE given; - is standard input\n")
    assert run("bench", "nowhere.toml").code == 2
    assert run("bench", "--model", "config.json").code == 1


def test_a_tier_that_cannot_be_opened_is_wrong_usage(run, folder):
    """With the reason, in one line."""
    (folder / "config.json").write_text(MODEL)
    (folder / "file").write_text("")

    closed = '{"type": "valkey", "url": "valkey://127.0.0.1:1", "connect_timeout_s": 0.1}'
    for wanted in (str(folder / "file"), '{"type": "ramdisk"}', "{", "[1]", closed):
        ran = run("bench", *PLAN, *SMALL, "--tier", wanted)

        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("kvengine: bench: --tier: ")
        assert ran.err.count("\n") == 1


def test_a_bench_that_is_told_to_end_leaves_nothing(folder):
    """SIGTERM, as from a container that is stopped."""
    (folder / "config.json").write_text(MODEL)
    temporary = folder / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "kvengine", "bench", *PLAN, "--seconds", "60", "--tier", "fs"]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: list(temporary.glob("kvengine-bench-*/tier/*/*/*")), 60)
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 128 + signal.SIGTERM
    assert list(temporary.glob("kvengine-bench-*")) == []
