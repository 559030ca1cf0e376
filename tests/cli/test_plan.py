"""``kvengine plan``: the page, the JSON, what flags add, and every way to be refused."""

from __future__ import annotations

import io
import json

import pytest
from attrs import evolve

import kvengine
from kvengine.cli.configs import read_configs
from kvengine.cli.page import Facts, Grid, print_page, text_of
from kvengine.cli.plan_input import placed, planned_input
from kvengine.cli.plan_view import sections
from kvengine.errors import PlanError, Problem
from kvengine.plan.plan import Tier
from tests.cli.texts import BARE, MODEL
from tests.runtime.plans import Shape, make

DOCUMENT = """\
schema = 2
vllm = "0.28"

[model]
config = "config.json"

[cache]
memory = "4 GiB"

[kv_transfer]
kv_connector = "OffloadingConnector"
kv_role = "kv_both"

[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 8589934592
blocks_per_chunk = 4
"""

PAGE = """\
model        LlamaForCausalLM, 32 layers with KV cache
vLLM         0.28, FLASH_ATTN
layout       unpacked: every layer's pages lie in a pool of their own
memory       4 GiB given, 32 tensors, 0 B lost to rounding
blocks       2,048 of 2 MiB
tokens       32,768 fit in all requests together
concurrency  4.00 requests of 8,192 tokens, 1 GiB each
cache dtype  auto
hashed by    16 tokens; scheduled by 16

Groups: layers that share a block table
  group  kind            layers  tokens/block    page    row  unused/block
      0  full attention      32            16  64 KiB  2 MiB           0 B

Offload: what moves as one, per rank; slots for all ranks
  group  blocks/chunk  tokens/chunk  chunk  vLLM's slot  vLLM wastes
      0             4            64  8 MiB        8 MiB         0.0%

Tiers: tokens that fit, and chunks if only that group's were stored
  tier                 size  tokens  group 0
  host                8 GiB  65,536    1,024
  vLLM's host memory                   1,024
"""


@pytest.fixture
def files(folder):
    """A model's config, an engine document and a bare transfer config."""
    (folder / "config.json").write_text(MODEL)
    (folder / "serve.toml").write_text(DOCUMENT)
    (folder / "bare.json").write_text(BARE)


def test_a_plan_is_a_page_that_one_reads(run, files):
    """Plain text in a pipe, columns aligned."""
    assert run("plan", "serve.toml") == (0, PAGE, "")


def test_json_is_what_the_plan_is(run, files, folder):
    """``to_dict`` of the plan from Python, findings included."""
    ran = run("plan", "serve.toml", "--json")

    plan = kvengine.make_plan(kvengine.load("serve.toml"))
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == plan.to_dict()


def test_flags_override_the_file(run, files):
    """They go before what the file says, and complete what it does not."""
    ran = run(
        *("plan", "serve.toml", "--json", "--memory", "2 GiB", "--tp", "2", "--block-size", "32"),
        *("--kv-cache-dtype", "fp8", "--max-model-len", "4096", "--vllm", "0.32"),
    )
    plan = json.loads(ran.out)

    assert ran.code == 0
    assert sum(plan["allocations"]) == 2 << 30
    assert plan["vllm"] == "0.32"
    assert (plan["tokens_per_block"], plan["max_model_len"]) == (32, 4096)
    assert plan["cache_dtype"] == "fp8"
    assert plan["groups"][0]["page_bytes"] == 2 * 32 * 4 * 128


def test_switches_and_lists_are_flags_too(run, files):
    """One memory per pipeline stage; a switch sets false."""
    ran = run(
        *("plan", "--model", "config.json", "--json", "--pp", "2", "--memory", "1 GiB,2 GiB"),
        *("--pipeline-layers", "10,22", "--disable-hybrid-kv-cache-manager"),
    )
    plan = json.loads(ran.out)

    assert ran.code == 0
    assert [len(rank["slots"]) for rank in plan["ranks"]] == [10, 22]
    assert "Pipeline stages: all take the blocks of the poorest\n" in (
        run("plan", "serve.toml", "--pp", "2").out
    )


def test_flags_make_a_transfer_config_plannable(run, files):
    """Its text for a number is read as the release reads it."""
    ran = run("plan", "bare.json", "--model", "config.json", "--memory", "4 GiB", "--vllm", "0.28")

    assert ran.code == 0
    assert ran.out.startswith(PAGE.split("Offload")[0])
    assert ran.out.endswith("\n1 info\n")


def test_flags_alone_are_enough(run, files):
    """A plan without offloading needs no file."""
    ran = run("plan", "--model", "config.json", "--memory", "4 GiB", "--vllm", "0.28")

    assert ran == (0, PAGE.split("\nOffload")[0], "")


