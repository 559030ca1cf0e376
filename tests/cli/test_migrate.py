"""``kvengine migrate``: today's spelling, with every comment where it was."""

from __future__ import annotations

import pytest

from tests.cli.texts import BARE, CLEAN

OLD = """\
#:schema https://kvengine.dev/schema/kv-engine-1.json
# our server
schema = 1            # old
vllm   = "0.28"

[cache]
hybrid = "True"       # a text
memory = '40 GiB'

[environment]
VLLM_USE_PACKED_HMA_KV_CACHE = "1"   # packed, please

[kv_transfer]
kv_role = "kv_both"   # order is kept
kv_connector = "OffloadingConnector"

[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 68719476736
"""

NEW = """\
#:schema https://kvengine.dev/schema/kv-engine-2.json
# our server
schema = 2            # old
vllm   = "0.28"

[cache]
hybrid = true       # a text
memory = '40 GiB'

[kv_transfer]
kv_role = "kv_both"   # order is kept
kv_connector = "OffloadingConnector"

[kv_transfer.kv_connector_extra_config]
cpu_bytes_to_use = 68719476736
enable_cross_layers_blocks = true
"""


def test_a_document_is_printed_in_todays_spelling(run, folder):
    """The file itself stays as it is."""
    (folder / "old.toml").write_text(OLD)

    assert run("migrate", "old.toml") == (0, NEW, "")
    assert (folder / "old.toml").read_text() == OLD


def test_write_rewrites_the_file(run, folder):
    """Once: a second time there is nothing to do."""
    (folder / "old.toml").write_text(OLD)

    assert run("migrate", "--write", "old.toml") == (0, "", "old.toml: migrated to schema 2\n")
    assert (folder / "old.toml").read_text() == NEW
    assert run("migrate", "--write", "old.toml") == (0, "", "")


def test_standard_input_is_a_filter(run):
    """It cannot be written to."""
    assert run("migrate", "-", stdin=OLD.encode()) == (0, NEW, "")
    assert run("migrate", "--write", "-", stdin=OLD.encode()) == (
        2,
        "",
        "kvengine: migrate: standard input cannot be rewritten; leave out --write\n",
    )


@pytest.mark.parametrize(
    ("name", "text", "new"),
    [
        (
            "a.json",
            '{"$schema": "./kv-engine-1.json", "schema":  1, "cache": {"hybrid": "false"}}\n',
            '{"$schema": "./kv-engine-2.json", "schema":  2, "cache": {"hybrid": false}}\n',
        ),
        (
            "a.yaml",
            "# yaml-language-server: $schema=https://x/kv-engine-1.json\nschema: 1 # v\n",
            "# yaml-language-server: $schema=https://x/kv-engine-2.json\nschema: 2 # v\n",
        ),
        ("b.toml", "schema = 1\r\nx-a = 1\r\n", "schema = 2\r\nx-a = 1\r\n"),
    ],
)
def test_every_form_keeps_its_looks(run, folder, name, text, new):
    """JSON, YAML and Windows line ends; the pointer for editors moves along."""
    (folder / name).write_bytes(text.encode())

    run("migrate", "--write", name)

    assert (folder / name).read_bytes() == new.encode()


@pytest.mark.parametrize(
    ("text", "to", "code", "err"),
    [
        (CLEAN, "2", 0, ""),
        (OLD, "1", 0, ""),
        (
            CLEAN,
            "1",
            2,
            "kvengine: migrate: the document is schema 2, there is no way back\n",
        ),
        (CLEAN, "3", 2, "kvengine: migrate: there is no schema 3; known are 1 to 2\n"),
        (CLEAN, "0", 2, "kvengine: migrate: there is no schema 0; known are 1 to 2\n"),
    ],
)
def test_the_target_is_a_version_that_is_known(run, text, to, code, err):
    """Where there is nothing to do, the text comes out as it went in."""
    out = text if code == 0 else ""

    assert run("migrate", "--to", to, "-", stdin=text.encode()) == (code, out, err)


def test_a_transfer_config_has_no_version(run):
    """It comes out as it went in, and that is said."""
    assert run("migrate", "-", stdin=BARE.encode()) == (
        0,
        BARE,
        "kvengine: a transfer config has no version; nothing to migrate\n",
    )


def test_a_document_with_errors_is_not_migrated(run):
    """The errors are shown; nothing is printed that would be half right."""
    wrong = OLD.replace('"True"', '"perhaps"')

    assert run("migrate", "-", stdin=wrong.encode()) == (
        1,
        "",
        "<stdin>:7:1: error: cache.hybrid: must be true or false, not the text"
        ' "perhaps" [type]\n'
        '   7 | hybrid = "perhaps"       # a text\n'
        "     | ^^^^^^\n"
        "kvengine: 1 error to mend first; nothing was migrated\n",
    )


def test_an_unreadable_file_is_exit_code_2(run):
    """As everywhere."""
    assert run("migrate", "nowhere.toml") == (
        2,
        "",
        "kvengine: nowhere.toml:1:1: does not exist [syntax]\n",
    )
