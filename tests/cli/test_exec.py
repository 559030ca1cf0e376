"""``kvengine exec``: a check in front of a command that it then becomes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvengine
from kvengine.cli.exec import findings

ROOT = Path(kvengine.__file__).parent.parent
GOOD = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",'
GOOD += ' "kv_connector_extra_config": {"cpu_bytes_to_use": 68719476736}}'
BAD = '{"kv_connector": "OffloadingConnector"}'


@pytest.fixture
def launch(tmp_path):
    """Run ``kvengine exec`` beside a program ``vllm`` that says its arguments."""
    program = tmp_path / "vllm"
    program.write_text('#!/bin/sh\necho "$$ $@"\nexit 7\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    def call(*arguments, **variables):
        ran = subprocess.Popen(
            [sys.executable, "-m", "kvengine", "exec", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, **variables},
            cwd=tmp_path,
        )
        out, err = ran.communicate()
        return ran.returncode, out.replace(str(ran.pid), "PID"), err

    return call


def test_a_good_command_is_started_in_place(launch):
    """In the same process, with its arguments as they were, and its exit code."""
    command = ("--", "vllm", "serve", "my model", "--kv-transfer-config", GOOD)

    assert launch("--vllm", "0.28", *command) == (
        7,
        f"PID serve my model --kv-transfer-config {GOOD}\n",
        "",
    )


def test_a_bad_command_is_not_started(launch):
    """Findings go to standard error; --warn-only starts it all the same."""
    command = ("--", "vllm", "serve", "m", "--kv-transfer-config", BAD)
    refused, warned = launch(*command), launch("--warn-only", *command)

    assert refused[:2] == (1, "")
    assert refused[2].startswith(
        "<command line>:1:36: error: kv_role: is required with 'kv_connector' [missing]\n"
        "   1 | vllm serve m --kv-transfer-config '{"
    )
    assert refused[2].endswith(
        "kvengine: vllm was not started; --warn-only starts it all the same\n"
    )
    assert warned[:2] == (7, f"PID serve m --kv-transfer-config {BAD}\n")
    assert warned[2].startswith("<command line>:1:36: error: kv_role: ")


def test_the_environment_is_checked_too(launch):
    """Variables of the process count as they would for vLLM."""
    variables = {"VLLM_USE_PACKED_HMA_KV_CACHE": "1"}
    ran = launch("--", "vllm", "serve", "m", "--kv-transfer-config", GOOD, **variables)

    assert ran[0] == 7
    assert "warning: env:VLLM_USE_PACKED_HMA_KV_CACHE: " in ran[2]


def test_any_other_command_is_just_started(launch):
    """There is nothing to check."""
    assert launch("--", "sh", "-c", "exit 3") == (3, "", "")


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (("--", "no-such-program"), 127, "kvengine: no-such-program: not found\n"),
        (("--", "/"), 126, "kvengine: /: permission denied\n"),
        (
            (),
            2,
            "kvengine: exec: no command; it follows --, as in kvengine exec -- vllm serve ...\n",
        ),
    ],
)
def test_what_cannot_be_started_is_told(launch, command, code, says):
    """With the exit codes of shells."""
    assert launch(*command) == (code, "", says)


def test_findings_lie_in_the_command_line():
    """The place counts characters of the command as a shell would write it."""
    (problem,) = findings(["vllm", "serve", "m", "--kv-transfer-config", BAD], {}, "0.28")

    assert (problem.code, str(problem.place)) == ("missing", "<command line>:1:36")
    assert findings(["ls", "\udcff", "a b"], {}, None) == []