def test_one_error_says_all_that_is_missing(run, files):
    """Flags and options are named."""
    needs = (
        "a model (--model config.json, or model.config in an engine document) and memory (--memory"
        ' "40 GiB", or cache.memory in an engine document)'
    )
    data = run("plan", "bare.json", "--json")

    assert run("plan", "bare.json").out.endswith(
        f"error: a plan needs {needs} [missing]\n1 error, 1 info\n"
    )
    assert data.code == 1
    assert json.loads(data.out)["error"] == {
        "stage": "setup",
        "code": "missing",
        "message": f"a plan needs {needs}",
        "hint": "",
    }
    assert "memory" not in run("plan", "bare.json", "--memory", "1 GiB").out.split("needs ")[1]


def test_what_does_not_fit_is_refused_with_numbers(run, files):
    """Exit code 1; needed and available bytes."""
    ran = run("plan", "serve.toml", "--memory", "512 MiB")
    found = json.loads(run("plan", "serve.toml", "--memory", "512 MiB", "--json").out)

    assert (ran.code, ran.err) == (1, "")
    assert "[capacity]\n" in ran.out
    assert ran.out.endswith(
        "1 error\n"
        "needed     1 GiB\n"
        "available  512 MiB\n"
        "blocks     256 would fit\n"
        "would fit  max_model_len = 4,096\n"
    )
    assert found["version"] == 1
    assert found["error"]["stage"] == "plan"
    assert found["error"]["need_bytes"] == 1 << 30


def test_a_config_that_only_offloading_refuses_still_plans(run, files, folder):
    """The cache is planned, the offload's refusal is said, exit code 1."""
    (folder / "serve.toml").write_text(DOCUMENT.replace("blocks_per_chunk = 4", "block_size = 24"))
    ran, data = run("plan", "serve.toml"), run("plan", "serve.toml", "--json")

    assert (ran.code, data.code) == (1, 1)
    assert ran.out.startswith(PAGE.split("\nOffload")[0] + "\noffload  refused: ")
    assert json.loads(data.out)["offload"]["error"]["code"] == "geometry"


def test_a_wrong_document_is_not_planned(run, files, folder):
    """Its errors are printed, as text and as data."""
    (folder / "serve.toml").write_text(DOCUMENT.replace('"4 GiB"', '"4 apples"'))
    ran, data = run("plan", "serve.toml"), run("plan", "serve.toml", "--json")
    found = json.loads(data.out)

    assert (ran.code, data.code) == (1, 1)
    assert ran.out.startswith("serve.toml:8:1: error: cache.memory: ")
    assert ran.out.endswith("\n1 error\n")
    assert found["error"]["stage"] == "setup"
    assert found["error"]["code"] == "type"
    assert [problem["path"] for problem in found["problems"]] == ["/cache/memory"]
    assert run("plan", "serve.toml", "--memory", "4 GiB").code == 0


def test_a_wrong_flag_is_told_at_the_flag(run, files):
    """Not at some line of the file."""
    ran = run("plan", "serve.toml", "--memory", "4 apples", "--json")
    (problem,) = json.loads(ran.out)["problems"]

    assert ran.code == 1
    assert (problem["path"], problem["file"], problem["line"]) == ("flag:--memory", None, None)


def test_an_unreadable_file_is_exit_code_2(run, folder):
    """As text and as data; so is a missing one, no file, and a release that is none."""
    (folder / "a.json").write_text("{")
    data = run("plan", "a.json", "--json")

    assert run("plan", "a.json").code == data.code == 2
    assert json.loads(data.out)["error"]["code"] == "syntax"
    assert run("plan", "nowhere.toml").out == (
        "nowhere.toml:1:1: error: does not exist [syntax]\n1 error\n"
    )
    assert run("plan") == (2, "", "kvengine: plan: no FILE given; - is standard input\n")
    assert run("plan", "a.json", "--vllm", "x") == (
        2,
        "",
        "kvengine: plan: 'x' is not a vLLM release such as 0.33\n",
    )


def test_the_variable_of_old_never_affects_a_plan(run, files, monkeypatch):
    """It is told, and the plan is the same."""
    monkeypatch.setenv("VLLM_USE_PACKED_HMA_KV_CACHE", "1")
    ran = run("plan", "serve.toml")

    assert ran.code == 0
    assert ran.out == (
        PAGE + "\nwarning: env:VLLM_USE_PACKED_HMA_KV_CACHE: is deprecated, use"
        " kv_connector_extra_config.enable_cross_layers_blocks instead [deprecated]\n"
        "  hint: it lived between two releases of vLLM, none of which reads it\n1 warning\n"
    )


SHAPES = (Shape((4096,) * 3, 2), Shape((4096,) * 2, 1, sliding_window=128, kind="window"))


