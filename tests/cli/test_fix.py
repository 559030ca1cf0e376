"""``check --fix`` and ``--diff``: certain fixes only, whole files only, and never a loss."""

from __future__ import annotations

import json
import stat

import pytest
from hypothesis import HealthCheck, given, settings

from kvengine.cli import UsageError
from kvengine.cli.files import replace_file
from kvengine.cli.mend import mend
from kvengine.cli.review import review_bytes
from kvengine.cli.settings import Settings
from kvengine.config.engine import Config
from kvengine.config.transfer import KVTransferConfig
from tests.cli.texts import BARE, WARNED, WRONG
from tests.documents import documents

DIFF = (
    "--- serve.toml\n"
    "+++ serve.toml (fixed)\n"
    "@@ -2,7 +2,7 @@\n"
    ' vllm = "0.28"\n'
    " \n"
    " [cache]\n"
    '-tokens_per_block = "16"  # a text\n'
    "+tokens_per_block = 16  # a text\n"
    " \n"
    " [kv_transfer]\n"
    ' kv_connector = "OffloadingConnector"\n'
)


def test_fix_writes_what_is_certain_and_reports_the_rest(run, folder):
    """What was changed is told on standard error."""
    (folder / "serve.toml").write_text(WRONG)

    ran = run("check", "--fix", "serve.toml")

    assert (folder / "serve.toml").read_text() == WRONG.replace('"16"', "16")
    assert ran.code == 1
    assert ran.out.startswith("serve.toml:13:1: error: ")
    assert ran.out.endswith("1 error in 1 file\n")
    assert ran.err == "serve.toml:5:1: fixed: cache.tokens_per_block: write 16 [type]\n"


def test_a_second_fix_has_nothing_to_do(run, folder):
    """--fix is idempotent."""
    (folder / "old.toml").write_text(WARNED)
    first = run("check", "--fix", "old.toml")
    text = (folder / "old.toml").read_text()

    assert first.out == "ok: old.toml\n"
    assert run("check", "--fix", "old.toml") == (0, "ok: old.toml\n", "")
    assert (folder / "old.toml").read_text() == text


def test_diff_alone_changes_nothing(run, folder):
    """It shows what --fix would do, then the findings as they are."""
    (folder / "serve.toml").write_text(WRONG)

    ran = run("check", "--diff", "serve.toml")

    assert ran.out.startswith(DIFF + "serve.toml:5:1: error: ")
    assert (folder / "serve.toml").read_text() == WRONG


def test_fix_and_diff_write_and_show(run, folder):
    """A diff keeps out of reports that programs read."""
    (folder / "serve.toml").write_text(WRONG)
    ran = run("check", "--fix", "--diff", "--format", "github", "serve.toml")

    assert ran.err.startswith(DIFF)
    assert ran.out.startswith("::error file=serve.toml,line=13,")
    assert (folder / "serve.toml").read_text() == WRONG.replace('"16"', "16")


def test_a_missing_last_line_break_is_said_in_the_diff(run, folder):
    """As diff does."""
    (folder / "a.json").write_text(BARE.rstrip("\n"))

    ran = run("check", "--diff", "a.json")

    assert ran.out.startswith(
        "--- a.json\n+++ a.json (fixed)\n@@ -1,2 +1,2 @@\n"
        ' {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",\n'
        '- "kv_connector_extra_config": {"cpu_bytes_to_use": "68719476736"}}\n'
        "\\ No newline at end of file\n"
        '+ "kv_connector_extra_config": {"cpu_bytes_to_use": 68719476736}}\n'
        "\\ No newline at end of file\n"
    )


def test_standard_input_is_filtered(run):
    """The mended text goes to standard output, the report to standard error."""
    ran = run("check", "--fix", "-", stdin=BARE.encode())

    assert ran.code == 0
    assert ran.out == BARE.replace('"68719476736"', "68719476736")
    assert ran.err.endswith("\nok: <stdin>\n")


def test_links_and_modes_survive(run, folder):
    """The file is replaced at once, behind its link, with the mode that it had."""
    (folder / "real.toml").write_text(WRONG)
    (folder / "real.toml").chmod(0o640)
    (folder / "link.toml").symlink_to("real.toml")

    run("check", "--fix", "link.toml")

    assert (folder / "link.toml").is_symlink()
    assert (folder / "real.toml").read_text() == WRONG.replace('"16"', "16")
    assert stat.S_IMODE((folder / "real.toml").stat().st_mode) == 0o640
    assert sorted(file.name for file in folder.iterdir()) == ["link.toml", "real.toml"]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "serve.toml cannot be written: no such file or directory"),
        (b"new", "serve.toml was changed by somebody else meanwhile; nothing was written"),
    ],
)
def test_a_file_that_cannot_be_replaced_is_as_it_was(folder, found, says):
    """Nothing is written over what somebody else wrote in the meantime."""
    if found is not None:
        (folder / "serve.toml").write_bytes(found)

    with pytest.raises(UsageError) as refused:
        replace_file("serve.toml", b"old", b"mine")

    assert str(refused.value) == says
    assert [file.read_bytes() for file in folder.iterdir()] == [found] * (found is not None)


def test_a_fix_may_trade_a_warning_for_another(run, folder):
    """The variable's meaning moves to an option that the newest release no longer reads."""
    (folder / "old.toml").write_text(WARNED.replace('vllm = "0.28"\n', ""))

    ran = run("check", "--fix", "old.toml")

    assert ran.out.startswith(
        "old.toml:6:63: warning: kv_transfer.kv_connector_extra_config.enable"
    )
    assert run("check", "--fix", "old.toml") == (0, ran.out, "")


def test_a_fix_never_overwrites_another_value(run, folder):
    """A misplaced key whose home is taken stays for its owner to decide."""
    text = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "cpu_bytes_to_use": 1000,'
    text += ' "kv_connector_extra_config": {"cpu_bytes_to_use": 68719476736}}'
    (folder / "a.json").write_text(text)

    run("check", "--fix", "a.json")

    assert (folder / "a.json").read_text() == text


def count(problems):
    return len(problems), sum(problem.severity == "error" for problem in problems)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(Config))
def test_mending_an_engine_document_is_stable_and_never_worse(data):
    """No more findings than before, and nothing left that is certain."""
    check_mending(data)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(KVTransferConfig))
def test_mending_a_transfer_config_is_stable_and_never_worse(data):
    """No more findings than before, and nothing left that is certain."""
    check_mending({"kv_connector": "OffloadingConnector", **data})


def check_mending(data):
    before = review_bytes(json.dumps(data).encode(), "<text>", Settings())
    after = mend(before, Settings()).review

    assert all(new <= old for new, old in zip(count(after.found), count(before.found), strict=True))
    assert mend(after, Settings()).applied == ()
