"""Finding transfer configs: what stands where, in files as people write them."""

from __future__ import annotations

import pytest

from kvengine.document.embedded import find
from kvengine.errors import DocumentError
from tests.document.embedded.samples import SAMPLES

NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def offloading(**extra):
    """A config of the offloading connector."""
    outer = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
    return {**outer, "kv_connector_extra_config": extra}


def found(name, text=None):
    """The sources of a sample, or of a text."""
    return find((SAMPLES[name] if text is None else text).encode(), name=name)


def values(value, path=()):
    """Every path below the root, with its value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key), item
        if isinstance(item, (dict, list)):
            yield from values(item, (*path, key))


CONFIGS = {
    "k8s.yaml": [
        ("k8s", offloading(cpu_bytes_to_use=1000)),
        ("k8s", {**NIXL, "engine_id": "$(POD_IP)"}),
        ("k8s", NIXL),
        ("k8s", NIXL),
    ],
    "compose.yaml": [("compose", offloading(cpu_bytes_to_use=100)), ("compose", NIXL)],
    "options.yaml": [("yaml-config", NIXL)],
    "options-text.yaml": [("yaml-config", {**NIXL, "kv_buffer_size": 8 << 30})],
    "run.sh": [("shell", offloading(cpu_bytes_to_use=64 << 30)), ("shell", NIXL)],
    "heredoc.sh": [("shell", offloading(cpu_bytes_to_use="${CPU_BYTES}"))],
    "apply.sh": [("k8s", {**NIXL, "kv_role": "$ROLE"})],
    "configmap.yaml": [("k8s", NIXL), ("yaml-config", NIXL), ("k8s", NIXL)],
    "values.yaml": [
        ("yaml-config", {**NIXL, "kv_connector": "LMCacheConnectorV1"}),
        ("yaml-config", NIXL),
        ("yaml-config", NIXL),
    ],
    "Dockerfile": [("dockerfile", NIXL), ("dockerfile", NIXL)],
    "serve.py": [
        ("python", offloading(cpu_bytes_to_use=4 << 30, é='os.environ["X"]')),
        ("python", NIXL),
        ("python", NIXL),
        ("python", NIXL),
    ],
    "README.md": [("shell", NIXL), ("bare", NIXL), ("yaml-config", NIXL)],
    "vars.env": [("env", NIXL), ("env", None)],
    "pod.json": [("k8s", NIXL)],
    "<stdin>": [("shell", {**NIXL, "kv_connector_extra_config": {"backends": ["LIBFABRIC"]}})],
    "bare.json": [("bare", NIXL)],
    "engine.toml": [("engine", {"schema": 2, "kv_transfer": NIXL})],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_config_is_found_once_and_read_as_vllm_reads_it(name):
    """In order, with what kind of text it came from."""
    assert [(one.origin, one.data) for one in found(name)] == CONFIGS[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_key_and_value_is_placed_in_the_file(name):
    """Through quotes, block scalars, variables and escapes."""
    raw = SAMPLES[name].encode()
    for source in found(name):
        for path, value in values(source.data or {}):
            key, held = source.place(path), source.place(path, key=False)
            if isinstance(path[-1], str):
                assert path[-1].encode() in raw[key.start : key.end]
            if isinstance(value, str):
                assert value.encode() in raw[held.start : held.end]


def test_what_stands_around_a_config_comes_with_it():
    """Image, release, model, flags, variables, label and the path of the text."""
    first, second, third, fourth = found("k8s.yaml")

    assert (first.label, first.image, first.vllm, first.model) == (
        "Deployment prefill vllm",
        "vllm/vllm-openai:v0.28.0",
        "0.28",
        "meta-llama/Llama-3.1-8B",
    )
    assert first.env == {"CPU": "1000", "POD_IP": "$(POD_IP)", "PYTHONHASHSEED": "0"}
    assert first.flags["--tensor-parallel-size"] == "2"
    assert (second.vllm, second.model, second.flags["--block-size"]) == ("0.30", "m", "64")
    assert second.unresolved == (("engine_id",), ("env:POD_IP",))
    assert (third.vllm, fourth.vllm) == (None, None)
    assert fourth.env == {"VLLM_USE_PACKED_HMA_KV_CACHE": "1"}


def test_helm_values_docker_run_and_dockerfiles_name_images_too():
    """In parts, as an argument, or behind options of FROM."""
    assert {one.image for one in found("values.yaml")} == {"vllm/vllm-openai:v0.28.0"}
    assert [one.vllm for one in found("run.sh")] == ["0.30", None]
    assert [one.vllm for one in found("Dockerfile")] == ["0.28", "0.28"]
    assert found("run.sh")[0].env == {"VLLM_NIXL_SIDE_CHANNEL_PORT": "1"}


def test_a_pinned_package_names_the_release():
    """``pip install vllm==...`` in the same script."""
    (source,) = found("x.sh", "pip install 'vllm==0.29.1'\nvllm serve m --kv-offloading-size 4\n")

    assert (source.vllm, source.data, source.flags) == ("0.29", None, {"--kv-offloading-size": "4"})


OUTER = [
    ("k8s.yaml", 0, ("kv_role",), ("spec", "template", "spec", "containers", 0, "args", 0)),
    ("compose.yaml", 0, ("kv_role",), ("services", "one", "command")),
    ("compose.yaml", 1, ("kv_role",), ("services", "two", "command", 1)),
    ("options.yaml", 0, ("kv_role",), ("kv-transfer-config", "kv_role")),
    ("options.yaml", 0, ("flag:--model",), ("flag:--model",)),
    ("configmap.yaml", 1, ("kv_role",), ("data", "config.yaml")),
    ("run.sh", 0, ("kv_role",), ("flag:--kv-transfer-config",)),
    ("vars.env", 0, ("kv_role",), ("env:KV_TRANSFER_CONFIG",)),
    ("bare.json", 0, ("kv_role",), ("kv_role",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "index", "path", "outer"), OUTER)
def test_a_path_in_a_config_is_a_path_of_the_file(name, index, path, outer):
    """Through the file's own document, or the flag or variable of a script."""
    assert found(name)[index].outer_path(path) == outer


