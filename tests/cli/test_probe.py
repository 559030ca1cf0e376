"""``check --probe``: what this machine says of a config's tiers, and only when asked."""

from __future__ import annotations

import json
import os

import pytest

EXTRA = {
    "spec_name": "KVEngineOffloadingSpec",
    "spec_module_path": "kvengine.integrations.vllm",
    "cpu_bytes_to_use": 1 << 30,
}


@pytest.fixture
def probe(run, folder):
    """Findings of ``check --probe`` for these tiers: (place in the tier, message)."""

    def call(*tiers, flags=("--probe",), **extra):
        transfer = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {**EXTRA, "secondary_tiers": tiers, **extra},
        }
        (folder / "kv.json").write_text(json.dumps(transfer, indent=1))
        ran = run("check", "kv.json", "--format", "json", *flags)
        found = json.loads(ran.out)["problems"]
        assert ran.code == any(one["severity"] == "error" for one in found)
        return [(one["path"].rpartition("/")[2], one["message"]) for one in found]

    return call


def test_a_directory_that_can_be_made_is_fine(probe, folder):
    """Nothing is made to find that out."""
    assert probe({"type": "fs", "root_dir": str(folder / "a" / "b"), "max_bytes": 8 << 20}) == []
    assert not (folder / "a").exists()


def test_nothing_is_asked_without_the_flag(probe, folder):
    """A check is of the text alone."""
    (folder / "file").write_text("")
    bad = {"type": "fs", "root_dir": str(folder / "file")}

    assert probe(bad, flags=()) == []
    assert probe(bad) == [("root_dir", f"{folder / 'file'} is no directory")]


def test_missing_permissions_are_named(probe, folder, monkeypatch):
    """With the user, the mode and the owner, of the directory that there is."""
    (folder / "kv").mkdir(mode=0o500)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, bit: bit != os.W_OK and real(path, bit))

    [(where, message)] = probe({"type": "fs", "root_dir": str(folder / "kv" / "deep")})

    user = os.geteuid()
    assert where == "root_dir"
    assert message == f"user {user} may not write in {folder / 'kv'} (mode 0500, owner {user})"


def test_a_read_only_file_system_is_called_one(probe, folder, monkeypatch):
    """No change of owner would help."""
    flags = os.ST_RDONLY
    mounted = os.statvfs_result((4096, 4096, 100, 50, 50, 9, 0, 0, flags, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: mounted)

    assert probe({"type": "fs", "root_dir": str(folder)}) == [
        ("root_dir", f"{folder} is on a read-only file system")
    ]


def test_a_limit_needs_its_space(probe, folder, monkeypatch):
    """What the tier holds already counts as free for it."""
    (folder / "kv").mkdir()
    (folder / "kv" / "segment").write_bytes(bytes(8 << 20))
    full = os.statvfs_result((4096, 4096, 100, 0, 0, 9, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    tier = {"type": "fs", "root_dir": str(folder / "kv"), "max_bytes": 8 << 20}

    assert probe(tier) == []
    assert probe({**tier, "max_bytes": 16 << 20}) == [
        ("max_bytes", f"is 16777216 bytes (16 MiB), but only 0 B are free at {folder / 'kv'}")
    ]


def test_a_store_needs_its_password_and_certificates(probe, folder, monkeypatch):
    """No server is spoken to: none listens there."""
    monkeypatch.delenv("KV_PW", raising=False)
    (folder / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    tier = {
        "type": "valkey",
        "url": "valkeys://127.0.0.1:1",
        "password_env": "KV_PW",
        "tls_ca": str(folder / "ca.pem"),
        "tls_cert": str(folder / "no.pem"),
        "tls_key": str(folder / "ca.pem"),
    }

    assert probe(tier) == [
        ("password_env", "the environment here has no KV_PW"),
        ("tls_cert", f"{folder / 'no.pem'} is no file here"),
    ]
    monkeypatch.setenv("KV_PW", "secret")
    (folder / "no.pem").write_text("root:x:0:0")
    assert probe(tier) == [("tls_cert", f"{folder / 'no.pem'} holds nothing in PEM form")]


def test_the_directory_of_vllms_own_tier_is_asked_too(probe, folder):
    """It has no limit to compare with free space."""
    (folder / "file").write_text("")
    found = probe(
        {"type": "fs", "root_dir": str(folder / "file")},
        spec_name="TieringOffloadingSpec",
        spec_module_path=None,
    )

    assert ("root_dir", f"{folder / 'file'} is no directory") in found
