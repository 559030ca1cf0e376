"""Excerpts: the line, and a mark that stands under the key."""

from __future__ import annotations

import pytest

from kvengine.document import excerpt, parse

CASES = [
    (
        "a = 1\nhost_blocks = 64\n",
        ("host_blocks",),
        ["   2 | host_blocks = 64", "     | ^^^^^^^^^^^"],
    ),
    ("\ta\t= 1", ("a",), ["   1 | \ta\t= 1", "     | \t^"]),
    ("x = {a = 1}\r\ny = 2", ("x", "a"), ["   1 | x = {a = 1}", "     |      ^"]),
    (
        "x = {'é漢' = 1, a = 2}",
        ("x", "a"),
        ["   1 | x = {'é漢' = 1, a = 2}", "     |                 ^"],
    ),
    (
        "x = ['\u202e', {a = 1}]",
        ("x", 1, "a"),
        ["   1 | x = ['\ufffd', {a = 1}]", "     |            ^"],
    ),
    (
        "s = '" + "x" * 200 + "'\n" + "t = ['" + "x" * 100 + "', {k = 1}, '" + "y" * 100 + "']\n",
        ("t", 1, "k"),
        [
            "   2 | …" + "x" * 20 + "', {k = 1}, '" + "y" * 63 + "…",
            "     | " + " " * 25 + "^",
        ],
    ),
]


@pytest.mark.parametrize(("text", "path", "lines"), CASES)
def test_the_mark_stands_under_the_key(text, path, lines):
    """Tabs, wide characters, long lines and characters that steer a terminal included."""
    document = parse(text.encode(), name="k.toml")

    assert excerpt(document, document.place(path)).split("\n") == lines


def test_a_value_over_several_lines_is_marked_on_its_first():
    """The mark ends with the line."""
    document = parse(b'{"a": [1,\n2]}', name="k.json")

    assert excerpt(document, document.place(("a",), key=False)) == (
        '   1 | {"a": [1,\n     |       ^^^'
    )


def test_control_characters_are_shown_as_symbols():
    """An escape sequence in a key cannot reach the terminal."""
    document = parse(b'"\\u001b" = "\x7f"\n'.replace(b"\x7f", "\u009b".encode()), name="k.toml")

    assert "\x9b" not in excerpt(document, document.place(("\x1b",)))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('url = "valkey://kv:hunter2@cache:6379/0"', 'url = "valkey://**********@cache:6379/0"'),
        ('password = "hunter2"', 'password = "*******"'),
        ('"HF_TOKEN": "hf_hunter2"', '"HF_TOKEN": "**********"'),
        ("command = 'serve --api-key hunter2 -tp 2'", "command = 'serve --api-key ******* -tp 2'"),
        ('password_env = "KV_PASSWORD"', 'password_env = "KV_PASSWORD"'),
        ("tokens_per_block = 16", "tokens_per_block = 16"),
    ],
)
def test_secrets_are_starred(line, shown):
    """Findings end up in the logs of CI; names of variables and numbers of tokens are none."""
    key = line.split("=")[0].strip() if not line.startswith('"') else "x"
    text = f"{line}\n" if key != "x" else f"x = {{{line.replace(':', ' =', 1)}}}\n"
    expected = shown if key != "x" else f"x = {{{shown.replace(':', ' =', 1)}}}"
    document = parse(text.encode(), name="k.toml")

    assert excerpt(document, document.place((key,))).split("\n")[0] == f"   1 | {expected}"