def test_flags_and_variables_are_placed_where_they_are_given():
    """Like keys of the config."""
    source = found("k8s.yaml")[0]

    assert str(source.place(("flag:--tensor-parallel-size",))) == "k8s.yaml:16:15"
    assert str(source.place(("env:CPU",))) == "k8s.yaml:21:19"
    assert str(source.place(("kv_connector_extra_config", "cpu_bytes_to_use"), key=False)) == (
        "k8s.yaml:21:19"
    )


def told(name, text):
    """What is said of a text, with severities, when it is read."""
    return [
        (p.severity, str(p).replace("\n  ", " ")) for one in found(name, text) for p in one.problems
    ]


TOLD = [
    (
        "a.sh",
        "vllm serve m --kv-transfer-config {\"kv_connector\":\"A\"}",
        "error",
        "a.sh:1:35: flag:--kv-transfer-config: has lost its double quotes to the shell [syntax]"
        " hint: put single quotes around the JSON, or a backslash before each double quote",
    ),
    (
        "a.sh",
        "vllm serve m --kv-transfer-config '{\"a\": 1 # no\n}'",
        "error",
        "a.sh:1:44: flag:--kv-transfer-config: has a comment, which JSON does not allow [syntax]"
        " hint: remove it",
    ),
    (
        "a.sh",
        "ARGS=\"--kv-transfer-config '{\\\"kv_connector\\\":\\\"A\\\"}'\"\nvllm serve m $ARGS",
        "error",
        "a.sh:1:28: flag:--kv-transfer-config: reaches vLLM with the quotes ' around it [syntax]"
        " hint: quotes that come out of a variable are part of the value; quote where it is used",
    ),
    (
        "a.sh",
        "vllm serve m --kv-transfer-config ''",
        "warning",
        "a.sh:1:14: flag:--kv-transfer-config: is empty, which vLLM takes for no KV transfer at"
        " all, without a message [missing]",
    ),
    (
        "a.sh",
        "A='{\"a\": 1}'; vllm serve m --kv-transfer-config $A",
        "error",
        "a.sh:1:4: flag:--kv-transfer-config: is cut into several arguments at its blanks"
        " [syntax] hint: put quotes around it",
    ),
    (
        "a.sh",
        "vllm serve m --kv-transfer-config $CFG",
        "info",
        "a.sh:1:35: flag:--kv-transfer-config: depends on $CFG, which is not known here"
        " [placeholder]",
    ),
    (
        "a.sh",
        "vllm serve m --kv-transfer-config",
        "error",
        "a.sh:1:14: flag:--kv-transfer-config: has no value [syntax]",
    ),
    (
        "a.env",
        "ARGS=--kv_transfer_config '{\"kv_connector\":\"A\"}'",
        "info",
        "a.env:1:6: flag:--kv-transfer-config: keeps its quotes until a shell reads the variable"
        " once more [syntax]"
        " hint: without quotes and blanks the JSON survives an unquoted variable",
    ),
    (
        "a.yaml",
        "apiVersion: v1\nspec:\n- image: x\n"
        "  args: [--kv-transfer-config, '{\"kv_role\":\"$R\"}']\n",
        "error",
        "a.yaml:4:45: kv_role: holds $R as it is [placeholder]"
        " hint: arguments in a list pass no shell; Kubernetes fills in $(NAME)",
    ),
    (
        "a.yaml",
        "apiVersion: v1\nspec:\n- image: x\n  args:\n"
        "  - --kv-transfer-config {\"kv_role\":\"kv_both\"}\n",
        "error",
        "a.yaml:5:5: flag:--kv-transfer-config: stands in one list entry with its value, which"
        " reaches vLLM as one argument [syntax]"
        " hint: make two entries of it, or put '=' between flag and value",
    ),
    (
        "a.yaml",
        "args:\n- --kv-transfer-config={\"kv_role\": kv_both}\n",
        "error",
        "a.yaml:2:3: flag:--kv-transfer-config: is cut by YAML at the first ': ' and becomes a key"
        " with a value [syntax] hint: put the whole entry in single quotes",
    ),
    (
        "a.json",
        '{"kv_connector": "A", "kv_rank": <rank>}',
        "error",
        "a.json:1:34: kv_rank: still holds the placeholder <rank> [placeholder] hint: fill it in",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "severity", "message"), TOLD)
