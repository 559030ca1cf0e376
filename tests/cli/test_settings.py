"""Which findings count: flags, comments in files and pyproject.toml."""

from __future__ import annotations

import pytest

from tests.cli.texts import CLEAN, WARNED, WRONG


def codes(ran):
    """The codes of a report, in order."""
    heads = (line for line in ran.out.splitlines() if ": error: " in line or ": warning: " in line)
    return [line.rsplit("[", 1)[1][:-1] for line in heads]


@pytest.mark.parametrize(
    ("flags", "code", "left"),
    [
        ((), 1, ["type", "range"]),
        (("--select", "range"), 1, ["range"]),
        (("--select", "range, type"), 1, ["type", "range"]),
        (("--ignore", "range"), 1, ["type"]),
        (("--ignore", "range,type"), 0, []),
        (("--select", "range", "--ignore", "range"), 0, []),
        (("--select", "deprecated"), 0, []),
    ],
)
def test_codes_are_selected_and_ignored(run, folder, flags, code, left):
    """What is hidden does not fail the run either."""
    (folder / "serve.toml").write_text(WRONG)

    ran = run("check", "serve.toml", *flags)

    assert (ran.code, codes(ran)) == (code, left)


def test_severity_hides_what_is_milder(run, folder):
    """The exit code looks at what is shown."""
    (folder / "old.toml").write_text(WARNED)

    assert run("check", "old.toml", "--severity", "error") == (0, "ok: old.toml\n", "")
    assert codes(run("check", "old.toml", "--severity", "warning")) == ["deprecated"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--select", "rnage"), "select: rnage is no code; did you mean range?"),
        (("--ignore", "zzz"), "ignore: zzz is no code; kvengine explain lists all"),
        (("--vllm", "new"), "vllm: 'new' is not a vLLM release such as 0.33"),
    ],
)
def test_words_that_mean_nothing_are_wrong_usage(run, flags, says):
    """One line, exit code 2."""
    assert run("check", "a.toml", *flags) == (2, "", f"kvengine: {says}\n")


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ('tokens_per_block = "16"  # kvengine: ignore[type]', ["range"]),
        ('tokens_per_block = "16"  # kvengine: ignore', ["range"]),
        ('tokens_per_block = "16"  # because. kvengine: ignore[range, type]', ["range"]),
        ('# kvengine: ignore[type]\ntokens_per_block = "16"', ["range"]),
        ('tokens_per_block = "16"  # kvengine: ignore[range]', ["type", "range"]),
        ('# kvengine: ignore[type]\n\ntokens_per_block = "16"', ["type", "range"]),
        ('x-a = 1  # kvengine: ignore[type]\ntokens_per_block = "16"', ["type", "range"]),
    ],
)
def test_a_comment_ignores_findings_on_its_line(run, folder, line, left):
    """Or, on a line of its own, on the line below."""
    text = WRONG.replace('tokens_per_block = "16"  # a text', line)
    (folder / "serve.toml").write_text(text)

    assert codes(run("check", "serve.toml")) == left


def test_pyproject_holds_settings_and_flags_go_before_them(run, folder):
    """The nearest pyproject.toml with such a table counts."""
    (folder / "pyproject.toml").write_text('[tool.kvengine]\nignore = ["range"]\nfail-on = "info"')
    (folder / "serve.toml").write_text(WRONG)

    assert codes(run("check", "serve.toml")) == ["type"]
    assert codes(run("check", "serve.toml", "--ignore", "type")) == ["range"]


def test_pyproject_is_found_from_below(run, folder, monkeypatch):
    """One without our table does not end the search."""
    (folder / "pyproject.toml").write_text('[tool.kvengine]\nignore = "range,type"')
    (folder / "in" / "there").mkdir(parents=True)
    (folder / "in" / "pyproject.toml").write_text('[project]\nname = "kvengine-user"')
    (folder / "in" / "there" / "serve.toml").write_text(WRONG)
    monkeypatch.chdir(folder / "in" / "there")

    assert run("check", "serve.toml").code == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            "[tool.kvengine]\nselects = 1",
            "tool.kvengine.selects is no option; known are vllm, fail-on, severity, select, ignore",
        ),
        ("[tool]\nkvengine = 1", "tool.kvengine must be a table"),
        ("[tool.kvengine", "cannot be read: Expected ']' at the end of a table declaration"),
    ],
)
def test_a_wrong_table_is_wrong_usage(run, folder, table, says):
    """The file is named."""
    (folder / "pyproject.toml").write_text(table)
    (folder / "serve.toml").write_text(CLEAN)

    ran = run("check", "serve.toml")

    assert ran.code == 2
    assert ran.err.startswith(f"kvengine: {folder / 'pyproject.toml'}")
    assert says in ran.err


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("ignore = 1", "ignore must be a text or a list of texts, not 1"),
        ("severity = 'bad'", 'severity must be one of error, warning, info, not "bad"'),
        ("fail-on = 3", "fail-on must be one of error, warning, info, not 3"),
        ("vllm = ['x']", "vllm: 'x' is not a vLLM release such as 0.33"),
    ],
)
def test_wrong_values_in_pyproject_are_wrong_usage(run, folder, table, says):
    """As they are on the command line."""
    (folder / "pyproject.toml").write_text(f"[tool.kvengine]\n{table}\n")

    assert run("check", "serve.toml") == (2, "", f"kvengine: {says}\n")


def test_several_releases_are_judged_together(run, folder):
    """What all of them have is said once, the rest says which release it is for."""
    text = CLEAN + "blocks_per_chunk = 8\nx = 1\n"
    (folder / "serve.toml").write_text(text)

    ran = run("check", "serve.toml", "--vllm", "0.24,0.25,0.28")
    lines = [line for line in ran.out.splitlines() if line.startswith("serve.toml:")]

    assert [line.split(": ", 3)[1:3] for line in lines] == [
        ["warning", "kv_transfer.kv_connector_extra_config.blocks_per_chunk"],
        ["warning", "kv_transfer.kv_connector_extra_config.blocks_per_chunk"],
        ["error", "kv_transfer.kv_connector_extra_config.x"],
    ]
    assert "vLLM 0.24" in lines[0]
    assert "vLLM 0.25" in lines[1]


def test_an_unknown_release_is_told_at_the_flag(run, folder):
    """The document is judged for the nearest one that is known."""
    (folder / "serve.toml").write_text(CLEAN)

    ran = run("check", "serve.toml", "--vllm", "0.99")

    assert ran == (
        0,
        "warning: flag:--vllm: is 0.99, not known here [choice]\n"
        "  hint: known are 0.21 to 0.33; the nearest of them was used\n"
        "1 warning in 1 file\n",
        "",
    )