def test_the_page_of_a_packed_plan_shows_what_is_lost():
    """The narrower group leaves a third of its blocks unused."""
    plan = make("packed", SHAPES, 10)
    tiers = (
        Tier(type="host", capacity_bytes=None, num_chunks=(None, 7)),
        Tier(type="fs", capacity_bytes=8192, num_chunks=(0, 1), tokens=0, io_bytes=(24576, 8192)),
    )
    grids = sections(evolve(plan, offload=evolve(plan.offload, tiers=tiers)))

    assert [grid.rows for grid in grids if isinstance(grid, Grid)] == [
        (
            ("0", "full attention", "3", "16", "4 KiB", "12 KiB", "0 B"),
            ("1", "sliding window 128", "2", "16", "4 KiB", "8 KiB", "4 KiB"),
        ),
        (
            ("0", "2", "32", "24 KiB", "24 KiB", "0.0%"),
            ("1", "1", "16", "8 KiB", "24 KiB", "66.7%"),
        ),
        (
            ("host", "unbounded", "any", "any", "7", ""),
            ("fs", "8 KiB", "0", "0", "1", "8 KiB to 24 KiB"),
        ),
    ]


def test_the_page_says_why_offloading_is_refused():
    """In place of the chunks."""
    refused = PlanError("setup", "geometry", "block_size is impossible here")
    plan = evolve(make("pools", SHAPES[:1], 4), offload=refused)

    assert sections(plan)[-1] == Facts((("offload", "refused: block_size is impossible here"),))


def test_a_terminal_gets_tables(monkeypatch):
    """With rich, coloured; no text is lost."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    page = [Facts((("model", "[red]tiny[/red]"),)), Grid("Groups", ("kind", "n"), (("full", "1"),))]
    terminal, pipe = Terminal(), io.StringIO()

    print_page(page, terminal)
    print_page(page, pipe)

    assert "\x1b[" in terminal.getvalue()
    assert all(word in terminal.getvalue() for word in ("model", "[red]tiny[/red]", "Groups", "│"))
    assert (
        pipe.getvalue()
        == text_of(page)
        == ("model  [red]tiny[/red]\n\nGroups\n  kind  n\n  full  1\n")
    )


def test_problems_of_the_planner_stand_at_their_option(folder):
    """Where the document has the option; a transfer config has one part of it."""
    problem = Problem("geometry", ("kv_transfer", "kv_role"), "is a test")
    bare = read_configs(b'{"kv_connector": "x",\n "kv_role": "kv_both"}', "a.json")
    whole = read_configs(b'schema = 2\n\n[kv_transfer]\nkv_role = "kv_both"\n', "a.toml")
    places = [
        [
            one.place and str(one.place)
            for one in placed((problem,), planned_input(configs, {}, None))
        ]
        for configs in (bare, whole, None)
    ]

    assert places == [["a.json:2:2"], ["a.toml:4:1"], [None]]


def test_two_releases_are_compared(run, files):
    """Only what differs, and whether stored chunks are found again."""
    ran = run("plan", "serve.toml", "--compare", "0.28,0.32")
    data = json.loads(run("plan", "serve.toml", "--compare", "0.28,0.32", "--json").out)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "first          serve.toml, vLLM 0.28\nsecond         serve.toml, vLLM 0.32\n"
    )
    assert "\n  vllm " in ran.out
    assert data["version"] == 1
    assert {"name": "vllm", "before": "0.28", "after": "0.32"} in data["rows"]


def test_two_files_are_compared(run, files, folder):
    """The flags count for both; the exit code is the second's."""
    (folder / "other.toml").write_text(DOCUMENT.replace("blocks_per_chunk = 4", "block_size = 24"))

    ran = run("plan", "serve.toml", "--compare", "other.toml", "--tp", "2")

    assert ran.code == 1
    assert "stored chunks  are not found again\n" in ran.out
    assert "\nonly with the second:\nerror: " in ran.out
    assert run("plan", "serve.toml", "--compare", "serve.toml").out.endswith(
        "differ         0 of 29 figures\nstored chunks  can be used again\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("-", "--compare", "0.28"),
            "--compare needs a file, standard input can be read once only",
        ),
        (
            ("serve.toml", "--compare", "0.28,0.29,0.30"),
            "--compare takes one release or two, not 0.28,0.29,0.30",
        ),
    ],
)
def test_a_comparison_needs_two_sides(run, files, arguments, says):
    """No more, no less."""
    assert run("plan", *arguments) == (2, "", f"kvengine: plan: {says}\n")


def test_a_comparison_with_a_file_that_cannot_be_read(run, files):
    """Is told as that file alone would be."""
    assert run("plan", "serve.toml", "--compare", "nowhere.toml") == (
        2,
        "nowhere.toml:1:1: error: does not exist [syntax]\n1 error\n",
        "",
    )
