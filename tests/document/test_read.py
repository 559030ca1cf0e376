"""Reading files: what each form gives, and what each broken file is told."""

from __future__ import annotations

import io
import os
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document import MAX_FILE_BYTES, Document, parse, parse_all, read
from kvengine.errors import DocumentError, Problem


def refusal(raw: bytes, name: str) -> Problem:
    """The one problem of a file that is refused, within a second of CPU time."""
    start = time.process_time()
    with pytest.raises(DocumentError) as caught:
        parse(raw, name=name)
    assert time.process_time() - start < 1
    (problem,) = caught.value.problems
    return problem


BROKEN = [
    ("a.json", b"", "a.json:1:1: is empty [syntax]"),
    ("a.yaml", b" \n\n", "a.yaml:1:1: is empty [syntax]"),
    ("a.yaml", b"# only this\n", "a.yaml:1:1: holds no document [syntax]"),
    ("a.toml", b"\xff\xfea\0", "a.toml:1:1: is UTF-16 text [syntax]\n  hint: save it as UTF-8"),
    (
        "a.toml",
        b"a = 1\nb = '\xe9'",
        "a.toml:2:6: is not UTF-8: byte 0xe9 at offset 11 [syntax]\n  hint: save it as UTF-8",
    ),
    (
        "a.json",
        b"{\0\xff\0",
        "a.json:1:3: is not UTF-8: byte 0xff at offset 2 [syntax]\n"
        "  hint: this looks like UTF-16 without a byte order mark; save it as UTF-8",
    ),
    (
        "a.json",
        b'{"a": "\0"}',
        "a.json:1:8: holds a NUL character [syntax]\n  hint: this is no text",
    ),
    ("a.json", b'{"a": 1, "a": 2}', 'a.json:1:10: gives the key "a" twice [duplicate-key]'),
    (
        "a.json",
        b'{"x": [{"b\\u0061": 1,\n "ba": 2}]}',
        'a.json:2:2: gives the key "ba" twice [duplicate-key]',
    ),
    ("a.toml", b"a = 1\n[b]\n[c]\n[b]\n", 'a.toml:4:2: gives the key "b" twice [duplicate-key]'),
    ("a.toml", b"a = 1\n'a' = 2\n", 'a.toml:2:1: gives the key "a" twice [duplicate-key]'),
    (
        "a.toml",
        b"a = {b = 1, b = 2}\n",
        'a.toml:1:13: gives the key "b" twice [duplicate-key]',
    ),
    ("a.yaml", b"x:\n  a: 1\n  a: 2", 'a.yaml:3:3: x: gives the key "a" twice [duplicate-key]'),
    ("a.json", b'{"a": NaN}', "a.json:1:7: has NaN, which is no JSON number [syntax]"),
    ("a.json", b'{"a": -Infinity}', "a.json:1:7: has -Infinity, which is no JSON number [syntax]"),
    ("a.json", b'[{"a": 1e999}]', "a.json:1:8: [0].a: is inf, which is no finite number [syntax]"),
    ("a.toml", b"[x]\na = nan", "a.toml:2:5: x.a: is nan, which is no finite number [syntax]"),
    ("a.yaml", b"a: -.inf", "a.yaml:1:4: a: is -inf, which is no finite number [syntax]"),
    (
        "a.json",
        b'{"a": "\\ud800"}',
        "a.json:1:7: a: holds half of a surrogate pair, which is no text [syntax]",
    ),
    (
        "a.json",
        b'{"a": 1, // no\n}',
        "a.json:1:10: has a comment, which JSON does not allow [syntax]\n  hint: remove it",
    ),
    (
        "a.json",
        b'{"a": /* no\n */ 1}',
        "a.json:1:7: has a comment, which JSON does not allow [syntax]\n  hint: remove it",
    ),
    (
        "a.json",
        b'{"a": 1,\n}',
        "a.json:1:8: has a trailing comma before '}', which JSON does not allow [syntax]\n"
        "  hint: remove it",
    ),
    (
        "a.json",
        b'{"a": [1,]}',
        "a.json:1:9: has a trailing comma before ']', which JSON does not allow [syntax]\n"
        "  hint: remove it",
    ),
    (
        "a.json",
        b"{'a': 1}",
        'a.json:1:2: uses single quotes [syntax]\n  hint: strings in JSON stand in "double quotes"',
    ),
    (
        "a.json",
        '{"a": “b”}'.encode(),
        "a.json:1:7: uses typographic quotes [syntax]\n"
        '  hint: strings in JSON stand in "double quotes"',
    ),
    (
        "a.json",
        b"{a: 1}",
        'a.json:1:2: has the key "a" without double quotes [syntax]\n  hint: write "a"',
    ),
    (
        "a.json",
        b'{"a": True}',
        "a.json:1:7: has True, which is Python and not JSON [syntax]\n  hint: write true",
    ),
    ("a.json", b'{"a": 8G}', 'a.json:1:7: has "8G", which is no JSON number [syntax]'),
    ("a.json", b'{"a": 010}', 'a.json:1:7: has "010", which is no JSON number [syntax]'),
    (
        "a.json",
        b'{"a": kv_both}',
        'a.json:1:7: has "kv_both" where a value belongs [syntax]\n'
        '  hint: text stands in "double quotes"',
    ),
    ("a.json", b'{"a" 1}', "a.json:1:6: has no ':' behind the key \"a\" [syntax]"),
    ("a.json", b'{"a": 1 "b": 2}', "a.json:1:8: has no comma between two entries [syntax]"),
    ("a.json", b'{"a": [1}', "a.json:1:9: has '}' where ']' closes [syntax]"),
    ("a.json", b'\n{"a": [1, 2', "a.json:2:7: never closes this '[' [syntax]"),
    ("a.json", b'{"a": 1, ', "a.json:1:1: never closes this '{' [syntax]"),
    ("a.json", b'{"a": ', "a.json:1:7: ends where a value belongs [syntax]"),
    ("a.json", b'{"a": }', 'a.json:1:7: has "}" where a value belongs [syntax]'),
    ("a.json", b"{,}", 'a.json:1:2: has "," where a key belongs [syntax]'),
    ("a.json", b'{"a": "x\ny"}', "a.json:1:7: has a string that its line does not close [syntax]"),
    (
        "a.json",
        b'{"a": "x\ty"}',
        'a.json:1:9: has the control character "\\t" inside a string [syntax]',
    ),
    (
        "a.json",
        b'{"a": "C:\\dir"}',
        "a.json:1:10: has the escape \\d in a string, which JSON does not know [syntax]",
    ),
    (
        "a.json",
        b'{"a": 1} x',
        "a.json:1:10: goes on behind the end of its value [syntax]\n  hint: one file, one value",
    ),
    ("a.toml", b"a = \n", "a.toml:1:5: is not TOML: invalid value [syntax]"),
    (
        "a.toml",
        b"a = 1\nb: 2",
        "a.toml:2:2: is not TOML: expected '=' after a key in a key/value pair [syntax]",
    ),
    (
        "a.yaml",
        b"a:\n\tb: 1",
        "a.yaml:2:1: is not YAML: found character that cannot start any token "
        "while scanning for the next token [syntax]\n"
        "  hint: indent with spaces: YAML takes no tabs there",
    ),
    (
        "a.yaml",
        b"a: {{ .Values.b }}",
        "a.yaml:1:5: a: has a key that is no plain text [type]\n"
        "  hint: this looks like a template; check what it renders to (helm template)",
    ),
    (
        "a.yaml",
        b"1: x",
        "a.yaml:1:1: has the key 1, which YAML reads as 1 and not as text [type]\n"
        '  hint: write "1"',
    ),
    (
        "a.yaml",
        b"on: x",
        "a.yaml:1:1: has the key on, which YAML reads as true and not as text [type]\n"
        '  hint: write "on"',
    ),
    ("a.yaml", b"a: *b", "a.yaml:1:4: refers to *b, which is not defined [syntax]"),
    ("a.yaml", b"a: &a\n  b: *a", "a.yaml:2:6: has a value that holds itself, *a [limit]"),
    (
        "a.yaml",
        b"a: !!python/object/apply:os.system ['true']",
        "a.yaml:1:4: uses the tag !!python/object/apply:os.system, which is not read [syntax]",
    ),
    ("a.yaml", b"a: !!int x", 'a.yaml:1:4: has "x", which is no int [syntax]'),
    ("a.yaml", b"<<: 1", "a.yaml:1:5: merges 1, which is no mapping [syntax]"),
    ("a.yaml", b'a: "\x07"', 'a.yaml:1:5: holds the control character "\\u0007" [syntax]'),
    (
        "a.yaml",
        b"a: 1\n---\nb: 2\n---\nc: 3\n",
        "a.yaml:3:1: holds 3 YAML documents where one is expected [syntax]",
    ),
]


