"""The real clients accept and reject our documents as the published schemas mean it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.clients.documents import everything, examples, schemas

DOCUMENTS = everything()
MEANT = {asked.name: asked.accepted() for asked in DOCUMENTS}


def verdicts(answers):
    """Name -> whether no problem is left."""
    return {name: not problems for name, problems in answers.items()}


def deprecations(schema):
    """Every deprecation message anywhere in a schema."""
    if isinstance(schema, dict):
        if "deprecationMessage" in schema:
            yield schema["deprecationMessage"]
        schema = [*schema.values()]
    if isinstance(schema, list):
        for part in schema:
            yield from deprecations(part)


def has_null(data):
    """TOML has no word for it."""
    if isinstance(data, (dict, list)):
        return any(map(has_null, data.values() if isinstance(data, dict) else data))
    return data is None


def test_the_examples_are_what_their_folder_says():
    """By the published schema, as the package jsonschema reads it."""
    said = {asked.name: asked.file.parent.name != "invalid" for asked in examples()}

    assert said == {name: MEANT[name] for name in said}


def test_ajv_in_strict_mode_judges_alike(ask):
    """It compiles every schema, knowing the editors' annotations."""
    documents = [{"name": a.name, "schema": a.schema, "data": a.data} for a in DOCUMENTS]

    assert verdicts(ask("ajv", documents)) == MEANT


def test_the_json_service_of_vs_code_judges_alike(ask):
    """A deprecation is a mark of its own kind."""
    documents = [{"name": a.name, "schema": a.schema, "text": a.text(".json")} for a in DOCUMENTS]
    answers = ask("vscode", documents)
    kept = {name: [p for p in found if not p["deprecated"]] for name, found in answers.items()}

    assert verdicts(kept) == MEANT


def test_yaml_language_server_judges_alike(ask):
    """It marks a deprecation like an error, with our text."""
    texts = [(a, a.text(".json", ".yaml")) for a in DOCUMENTS]
    documents = [{"name": a.name, "schema": a.schema, "text": text} for a, text in texts]
    old = {*deprecations([*schemas().values()])}
    answers = ask("yaml", documents)
    kept = {name: [p for p in found if p["message"] not in old] for name, found in answers.items()}

    assert verdicts(kept) == MEANT


def test_taplo_judges_alike(modules, tmp_path):
    """Engine documents, for TOML is theirs; each names its schema on the first line."""
    addresses = {}
    for number, (name, schema) in enumerate(schemas().items()):
        file = tmp_path / f"schema-{number}.json"
        file.write_text(json.dumps(schema))
        addresses[name] = file.as_uri()
    engines = [a for a in DOCUMENTS if "engine" in a.schema and not has_null(a.data)]
    asked = {f"{number}.toml": a for number, a in enumerate(engines)}
    for file, a in asked.items():
        (tmp_path / file).write_text(f"#:schema {addresses[a.schema]}\n{a.toml()}")
    taplo = [modules / "@taplo/cli/dist/cli.js", "lint", "--no-auto-config", "--colors", "never"]
    done = subprocess.run(
        ["node", *taplo, *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    rejected = {*re.findall(r'invalid file .*path="?.*/(\d+\.toml)', done.stderr)}

    assert f"found files total={len(asked)}" in done.stderr
    assert {a.name: file not in rejected for file, a in asked.items()} == {
        a.name: MEANT[a.name] for a in engines
    }


@pytest.mark.parametrize("name", ["kv-engine-1", "kv-engine-2", "kv-transfer", "vllm-config"])
def test_check_jsonschema_judges_alike(name, tmp_path):
    """The examples as they stand, in all three languages; the rest as JSON."""
    files = {}
    for asked in DOCUMENTS:
        if asked.schema == name:
            suffix = asked.file.suffix if asked.file else ".json"
            file = tmp_path / f"{len(files)}{suffix}"
            file.write_text(asked.text(suffix))
            files[str(file)] = asked.name
    schema = tmp_path / "schema.schema"
    schema.write_text(json.dumps(schemas()[name]))
    command = [sys.executable, "-m", "check_jsonschema", "-o", "json", "--schemafile", schema]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    rejected = {files[error["filename"]] for error in result.get("errors", ())}

    assert result.get("parse_errors", []) == []
    assert {n: n not in rejected for n in files.values()} == {n: MEANT[n] for n in files.values()}
