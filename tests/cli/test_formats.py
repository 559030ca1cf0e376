"""The formats that services read."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from kvengine import __version__
from kvengine.rules.codes import CODES
from tests.cli.texts import CLEAN, WARNED, WRONG


@pytest.fixture
def files(folder):
    """Three files: clean, wrong and warned."""
    for name, text in {"a.toml": CLEAN, "b.toml": WRONG, "c.toml": WARNED}.items():
        (folder / name).write_text(text)
    return ("a.toml", "b.toml", "c.toml")


def test_github_shows_findings_at_lines(run, files):
    """Workflow commands, one per finding, line breaks escaped."""
    ran = run("check", "--format", "github", *files)

    assert ran == (
        1,
        "::error file=b.toml,line=5,col=1,title=kvengine type::cache.tokens_per_block:"
        ' must be a whole number, not the text "16"%0Ahint: write 16\n'
        "::error file=b.toml,line=13,col=1,title=kvengine range::"
        "kv_transfer.kv_connector_extra_config.blocks_per_chunk: must be at least 1, not 0\n"
        "::warning file=c.toml,line=5,col=1,title=kvengine deprecated::"
        "environment.VLLM_USE_PACKED_HMA_KV_CACHE: is deprecated, use"
        " kv_connector_extra_config.enable_cross_layers_blocks instead"
        "%0Ahint: it lived between two releases of vLLM, none of which reads it\n",
        "",
    )


def test_github_escapes_what_has_a_meaning(run, folder):
    """Percent signs, colons and commas of file names."""
    (folder / "a,b:100%.toml").write_text(WRONG)

    ran = run("check", "--format", "github", "a,b:100%.toml", "--select", "type")

    assert ran.out.startswith("::error file=a%2Cb%3A100%25.toml,line=5,col=1,")


def test_sarif_holds_rules_results_and_fixes(run, files):
    """One run; offsets count bytes of the file."""
    ran = run("check", "--format", "sarif", *files)
    log = json.loads(ran.out)
    (only,) = log["runs"]
    first = only["results"][0]

    assert (ran.code, log["version"]) == (1, "2.1.0")
    assert only["tool"]["driver"]["version"] == __version__
    assert [rule["id"] for rule in only["tool"]["driver"]["rules"]] == [
        "type",
        "range",
        "deprecated",
    ]
    assert [(one["ruleId"], one["ruleIndex"], one["level"]) for one in only["results"]] == [
        ("type", 0, "error"),
        ("range", 1, "error"),
        ("deprecated", 2, "warning"),
    ]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "b.toml"},
                "region": {
                    "startLine": 5,
                    "startColumn": 1,
                    "byteOffset": WRONG.index("tokens_per_block"),
                    "byteLength": 16,
                },
            }
        }
    ]
    assert first["fixes"][0]["description"] == {"text": "write 16"}
    assert first["fixes"][0]["artifactChanges"][0]["artifactLocation"] == {"uri": "b.toml"}


def test_gitlab_has_stable_fingerprints(run, files, folder):
    """They survive lines that move, and differ for every finding."""
    before = json.loads(run("check", "--format", "gitlab", *files).out)
    (folder / "b.toml").write_text("# one more line\n" + WRONG)
    after = json.loads(run("check", "--format", "gitlab", *files).out)

    assert before[0] == {
        "description": "cache.tokens_per_block: must be a whole number, not the text"
        ' "16" (write 16)',
        "check_name": "kvengine/type",
        "fingerprint": after[0]["fingerprint"],
        "severity": "major",
        "location": {"path": "b.toml", "lines": {"begin": 5}},
    }
    assert after[0]["location"]["lines"] == {"begin": 6}
    assert len({entry["fingerprint"] for entry in before}) == len(before) == 3
    assert [entry["severity"] for entry in before] == ["major", "major", "minor"]


def test_junit_fails_the_files_that_fail(run, files):
    """Milder findings are the output of a test that passes."""
    ran = run("check", "--format", "junit", *files)
    suite = ElementTree.fromstring(ran.out)[0]
    clean, wrong, warned = suite

    assert suite.attrib["tests"] == "3"
    assert suite.attrib["failures"] == "1"
    assert [case.attrib["name"] for case in suite] == [*files]
    assert [one.tag for one in clean] == []
    assert [(one.tag, one.attrib["type"]) for one in wrong] == [
        ("failure", "type"),
        ("failure", "range"),
    ]
    assert [one.tag for one in warned] == ["system-out"]
    assert warned[0].text.startswith("warning: c.toml:5:1: environment.VLLM_USE_PACKED")


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "gitlab", "junit"])
def test_every_format_says_an_unreadable_file(run, folder, form, monkeypatch):
    """And what has no file, and names that XML and JSON cannot hold as they are."""
    monkeypatch.setenv("VLLM_USE_PACKED_HMA_KV_CACHE", "1")
    (folder / "a\x01<&\udcff.json").write_text('{"kv_connector": "\\u0001\\ufffe<&", "\\u0001": 1}')

    ran = run("check", "nowhere.toml", "a\x01<&\udcff.json", "--format", form)

    assert ran.code == 2
    assert "does not exist" in ran.out
    if form == "junit":
        assert len(ElementTree.fromstring(ran.out)[0]) == 3
    elif form in ("json", "sarif", "gitlab"):
        json.loads(ran.out)


def test_every_code_is_explained_at_length():
    """Meaning, example and the way out, in the order of the reference."""
    for name, code in CODES.items():
        assert code.name == name
        assert code.means.endswith(".")
        assert code.mend.endswith(".")
        assert code.example