@pytest.mark.parametrize(("name", "raw", "message"), BROKEN)
def test_a_broken_file_is_told_what_is_wrong_and_where(name, raw, message):
    """One problem, at its place, in words that name the mistake."""
    assert str(refusal(raw, name)) == message


DEEP = [
    ("a.json", b"[" * 10_000, "a.json:1:101"),
    ("a.json", b'{"a":' * 10_000, "a.json:1:501"),
    ("a.json", b"[" * 101 + b"]" * 101, "a.json:1:101"),
    ("a.toml", b"a = " + b"[" * 10_000, "a.toml:1:105"),
    ("a.toml", b"a = " + b"{b = " * 10_000, "a.toml:1:505"),
    ("a.toml", b".".join([b"a"] * 10_000) + b" = 1", "a.toml:1:202"),
    ("a.toml", b"[" + b".".join([b"a"] * 10_000) + b"]", "a.toml:1:203"),
    ("a.yaml", b"[" * 10_000, None),
    ("a.yaml", b"{a: " * 10_000, None),
    ("a.yaml", b"- " * 10_000, "a.yaml:1:201"),
    ("a.yaml", b"? " * 10_000, "a.yaml:1:201"),
    ("a.yaml", b"".join(b" " * level + b"a:\n" for level in range(3_000)), "a.yaml:101:101"),
    ("a.yaml", b"a: &a " + b"[" * 60 + b"]" * 60 + b"\nb: " + b"[" * 60 + b"*a" + b"]" * 60, None),
]


