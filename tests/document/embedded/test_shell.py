"""Shell text: what each command gets, and where each character of it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvengine.document.embedded.shell import read_shell
from kvengine.document.embedded.strand import Strand


def commands(text):
    """The words of each command, without those that only declare variables."""
    return [[word.text for word in one.words] for one in read_shell(Strand.of(text)).commands]


WORDS = [
    ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
    ("a b # c\nd#e", [["a", "b"], ["d#e"]]),
    ("a \\\n  b\\\nc", [["a", "bc"]]),
    ("a \\\r\n b\r\n", [["a", "b"]]),
    ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    ("a >x 2>&1 <y &>z b", [["a", "b"]]),
    ("a '' \"\"", [["a", "", ""]]),
    ("a 'x'\"y\"z", [["a", "xyz"]]),
    (r"a $'b\n\'c'", [["a", "b\n'c"]]),
    (r'a "\$x \"q\" \n \\"', [["a", '$x "q" \\n \\']]),
    ("V='x y'; a $V \"$V\" '$V' ${V}z", [["a", "x", "y", "x y", "$V", "x", "yz"]]),
    ("V=' x '; a b${V}c", [["a", "b", "x", "c"]]),
    ("a ${V:-d} ${V-'e f'} ${V:=\"g\"}", [["a", "d", "e", "f", "g"]]),
    ("V=1; a ${V:-d}", [["a", "1"]]),
    ("A=(x 'y z' # no\n w); A+=(v); a \"${A[@]}\" $A", [["a", "x", "y z", "w", "v", "x"]]),
    ("V=x; V+=y; a $V", [["a", "xy"]]),
    ("N=64; a $((N * 1024 ** 3)) $(( 7 / 2 )) $((-7/2))", [["a", "68719476736", "3", "-3"]]),
    ('V=$(cat <<E\nx $W\nE\n)\na "$V"', [["cat"], ["a", "x $W"]]),
    ("V=$(echo 'x y'); a \"$V\"", [["echo", "x y"], ["a", "x y"]]),
    ("if [ $R ]; then V=1; a $V; else V=2; fi; a $V", [["[", "$R", "]"], ["a", "1"], ["a", "$V"]]),
    ("V=1; [ $R ] && V=2; a $V", [["[", "$R", "]"], ["a", "$V"]]),
    ("V=1; if x; then y; fi; a $V", [["x"], ["y"], ["a", "1"]]),
    ("for x in 1 2; do a $x; done", [["x", "in", "1", "2"], ["a", "$x"]]),
    ("f() { a $1; }", [["f"], ["a", "$1"]]),
    ("a <MODEL> <b>c", [["a", "<MODEL>"]]),
    ("a $(b | c) `d`", [["b"], ["c"], ["a", "$(b | c)", "`d`"]]),
]


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words_are_what_the_shell_makes_of_them(text, expected):
    """Quotes are off, known variables are in, unknown ones stay as they are written."""
    assert commands(text) == expected


def test_what_is_not_known_is_a_hole():
    """An unknown part keeps its text and its name, also inside of other text."""
    (command,) = read_shell(Strand.of('a "x${V}y" $(( Q + 1 )) ${#L}')).commands

    assert [[hole.name for hole in word.holes] for word in command.words] == [
        [],
        ["${V}"],
        ["$(( Q + 1 ))"],
        ["${#L}"],
    ]


def test_a_command_sees_exported_variables_only():
    """An assignment alone stays in the shell; export, set -a and a prefix hand it on."""
    text = "A=1\nexport B=2 C\nD=4 a\nexport A\nb\nset -a\nE=5\nc"
    seen = {
        one.words[0].text: {name: value.text for name, value in one.env.items()}
        for one in read_shell(Strand.of(text)).commands
    }

    assert seen["a"] == {"B": "2", "D": "4"}
    assert seen["b"] == {"A": "1", "B": "2"}
    assert seen["c"] == {"A": "1", "B": "2", "E": "5"}


def test_here_documents_belong_to_their_command():
    """Quoted delimiters keep the text, others fill variables in; <<- takes tabs."""
    text = "V=1\na <<X <<'Y' | b <<-Z\n$V \\$V\nX\n$V\nY\n\t$V\n\tZ\nc"
    found = read_shell(Strand.of(text)).commands

    assert [[text.text for text in one.heredocs] for one in found] == [
        ["1 $V\n", "$V\n"],
        ["\t1\n"],
        [],
    ]


SCRIPT = """V="a\\"b" W='c d'; x "$V-$W" e\\ f $'g\\t' "$(cat <<E
h $V
E
)" ${U:-"i j"}
"""


def test_each_character_stands_where_it_was_written():
    """Through quotes, escapes, variables and here-documents."""
    for command in read_shell(Strand.of(SCRIPT)).commands:
        for word in command.words:
            for char, start, end in zip(word.text, word.starts, word.ends, strict=True):
                assert SCRIPT[start:end] in (char, "\\" + char, "\\t")


@given(st.text("aV=$(){}[]<>'\"\\`;&|# \n+-/@!:0E", max_size=60))
def test_any_text_is_read_to_its_end(text):
    """Unclosed quotes, stray operators and nonsense make no traceback and no hang."""
    for command in read_shell(Strand.of(text)).commands:
        for word in (*command.words, *command.heredocs):
            assert len(word.text) == len(word.starts) == len(word.ends) == len(word.contexts)
            places = zip(word.starts, word.ends, strict=True)
            assert all(0 <= start <= end <= len(text) for start, end in places)
