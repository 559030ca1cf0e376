"""``kvengine check``: whole outputs and every exit code."""

from __future__ import annotations

import json

import pytest

from tests.cli.texts import BARE, CLEAN, WARNED, WRONG

REPORT = """\
serve.toml:5:1: error: cache.tokens_per_block: must be a whole number, not the text "16" [type]
   5 | tokens_per_block = "16"  # a text
     | ^^^^^^^^^^^^^^^^
  hint: write 16
  fix: write 16 (kvengine check --fix does it)
serve.toml:13:1: error: kv_transfer.kv_connector_extra_config.blocks_per_chunk: \
must be at least 1, not 0 [range]
  13 | blocks_per_chunk = 0
     | ^^^^^^^^^^^^^^^^
2 errors in 1 file
"""


def test_a_clean_file_earns_one_short_line(run, folder):
    """Nothing but ``ok`` and which file."""
    (folder / "serve.toml").write_text(CLEAN)

    assert run("check", "serve.toml") == (0, "ok: serve.toml\n", "")


def test_findings_show_the_line_with_a_mark(run, folder):
    """Place, severity, path, message, code; the line; hint; what --fix would do; a summary."""
    (folder / "serve.toml").write_text(WRONG)

    assert run("check", "serve.toml") == (1, REPORT, "")


def test_several_files_are_counted_together(run, folder):
    """The summary counts severities and files."""
    (folder / "a.toml").write_text(CLEAN)
    (folder / "b.toml").write_text(WRONG)
    (folder / "c.toml").write_text(WARNED)

    ran = run("check", "a.toml", "b.toml", "c.toml", "a.toml")

    assert ran.code == 1
    assert ran.out.endswith("\n2 errors, 1 warning in 3 files\n")
    assert run("check", "a.toml", "./a.toml").out == "ok: 2 files\n"


def test_standard_input_is_a_dash(run):
    """Its name in findings is <stdin>."""
    clean, wrong = run("check", "-", stdin=CLEAN.encode()), run("check", "-", stdin=b"{}")

    assert clean == (0, "ok: <stdin>\n", "")
    assert (wrong.code, wrong.out.splitlines()[0]) == (
        1,
        "<stdin>:1:1: error: is neither an engine document nor a transfer config [missing]",
    )


def test_warnings_fail_only_when_asked(run, folder):
    """--fail-on names the least severity that makes the exit code 1."""
    (folder / "old.toml").write_text(WARNED)

    assert run("check", "old.toml").code == 0
    assert run("check", "--fail-on", "warning", "old.toml").code == 1
    assert run("check", "--fail-on", "info", "old.toml").code == 1


def test_an_info_fails_only_when_infos_do(run):
    """Digits as text are read as meant."""
    ran = run("check", "-", stdin=BARE.encode())

    assert ran == (
        0,
        "<stdin>:2:32: info: kv_connector_extra_config.cpu_bytes_to_use: is the text"
        ' "68719476736", read as a number [coerced]\n'
        '   2 |  "kv_connector_extra_config": {"cpu_bytes_to_use": "68719476736"}}\n'
        "     |                                ^^^^^^^^^^^^^^^^^^\n"
        "  hint: write 68719476736\n"
        "  fix: write 68719476736 (kvengine check --fix does it)\n"
        "1 info in 1 file\n",
        "",
    )
    assert run("check", "-", "--fail-on", "warning", stdin=BARE.encode()).code == 0
    assert run("check", "-", "--fail-on", "info", stdin=BARE.encode()).code == 1


def applied(file, edits):
    """The text of a file after edits as JSON has them."""
    raw = file.read_bytes()
    for edit in sorted(edits, key=lambda edit: -edit["start"]):
        raw = raw[: edit["start"]] + edit["text"].encode() + raw[edit["end"] :]
    return raw.decode()


def test_json_holds_every_fact(run, folder):
    """The shape that DESIGN promises, edits in bytes of the file."""
    (folder / "serve.toml").write_text("# ü\n" + WRONG)

    ran = run("check", "serve.toml", "--format", "json")
    found = json.loads(ran.out)

    first, second = found["problems"]
    edits = first["fix"].pop("edits")

    assert (ran.code, ran.err, found["version"]) == (1, "", 1)
    assert first == {
        "code": "type",
        "severity": "error",
        "file": "serve.toml",
        "line": 6,
        "column": 1,
        "path": "/cache/tokens_per_block",
        "config": None,
        "config_path": None,
        "message": 'must be a whole number, not the text "16"',
        "hint": "write 16",
        "fix": {"title": "write 16", "safe": True},
    }
    assert applied(folder / "serve.toml", edits) == ("# ü\n" + WRONG).replace('"16"', "16")
    assert second["config"] == 0
    assert second["config_path"] == "/kv_connector_extra_config/blocks_per_chunk"
    assert second["path"] == "/kv_transfer/kv_connector_extra_config/blocks_per_chunk"
    assert second["fix"] is None