@pytest.mark.parametrize(("name", "raw", "place"), DEEP)
def test_deep_nesting_is_refused_before_anything_recurses(name, raw, place):
    """More than 100 levels are a limit, in all forms and all styles."""
    problem = refusal(raw, name)

    assert (problem.code, problem.message) == ("limit", "nests deeper than 100 levels")
    assert place is None or str(problem.place) == place


def test_a_hundred_levels_are_read():
    """The limit itself is allowed."""
    raw = b"[" * 100 + b"]" * 100

    assert parse(raw, name="a.json").data == parse(raw, name="a.yaml").data
    assert parse(b"a = " + raw[1:-1], name="a.toml").data["a"]


@pytest.mark.parametrize(
    ("name", "head"), [("a.json", b'{"a": '), ("a.toml", b"a = "), ("a.yaml", b"a: ")]
)
def test_a_number_of_too_many_digits_is_a_limit(name, head):
    """Python refuses to read such a number; so do we, with its place."""
    tail = b"}" if name == "a.json" else b""
    problem = refusal(head + b"1" * 5000 + tail, name)

    assert problem.message == "holds a number of more than 4300 digits"
    assert problem.code == "limit"
    assert problem.place.start == len(head)


def test_an_alias_bomb_is_refused():
    """Nine lines that would expand to a billion values."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    problem = refusal("\n".join(lines).encode(), "a.yaml")

    assert problem.code == "limit"
    assert problem.message == "has aliases that expand to more than 100000 values"


def test_long_hostile_texts_take_no_time():
    """Quotes, dots and brackets by the hundred thousand are read in linear time."""
    count = 200_000
    refusal(b'a = "' + b'\\"' * count, "a.toml")
    refusal(b"'''" + b'"""\n' * count, "a.toml")
    refusal(b'{"a": "' + b"\\" * count, "a.json")
    refusal(b'"' * count, "a.json")
    refusal(b"*a " * count, "a.yaml")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "does not exist [syntax]"),
        (lambda path: path.mkdir() or path, "is a directory, not a file [syntax]"),
        (
            lambda path: path.write_bytes(b"x" * (MAX_FILE_BYTES + 1)) and path,
            "is 16 MiB [limit]\n  hint: files of up to 16 MiB are read",
        ),
        (lambda path: path.parent / ("n" * 300), "cannot be read: file name too long [syntax]"),
    ],
)
def test_what_is_no_readable_file_is_one_problem(tmp_path, make, message):
    """Missing, a directory, too large, impossible: a problem that names the file."""
    path = make(tmp_path / "kv.toml")
    with pytest.raises(DocumentError) as caught:
        read(path)

    assert str(caught.value) == f"{path}:1:1: {message}"


def test_a_huge_sparse_file_is_refused_by_its_size(tmp_path):
    """64 MiB are not read to find out that they are too many."""
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    with pytest.raises(DocumentError, match=r"is 64 MiB \[limit\]"):
        read(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero")  # noqa: PTH110
def test_an_endless_device_is_read_no_further_than_the_limit():
    """/dev/zero has no size; reading stops behind the limit."""
    with pytest.raises(DocumentError, match=r"has more than 16 MiB \[limit\]"):
        read("/dev/zero")


def test_a_pipe_is_read(tmp_path):
    """A FIFO, as the shell makes for <(command), is a file like others."""
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b'{"a": 1}',))
    writer.start()
    document = read(path)
    writer.join()

    assert document.data == {"a": 1}


