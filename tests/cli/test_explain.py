"""``kvengine explain``: codes, options and connectors in the words of their declarations."""

from __future__ import annotations

import pytest

from kvengine.cli.topics import connectors, names, tables
from kvengine.config.advisories import advisories
from kvengine.rules.codes import CODES


def test_a_code_has_a_meaning_an_example_and_a_way_out(run):
    """Whole text."""
    assert run("explain", "exclusive") == (
        0,
        "exclusive (problem code)\n"
        "\n"
        "  Two options are given that exclude each other; the engine refuses the pair.\n"
        "\n"
        "  example: block_size = 256 and blocks_per_chunk = 8\n"
        "  what to do: Keep one of them.\n",
        "",
    )


def test_without_a_topic_everything_is_listed(run):
    """Codes, tables and connectors, each with a line."""
    ran = run("explain")

    assert ran.code == 0
    for name in [*CODES, *(table.name for table in (*tables(), *connectors()))]:
        assert f"\n  {name}" in ran.out


def test_every_name_can_be_explained(run):
    """No topic that is offered comes back unknown or empty."""
    for name in [*CODES, *names()]:
        ran = run("explain", name.removeprefix("--"))

        assert (name, ran.code, ran.err) == (name, 0, "")
        assert ran.out.strip()


def test_an_option_says_what_its_declaration_knows(run):
    """Value, default, example, releases, relations."""
    ran = run("explain", "tokens_per_block")

    assert ran == (
        0,
        "cache.tokens_per_block\n"
        "  Tokens per block (vLLM's --block-size).\n"
        "\n"
        "  value: a whole number, in tokens, at least 1\n"
        "  default: as the release resolves it\n"
        "  example: tokens_per_block = 16\n",
        "",
    )


@pytest.mark.parametrize(
    ("release", "says"),
    [("0.24", "vLLM 0.24 does not read it"), ("0.28", "vLLM 0.28 reads it")],
)
def test_an_option_is_explained_for_a_release(run, release, says):
    """--vllm adds what that release does with it."""
    ran = run("explain", "blocks_per_chunk", "--vllm", release)

    assert f"\n  {says}\n" in ran.out
    assert "\n  vLLM: since 0.26; otherwise block_size\n" in ran.out


def test_a_path_tells_options_of_the_same_name_apart(run):
    """The end of a dotted path is enough."""
    assert run("explain", "cache.dtype").out.startswith("cache.dtype\n")
    assert run("explain", "dtype").out.count("  example: dtype = ") == 2


def test_a_connector_lists_its_keys(run):
    """In any case of letters."""
    ran = run("explain", "offloadingconnector")

    assert ran.code == 0
    assert ran.out.startswith("OffloadingConnector (kv_transfer.kv_connector_extra_config)\n")
    assert "\n  blocks_per_chunk " in ran.out


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("blocks_per_chnk", "did you mean blocks_per_chunk?"),
        ("zzz", "kvengine explain lists all topics"),
    ],
)
def test_an_unknown_topic_is_wrong_usage(run, topic, says):
    """With the nearest name."""
    assert run("explain", topic) == (
        2,
        "",
        f"kvengine: explain: {topic} is no code, option or connector; {says}\n",
    )


def test_an_earlier_name_leads_to_the_same_connector(run):
    """With the releases that know it."""
    ran = run("explain", "SharedStorageConnector", "--vllm", "0.28")

    assert "\n  ExampleConnector was called SharedStorageConnector: vLLM before 0.1" in ran.out
    assert "\n  vLLM 0.28 does not know the name\n" in ran.out
    assert "\n  vLLM 0.28 knows the name\n" in (
        run("explain", "ExampleConnector", "--vllm", "0.28").out
    )


def test_a_flag_and_a_variable_are_written_as_in_a_shell(run):
    """With or without its dashes; each with an example that can be copied."""
    flag, variable = run("explain", "kv-offloading-size"), run("explain", "VLLM_KV_CACHE_LAYOUT")

    assert flag.out.startswith("--kv-offloading-size\n")
    assert "\n  example: --kv-offloading-size 64\n" in flag.out
    assert "\n  example: VLLM_KV_CACHE_LAYOUT=HND\n" in variable.out


def test_known_issues_are_listed(run):
    """All of them with the code, each by its own name."""
    known = [one for one in advisories() if one.code == "known-issue"]
    ran, one = run("explain", "known-issue"), run("explain", known[0].id)

    assert ran.out.startswith("known-issue (problem code)\n")
    assert all(f"\n{each.id} (known-issue, " in ran.out for each in known)
    assert one.out.startswith(f"{known[0].id} (known-issue, ")