def test_broken_and_unknown_parts_are_told_at_their_place(name, text, severity, message):
    """In the outer file, in words that name the mistake."""
    assert told(name, text) == [(severity, message)]


def test_yaml_that_cannot_be_read_for_an_unquoted_object_says_so():
    """The usual slip: JSON with blanks in a plain scalar."""
    text = 'args:\n- --kv-transfer-config={"kv_connector": "A","kv_role":"kv_both"}\n'
    with pytest.raises(DocumentError) as caught:
        found("a.yaml", text)

    assert str(caught.value) == (
        "a.yaml:2:44: is not YAML: did not find expected key while parsing a block mapping"
        " [syntax]\n  hint: put the whole entry in single quotes: ': ' in plain text ends a key"
    )


def test_the_later_flag_wins_and_dotted_flags_replace_the_json():
    """As in vLLM's own command line."""
    text = (
        "vllm serve m --kv-transfer-config '{\"a\":1}' --kv_transfer_config='{\"a\":2}'\n"
        "vllm serve m --kv-transfer-config.kv_role kv_both --kv-transfer-config '{\"a\":2}'\n"
    )
    first, second = found("a.sh", text)

    assert (first.data, second.data) == ({"a": 2}, {"kv_role": "kv_both"})
    assert second.flags["--kv-transfer-config"] == '{"a":2}'


def test_branches_are_not_guessed_between_but_each_value_is_looked_at():
    """Two roles in an if: both configs are found, the use of the variable is unknown."""
    text = (
        'if [ "$1" = p ]; then C=\'{"kv_connector":"A"}\'; else C=\'{"kv_connector":"B"}\'; fi\n'
        'vllm serve m --kv-transfer-config "$C"\n'
    )

    assert [one.data for one in found("a.sh", text)] == [
        {"kv_connector": "A"},
        {"kv_connector": "B"},
        None,
    ]


def test_a_yaml_file_that_is_one_text_is_read_as_commands():
    """A fragment of a manifest: the shell has eaten the quotes."""
    text = """ARGS="--kv-transfer-config '{"kv_connector":"A"}'"\n"""

    assert told("a.yaml", text) == [
        (
            "error",
            "a.yaml:1:29: flag:--kv-transfer-config: has lost its double quotes to the shell"
            " [syntax]"
            " hint: put single quotes around the JSON, or a backslash before each double quote",
        )
    ]


PROSE = [
    ("notes.txt", "Pass --kv-transfer-config to vllm serve, it takes --kv-transfer-config JSON.\n"),
    (
        "README",
        "kv_connector: the connector, see vllm serve.\nSo it's --kv-transfer-config then.\n",
    ),
    ("a.md", "Use `--kv-transfer-config '{...}'` and kv_connector.\n"),
    ("a.rst", "kv_connector\n============\n\nvllm serve --kv-transfer-config X\n"),
    ("a.yaml", "description: pass --kv-transfer-config to it\n"),
    ("a.json", '{"text": "kv_connector is a key"}'),
    ("a.py", "# kv_connector\nx = 'kv_transfer_config'\n"),
    ("a.py", "this is kv_connector no python ("),
    ("a.toml", "kv_connector_doc = 'x'\n"),
]


@pytest.mark.parametrize(("name", "text"), PROSE)
def test_prose_and_other_peoples_files_hold_nothing(name, text):
    """Mentioning a flag is not giving it."""
    assert found(name, text) == []


def test_variables_alone_are_kept_when_they_bear_on_kv_transfer():
    """An env file of LMCache has no config, but something to check."""
    (source,) = found("a.sh", "export LMCACHE_EXTRA_CONFIG='{'use_odirect': True}'\n")

    assert (source.data, source.env) == (None, {"LMCACHE_EXTRA_CONFIG": "{use_odirect: True}"})


def test_own_documents_are_read_strictly():
    """A YAML engine document may not have keys that are no text."""
    with pytest.raises(DocumentError, match="and not as text"):
        found("a.yaml", "schema: 2\nkv_transfer: {kv_connector: A}\n1: x\n")
