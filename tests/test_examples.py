"""Every file in examples/ says what it is meant to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvengine.config.load import examine
from kvengine.document import read
from kvengine.errors import DocumentError

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
DOCUMENTS = {".toml", ".json", ".yaml"}
VALID = [*EXAMPLES.glob("*.toml"), *(EXAMPLES / "valid").iterdir()]
INVALID = [file for file in (EXAMPLES / "invalid").iterdir() if file.suffix in DOCUMENTS]


def name(file):
    return file.relative_to(EXAMPLES).as_posix()


def report(file):
    """Every problem of a file, as text, named from the project's root."""
    try:
        problems = examine(read(os.path.relpath(file))).problems
    except DocumentError as error:
        problems = error.problems
    return "".join(f"{problem.severity}: {problem}\n" for problem in problems)


@pytest.mark.parametrize("file", sorted(VALID), ids=name)
def test_a_valid_example_has_no_errors_and_builds(file):
    """Warnings are allowed: an old spelling is one."""
    checked = examine(read(str(file)))

    assert checked.errors == ()
    assert checked.config is not None


@pytest.mark.parametrize("file", sorted(INVALID), ids=name)
def test_an_invalid_example_says_exactly_what_stands_beside_it(file, monkeypatch):
    """The whole text of every problem; KVENGINE_UPDATE=1 writes it anew."""
    monkeypatch.chdir(ROOT)
    beside = file.with_suffix(".errors.txt")
    found = report(file)
    if os.environ.get("KVENGINE_UPDATE"):
        beside.write_text(found)

    assert found == beside.read_text()
    assert "error: " in found


def test_every_expectation_has_its_example():
    """No text is left behind when an example goes."""
    expected = {file.name.removesuffix(".errors.txt") for file in EXAMPLES.rglob("*.errors.txt")}

    assert expected == {file.stem for file in INVALID}


@pytest.mark.parametrize(
    ("script", "ends"),
    [("plan_a_model.py", "requests at full length\n"), ("round_trip.py", "the same bytes\n")],
)
def test_the_scripts_run_as_they_stand(script, ends, tmp_path):
    """From any folder, on the model beside them."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / script], cwd=tmp_path, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(ends)
