"""``kvengine tier``: what a disk tier holds, whether it is intact, what can go."""

from __future__ import annotations

import json

import pytest

from tests.runtime.tiers.kit import disk, identity, keys_of, put, segments


@pytest.fixture
def root(folder):
    with disk(folder / "kv") as tier:
        put(tier, keys_of(range(10)))
    return folder / "kv"


def test_ls_shows_namespaces_and_lanes(run, root):
    """With model, sizes and owner."""
    ran = run("tier", "ls", "kv")
    lines = ran.out.splitlines()

    assert (ran.code, ran.err) == (0, "")
    assert lines[:5] == [
        f"namespace  {identity().digest}",
        "model      revision-1",
        "cache      bfloat16, packed",
        "rank       0",
        "chunks of  16 KiB",
    ]
    assert lines[-1].split()[:6] == ["0", "none", "1", "10", "160", "KiB"]


def test_ls_as_json(run, root):
    """All facts."""
    ran = run("tier", "ls", "kv", "--json")
    facts = json.loads(ran.out)
    (namespace,) = facts["namespaces"]

    assert facts["version"] == 1
    assert namespace["digest"] == identity().digest
    assert namespace["lanes"][0]["chunks"] == 10


def test_verify_of_an_intact_tier_is_a_success(run, root):
    """It says how much was read."""
    ran = run("tier", "verify", "kv")

    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out == "read        10 chunks, 160 KiB\nbad         0 chunks\nunreadable  0 segments\n"
    )


def test_verify_of_a_damaged_tier_is_a_finding(run, root):
    """Exit code 1, and where the damage is."""
    path = segments(root)[0]
    data = bytearray(path.read_bytes())
    data[10_000] ^= 1
    path.write_bytes(data)
    ran = run("tier", "verify", "kv", "--json")
    facts = json.loads(ran.out)

    assert ran.code == 1
    assert [bad["path"] for bad in facts["bad"]] == [f"kv/{path.relative_to(root)}"]
    assert run("tier", "verify", "kv").out.splitlines()[1] == "bad         1 chunks"


def test_gc_removes_only_when_told_to(run, root):
    """Unused for as long as is said."""
    assert run("tier", "gc", "kv").out == (
        "unused lanes  0, 0 B: would be removed (--delete does it)\n"
    )
    dry = run("tier", "gc", "kv", "--unused", "0s")
    assert "unused lanes  1, " in dry.out
    assert root.joinpath(identity().digest).exists()
    wet = run("tier", "gc", "kv", "--unused", "0s", "--delete", "--json")

    assert json.loads(wet.out)["deleted"] is True
    assert not root.joinpath(identity().digest).exists()
    assert run("tier", "ls", "kv").out == "nothing is stored here\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ls", "nowhere"), "nowhere cannot be used as a disk tier: No such file or directory"),
        (("gc", "kv", "--unused", "soon"), "'soon' is not a time such as 30m, 12h or 7d"),
    ],
)
def test_a_wrong_command_line_is_said(run, root, arguments, says):
    """Exit code 2, one reason."""
    ran = run("tier", *arguments)

    assert ran.code == 2
    assert says in ran.err
