"""Problems, places and exceptions as values."""

from __future__ import annotations

import pickle
import time

import pytest

from kvengine.errors import (
    ConfigError,
    Edit,
    Fix,
    Place,
    PlanError,
    Problem,
    Put,
    dotted,
    masked,
    pointer,
)

PROBLEM = Problem(
    "exclusive",
    ("kv_transfer", "kv_connector_extra_config", "block_size"),
    "cannot be combined with 'blocks_per_chunk'",
    "keep one of the two",
    place=Place("kv.toml", 7, 1, 120, 130),
)


@pytest.mark.parametrize(
    ("path", "dots", "json_pointer"),
    [
        ((), "", ""),
        (("a",), "a", "/a"),
        (("a", 0, "b"), "a[0].b", "/a/0/b"),
        (("a/b", "c~d"), "a/b.c~d", "/a~1b/c~0d"),
        (("env:NAME",), "env:NAME", "env:NAME"),
        (("flag:--kv",), "flag:--kv", "flag:--kv"),
    ],
)
def test_a_path_is_written_for_people_and_for_programs(path, dots, json_pointer):
    """Dots and brackets in messages, JSON Pointers in output."""
    assert dotted(path) == dots
    assert pointer(path) == json_pointer


def test_a_problem_reads_as_one_line_and_a_hint():
    """Place, path, message, code; then what to do."""
    assert str(PROBLEM) == (
        "kv.toml:7:1: kv_transfer.kv_connector_extra_config.block_size: cannot be combined with"
        " 'blocks_per_chunk' [exclusive]\n  hint: keep one of the two"
    )


def test_a_problem_in_json_has_every_field():
    """The shape of check --format json."""
    fix = Fix("write 4", (Put(("a",), 4),), edits=(Edit(3, 6, "4"),))
    problem = Problem("type", ("a",), "is wrong", fix=fix, config=0, config_path=("a",))

    assert problem.to_dict() == {
        "code": "type",
        "severity": "error",
        "file": None,
        "line": None,
        "column": None,
        "path": "/a",
        "config": 0,
        "config_path": "/a",
        "message": "is wrong",
        "hint": "",
        "fix": {"title": "write 4", "safe": True, "edits": [{"start": 3, "end": 6, "text": "4"}]},
    }


def test_exceptions_keep_their_facts_through_pickling():
    """A worker process can hand them to its parent."""
    refused = PlanError("plan", "capacity", "does not fit", need_bytes=7, available_bytes=5)
    config = ConfigError([PROBLEM])

    again = pickle.loads(pickle.dumps(refused))

    assert again.to_dict() == {
        "stage": "plan",
        "code": "capacity",
        "message": "does not fit",
        "hint": "",
        "need_bytes": 7,
        "available_bytes": 5,
    }
    assert str(again) == "does not fit [capacity]"
    assert pickle.loads(pickle.dumps(config)).problems == (PROBLEM,)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://u:p@ss@host", "redis://******@host"),
        ("redis://:a/b@host:1/0", "redis://****@host:1/0"),
        ("valkey://host:1/0", "valkey://host:1/0"),
        ('password: "TOP SECRET,PW"', 'password: "*************"'),
        ("password: 'a b' # x", "password: '***' # x"),
        ('{"password":"ab,cd"}', '{"password":"*****"}'),
        (r'"{\"password\": \"hunter2\"}"', r'"{\"password\": \"*******\"}"'),
        ('["--api-key","abc", "-tp"]', '["--api-key","***", "-tp"]'),
        ("HF_TOKEN=hf_1 vllm serve", "HF_TOKEN=**** vllm serve"),
        ("bytes_per_token: 4096", "bytes_per_token: 4096"),
        ("token: null", "token: null"),
        ('password_env = "KV"', 'password_env = "KV"'),
    ],
)
def test_what_looks_like_a_secret_is_starred(text, shown):
    """And nothing else is: messages must stay of use."""
    assert masked(text) == shown


def test_a_hostile_text_is_masked_in_time():
    """Excerpts and quoted values are a few thousand characters."""
    started_s = time.process_time()
    for text in ("://a:" * 2000, "-" * 8192, "password" * 1000, "password=" + chr(92) * 8000):
        masked(text)

    assert time.process_time() - started_s < 2
