"""``kvengine bench``: a real run in small, and every way to be refused."""

from __future__ import annotations

import json

from tests.cli.texts import MODEL

PLAN = ("--model", "config.json", "--memory", "1 GiB", "--vllm", "0.28", "--max-model-len", "256")
SMALL = ("--seconds", "0.05", "--use", "24 MiB")


def test_a_run_measures_every_group_in_both_layouts(run, folder):
    """And a tier, if one is given; figures stand beside one big copy of the same run."""
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
    assert all(one["ratio"] > 0 for one in found["transfers"] if one["tier"] == "host")
    assert 0.9 < found["usable_share"] <= 1


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

    for wanted in (str(folder / "file"), '{"type": "ramdisk"}', "{"):
        ran = run("bench", *PLAN, *SMALL, "--tier", wanted)

        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("kvengine: bench: --tier: ")
        assert ran.err.count("\n") == 1
