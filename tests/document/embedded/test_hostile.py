"""Any input at all: no traceback, no hang, places inside the file."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvengine.document import CannotEdit
from kvengine.document.embedded import find
from kvengine.errors import DocumentError, Put
from tests.document.embedded.samples import SAMPLES

JUNK = [
    "'", '"', '\\', '$', '{', '}', '[', ']', ':', ',', '#', '$(', '${', '`', '<<EOF', '|', '&&',
    'kv_connector', '--kv-transfer-config', '=', '\xe9', '\u2028', '\U0001f600', '*a', '&a',
    '!!x', '<<:', '?', '---', '...', '>', '|-', '$((', '))', "''", '%', '@', '\x07', '<X>',
    '{{a}}', '8G', 'if', 'then', 'fi', 'case', 'esac', '()', '.', '+', 'None', '\n', '\t',
    '\r\n', ' ', '\n  ', '---\n', '\x00',
]  # fmt: skip


@st.composite
def damaged(draw):
    """A sample with pieces cut out, put in, or taken from another sample."""
    name = draw(st.sampled_from(sorted(SAMPLES)))
    text = SAMPLES[name]
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["junk", "cut", "graft"]))
        if kind == "junk":
            text = text[:at] + draw(st.sampled_from(JUNK)) + text[at:]
        elif kind == "cut":
            text = text[:at] + text[at + draw(st.integers(1, 12)) :]
        else:
            other = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
            start = draw(st.integers(0, len(other)))
            text = text[:at] + other[start : start + draw(st.integers(1, 200))] + text[at:]
    return draw(st.sampled_from([name, "<stdin>", "x.sh", "x.yaml", "x.env", "x.py"])), text


@settings(max_examples=400)
@given(damaged())
def test_damaged_files_are_read_without_a_traceback(sample):
    """Every finding, every place and every edit stays inside the file."""
    name, text = sample
    raw = text.encode()
    try:
        sources = find(raw, name=name)
    except DocumentError as refused:
        _is_one_problem(refused)
        return
    for source in sources:
        places = [problem.place for problem in source.problems]
        for path in ((), ("kv_role",), ("a", 0), ("flag:--kv-transfer-config",), ("env:X",)):
            places += [source.place(path), source.place(path, key=False)]
            source.outer_path(path)
        assert all(0 <= place.start <= place.end <= len(raw) for place in places)
        try:
            source.edits([Put(("kv_role",), "kv_both")])
        except CannotEdit:
            continue


def _is_one_problem(error):
    assert len(error.problems) == 1


CONFIG = '{"kv_connector":"A"}'
COMMAND = f"vllm serve m --kv-transfer-config '{CONFIG}'\n"
DOUBLING = "".join(f"- {{name: A{n}, value: '$(A{n - 1})$(A{n - 1})'}}\n" for n in range(1, 300))
COUNT = 20_000
HOSTILE = {
    "quotes.sh": "kv_connector " + "'\"" * COUNT,
    "subst.sh": "kv_connector " + "$(" * COUNT,
    "braces.sh": "kv_connector " + "${a:-" * COUNT,
    "double.sh": "kv_connector " + '"$(' * COUNT,
    "sums.sh": "kv_connector " + "$((" * COUNT,
    "doubling.sh": "A=kv_connector\n" + "A=$A$A\n" * 200 + "vllm serve --kv-transfer-config $A",
    "heredocs.sh": "kv_connector\n" + "cat <<E\n" * COUNT,
    "holes.sh": 'vllm serve --kv-transfer-config "{' + "$A," * COUNT + '}"',
    "gaps.sh": "vllm serve --kv-transfer-config '{" + "...," * COUNT + "}'",
    "slashes.sh": "vllm serve --kv-transfer-config '{" + "\\" * COUNT + "\"}'",
    "nested.sh": "vllm serve --kv-transfer-config '" + "[" * COUNT + "'",
    "variables.sh": "".join(f"export A{n}={n}\n" for n in range(2_000)) + COMMAND * 100,
    "env.yaml": "apiVersion: v1\nenv:\n" + DOUBLING + "args: [--kv-transfer-config, $(A299)]\n",
    "parentheses.py": "kv_transfer_config = " + "(" * COUNT,
    "minus.py": "kv_transfer_config = " + "-" * COUNT + "1",
    "fences.md": "kv_connector\n" + "```bash\nx\n" * COUNT,
    "Dockerfile": "kv_connector\n" + "ENV A=\\\n" * COUNT,
    "prose": "kv_connector " + "word " * COUNT,
    "colons": "kv_connector: " + "a: " * COUNT,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_no_time(name):
    """Nothing is quadratic, nothing recurses without bound, variables do not explode."""
    start = time.process_time()
    try:
        find(HOSTILE[name].encode(), name=name)
    except DocumentError as refused:
        _is_one_problem(refused)
    assert time.process_time() - start < 5


def test_a_file_has_no_more_than_a_thousand_configs():
    """Then nobody looks at them any more."""
    assert len(find((COMMAND * 1_100).encode(), name="a.sh")) == 1_000


def test_a_script_beyond_the_limit_is_refused():
    """Scripts are read character by character; one MiB is plenty."""
    text = "# kv_connector\n" + "x" * (1 << 20)
    with pytest.raises(DocumentError) as caught:
        find(text.encode(), name="a.sh")

    assert str(caught.value) == (
        "a.sh:1:1: has 1048591 characters [limit]\n  hint: scripts of up to 1 MiB are read"
    )