def test_standard_input_is_called_so(monkeypatch):
    """``-`` reads standard input and shows its name."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a = 1\n")))
    document = read("-")

    assert (document.name, document.form, document.data) == ("<stdin>", "toml", {"a": 1})


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.json", b'{"a": {"b": [1, true, "x"]}}'),
        ("a.toml", b"[a]\nb = [1, true, 'x']\n"),
        ("a.toml", b"a = {b = [\n1, true, # c\n 'x',\n],\n}"),
        ("a.yaml", b"a:\n  b: [1, true, x]"),
        ("a.yml", b"a:\n  b:\n  - 1\n  - true\n  - x\n"),
        ("stdin", b'\n{"a": {"b": [1, true, "x"]}}'),
        ("stdin", b"[a]\nb = [1, true, 'x']\n"),
        ("stdin", b"a.b = [1, true, 'x']\n"),
        ("stdin", b"---\na: {b: [1, true, x]}\n"),
        ("stdin", b"{a: {b: [1, true, x]}}"),
    ],
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_every_form_gives_the_same_data(name, raw, bom, newline):
    """By extension or by content, with a byte order mark or without, whatever the line ends."""
    document = parse(bom + raw.replace(b"\n", newline), name=name)

    assert document.data == {"a": {"b": [1, True, "x"]}}
    place = document.place(("a", "b"))
    assert document.raw[place.start : place.end] in (b"b", b'"b"')


def test_dates_stay_text():
    """A date is the text that was written, in TOML and in YAML."""
    toml = parse(
        b"a = 2024-01-01 10:00:00\nb = [{c = 10:30:00}]\nd = '2024-01-01'\n", name="a.toml"
    )
    yaml = parse(b"a: 2024-01-01 10:00:00\n2024-01-01: x", name="a.yaml")

    assert toml.data == {"a": "2024-01-01 10:00:00", "b": [{"c": "10:30:00"}], "d": "2024-01-01"}
    assert yaml.data == {"a": "2024-01-01 10:00:00", "2024-01-01": "x"}


def test_anchors_aliases_and_merges_are_read():
    """Own keys win over merged ones, earlier merges over later ones."""
    raw = b"x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  c: 3\n  <<: [*x, *y]\nw: *x\n"

    assert parse(raw, name="a.yaml").data == {
        "x": {"a": 1, "b": 1},
        "y": {"b": 2, "c": 2},
        "z": {"a": 1, "b": 1, "c": 3},
        "w": {"a": 1, "b": 1},
    }


def test_yaml_that_reads_unlike_it_looks_is_noted():
    """YAML 1.1 has its own idea of these; quoted ones are left alone."""
    raw = b'a: no\nb: 8:30\nc: [1e9, 010, 1_000]\nd: "no"\ne: false\nf: 1.0e+9\ng: !!str no\n'
    notes = parse(raw, name="a.yaml").notes

    assert [str(note).replace("\n  ", " ") for note in notes] == [
        "a.yaml:1:4: a: is written no and read as false [coerced]"
        ' hint: write false, or "no" if the text is meant',
        "a.yaml:2:4: b: is written 8:30 and read as 510 [coerced]"
        ' hint: write 510, or "8:30" if the text is meant',
        'a.yaml:3:5: c[0]: is written 1e9 and read as the text "1e9", not as a number [coerced]'
        " hint: YAML 1.1 wants a point and a sign, as in 1.0e+9; better, write it out",
        "a.yaml:3:10: c[1]: is written 010 and read as 8 [coerced]"
        ' hint: write 8, or "010" if the text is meant',
        "a.yaml:3:15: c[2]: is written 1_000 and read as 1000 [coerced]"
        ' hint: write 1000, or "1_000" if the text is meant',
    ]
    assert {note.severity for note in notes} == {"warning"}


def test_a_yaml_stream_gives_its_documents_with_places_in_the_file():
    """Empty documents, as Helm leaves them, are passed over."""
    raw = b"---\n# nothing\n---\na: 1\n---\n---\nb: {c: 2}\n"
    first, second = parse_all(raw, name="a.yaml")

    assert (first.data, first.index) == ({"a": 1}, 1)
    assert (second.data, second.index) == ({"b": {"c": 2}}, 3)
    assert str(second.place(("b", "c"))) == "a.yaml:7:5"


def test_other_peoples_yaml_is_read_leniently():
    """Keys that are no text and tags that we do not know are theirs to judge."""
    raw = b"on: {1: !Ref x}\nyes: !!python/none ''\n"
    (document,) = parse_all(raw, name="a.yaml", strict=False)

    assert document.data == {"on": {"1": "x"}, "yes": ""}


@given(
    st.binary(max_size=60) | st.text("{}[]:,\"'#&*!|>-?=. \t\nab1<%@`", max_size=60).map(str.encode)
)
def test_any_bytes_give_a_document_or_one_problem(raw):
    """No file makes a traceback."""
    for name in ("a.json", "a.toml", "a.yaml", "a"):
        try:
            documents = parse_all(raw, name=name)
        except DocumentError as error:
            (problem,) = error.problems
            assert 0 <= problem.place.start <= problem.place.end <= len(raw)
        else:
            assert all(isinstance(document, Document) for document in documents)