def test_json_of_nothing_is_an_empty_list(run, folder):
    """Still with its version."""
    (folder / "serve.toml").write_text(CLEAN)

    ran = run("check", "--format", "json", "serve.toml")

    assert ran == (0, '{\n  "version": 1,\n  "problems": []\n}\n', "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty [syntax]"),
        (b"\xff", "is not UTF-8: byte 0xff at offset 0 [syntax]"),
        (b'{"a": 1, "a": 2}', 'gives the key "a" twice [duplicate-key]'),
        (b"[" * 200, "nests deeper than 100 levels [limit]"),
    ],
)
def test_an_unreadable_file_is_exit_code_2(run, folder, content, message):
    """One finding says why; no option hides it."""
    (folder / "a.json").write_bytes(content)

    ran = run("check", "a.json", "--ignore", "syntax,limit,duplicate-key")

    assert ran.code == 2
    assert message in ran.out
    assert ran.out.endswith("1 error in 1 file\n")


def test_a_missing_file_does_not_hide_the_others(run, folder):
    """All files are checked, and the exit code says that one was not read."""
    (folder / "b.toml").write_text(WRONG)

    ran = run("check", "nowhere.toml", "b.toml")

    assert ran.code == 2
    assert ran.out.startswith("nowhere.toml:1:1: error: does not exist [syntax]\nb.toml:5:1: ")
    assert ran.out.endswith("3 errors in 2 files\n")


def test_no_file_is_wrong_usage(run):
    """One line, exit code 2."""
    assert run("check") == (2, "", "kvengine: check: no FILE given; - is standard input\n")


def test_folders_are_searched_when_asked(run, folder):
    """--recursive checks what is ours and passes over the rest, hidden folders too."""
    for name, text in {
        "a/serve.toml": CLEAN,
        "a/b/bare.json": BARE,
        "a/package.json": '{"name": "x", "schema": 2}',
        "a/notes.yaml": "- 1",
        "a/broken.json": "{",
        "a/broken-config.json": '{"kv_connector": ',
        "a/.git/hidden.toml": WRONG,
        "a/node_modules/hidden.toml": WRONG,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    refused, ran = run("check", "a"), run("check", "-r", "a", "--severity", "warning")

    assert refused == (2, "", "kvengine: a is a directory; --recursive checks the files in it\n")
    assert ran.code == 2
    assert ran.out.startswith("a/broken-config.json:1:17: error: ends where a value belongs")
    assert ran.out.endswith("\n1 error in 3 files\n")


def test_others_are_passed_over_when_asked(run, folder):
    """As a hook that is handed every file of a commit."""
    (folder / "package.json").write_text('{"name": "x"}')

    assert run("check", "--skip-others", "package.json") == (0, "ok: 0 files\n", "")
    assert run("check", "package.json").code == 1


def test_colour_is_for_those_who_ask(run, folder, monkeypatch):
    """Not in a pipe; FORCE_COLOR forces it, NO_COLOR wins."""
    (folder / "serve.toml").write_text(WRONG)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run("check", "serve.toml").out
    monkeypatch.setenv("NO_COLOR", "1")

    assert coloured.startswith("\x1b[1mserve.toml:5:1\x1b[0m: \x1b[1;31merror\x1b[0m: cache.")
    assert run("check", "serve.toml").out == REPORT


def test_what_a_file_says_cannot_steer_the_terminal(run, folder):
    """Control characters of names and keys are escaped."""
    (folder / "a\x1b[2J.json").write_text('{"kv_connector": "x\\u001b[2J\\u202e", "k\\u009b": 1}')

    ran = run("check", "a\x1b[2J.json")

    assert ran.code == 1
    assert ran.out.replace("\n", "").isprintable()


def test_the_variable_of_old_is_told_once(run, folder, monkeypatch):
    """However many files there are, and it never fails a run by itself."""
    (folder / "a.toml").write_text(CLEAN)
    (folder / "b.toml").write_text(CLEAN)
    monkeypatch.setenv("VLLM_USE_PACKED_HMA_KV_CACHE", "1")

    ran = run("check", "a.toml", "b.toml")
    found = json.loads(run("check", "a.toml", "--format", "json").out)["problems"]

    assert ran == (
        0,
        "warning: env:VLLM_USE_PACKED_HMA_KV_CACHE: is deprecated, use"
        " kv_connector_extra_config.enable_cross_layers_blocks instead [deprecated]\n"
        "  hint: it lived between two releases of vLLM, none of which reads it\n"
        "1 warning in 2 files\n",
        "",
    )
    assert [(one["path"], one["file"]) for one in found] == [
        ("env:VLLM_USE_PACKED_HMA_KV_CACHE", None)
    ]
