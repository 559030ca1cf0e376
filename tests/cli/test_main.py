"""The front of the command line: help, usage, failure, and no traceback whatever happens."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvengine
from kvengine.cli import COMMANDS, main
from kvengine.rules.codes import CODES
from tests.cli.texts import CLEAN, WRONG

PACKAGE = Path(kvengine.__file__).parent
ROOT = PACKAGE.parent


def process(*arguments, **options):
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kvengine", *arguments],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        **options,
    )


def test_the_version_is_printed(run):
    """As packaged."""
    assert run("--version") == (0, f"kvengine {kvengine.__version__}\n", "")


def test_without_a_command_the_help_is_shown(run):
    """It names every command, and is no success."""
    ran = run()

    assert ran.code == 2
    assert all(f"\n    {name}" in ran.out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_by_example(run, command):
    """--help works and ends in a command line that can be copied."""
    ran = run(command, "--help")

    assert (ran.code, ran.err) == (0, "")
    assert f"\nexamples:\n  kvengine {command}" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("chekc",), "argument COMMAND: invalid choice: 'chekc'"),
        (("check", "--fromat", "json"), "unrecognized arguments: --fromat"),
        (("check", "--format", "xml"), "argument --format: invalid choice: 'xml'"),
        (("plan", "--tp", "two"), "argument --tp/--tensor-parallel-size: invalid int value: 'two'"),
        (("migrate",), "the following arguments are required: FILE"),
    ],
)
def test_wrong_usage_is_exit_code_2(run, arguments, says):
    """argparse says which argument."""
    ran = run(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_an_unexpected_fault_is_one_line(run, monkeypatch):
    """It asks for a report; the traceback comes with KVENGINE_DEBUG=1 only."""
    monkeypatch.setitem(COMMANDS, "json", "a module that is no command")
    quiet = run("json")
    monkeypatch.setenv("KVENGINE_DEBUG", "1")

    assert quiet == (
        2,
        "",
        "kvengine: ModuleNotFoundError: No module named 'kvengine.cli.json' (this is a fault of"
        " kvengine, not of your file; please report it with the output of the same command under"
        " KVENGINE_DEBUG=1)\n",
    )
    assert "Traceback (most recent call last)" in run("json").err


def test_a_closed_pipe_is_quiet(tmp_path):
    """As after ``| head``."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    ran = subprocess.run(
        [sys.executable, "-m", "kvengine", "schema", "kv-engine-2"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    os.close(write_end)

    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_module_is_a_command(tmp_path):
    """``python -m kvengine`` in a real process: exit codes 0, 1 and 2."""
    (tmp_path / "clean.toml").write_text(CLEAN)
    (tmp_path / "wrong.toml").write_text(WRONG)
    ran = [
        process("check", name, cwd=tmp_path) for name in ("clean.toml", "wrong.toml", "none.toml")
    ]

    assert [one.returncode for one in ran] == [0, 1, 2]
    assert [one.stderr for one in ran] == [b"", b"", b""]
    assert ran[0].stdout == b"ok: clean.toml\n"


def test_a_terminal_without_unicode_gets_escapes(tmp_path):
    """Nothing fails for want of a character."""
    (tmp_path / "a.json").write_text('{"kv_connector": "Ü", "kv_rolé": 1}', "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(
        [sys.executable, "-m", "kvengine", "check", "a.json"],
        capture_output=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (1, b"")
    assert rb"kv_rol\xe9" in ran.stdout


@pytest.mark.parametrize("command", [("check", "CLEAN"), ("explain",), ("--version",), ("--help",)])
def test_light_commands_import_nothing_heavy(tmp_path, command):
    """A clean check parses arguments and TOML, and builds our classes; nothing more."""
    (tmp_path / "clean.toml").write_text(CLEAN)
    arguments = ["clean.toml" if word == "CLEAN" else word for word in command]
    program = (
        "import sys; from kvengine.cli import main; main(sys.argv[1:]);"
        " print([m for m in sys.argv[0].split() if m in sys.modules])"
    )
    heavy = "torch numpy rich yaml tomlkit tree_sitter jsonschema referencing redis difflib"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[0] = {heavy!r}\n{program}", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )

    assert ran.stderr == ""
    assert ran.stdout.splitlines()[-1] == "[]"


NAMES = st.sampled_from(["a.toml", "a.json", "a.yaml", "a.sh", "a.py", "Dockerfile", "a.md", "a"])
COMMAND = st.sampled_from(
    [
        ("check",),
        ("check", "--fix", "--format", "sarif"),
        ("check", "--format", "json"),
        ("check", "--vllm", "0.24,0.33", "--diff"),
        ("migrate",),
        ("plan", "--json"),
        ("plan", "--memory", "1 GiB"),
        ("plan", "--config", "0", "--compare", "0.28,0.32"),
    ]
)
TEXTS = ["schema = 2\n", "schema: 1\n", '{"kv_connector": "x"', "[kv_transfer]\n", "&a", "<<: *a\n"]
TEXTS += ["kv_role: ", "- ", *"{}[]\0\n'#", "\r\n", "kv_connector = ", "1e999", "\x1b[2J", "\ufeff"]
TEXTS += [
    "vllm serve m --kv-transfer-config ",
    '{"kv_connector": "OffloadingConnector", ',
    "env:\n",
]
TEXTS += [
    "  args:\n",
    "kind: Pod\n",
    "X=1 ",
    "$X",
    "${",
    "<<E\n",
    "E\n",
    "\\\n",
    "8G",
    "...",
    ", ",
    ": ",
]
PIECES = st.sampled_from([b"\xff", *(text.encode() for text in TEXTS)])


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(NAMES, COMMAND, st.one_of(st.binary(max_size=60), st.lists(PIECES).map(b"".join)))
def test_no_content_of_a_file_gives_a_traceback(folder, capsys, name, command, content):
    """Random bytes and random pieces of documents: an exit code, and no fault of ours."""
    (folder / name).write_bytes(content)
    capsys.readouterr()

    code = main((*command, name))
    out, err = capsys.readouterr()

    assert code in (0, 1, 2)
    assert "Traceback" not in out + err
    assert "fault of kvengine" not in out + err


def used_codes(file):
    """Every text that stands where a code goes."""
    places = {"Problem": 0, "Fault": 0, "PlanError": 1, "refuse": None, "_refuse": 0, "Code": None}
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        at = places.get(node.func.id)
        named = [word.value for word in node.keywords if word.arg == "code"]
        for argument in [*node.args[at : at + 1], *named] if at is not None else named:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def test_every_code_in_use_is_explained():
    """There is one list of codes, and no message uses another word."""
    used = {code: file for file in PACKAGE.rglob("*.py") for code in used_codes(file)}

    assert len(used) > 10
    assert {code: file for code, file in used.items() if code not in CODES} == {}
