"""``kvengine schema``: what is published, and regenerating it."""

from __future__ import annotations

import json

import pytest

from kvengine.config.published import NAMES, schema_folder


def test_without_a_name_all_are_listed(run):
    """One a line."""
    assert run("schema") == (0, "".join(f"{name}\n" for name in NAMES), "")


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_printed_as_published(run, name):
    """To the byte."""
    ran = run("schema", name)

    assert ran == (0, (schema_folder() / f"{name}.json").read_text("utf-8"), "")
    assert json.loads(ran.out)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_an_unknown_schema_is_wrong_usage(run):
    """The known ones are named."""
    ran = run("schema", "kv-engine-9")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("kvengine: schema: there is no kv-engine-9; known are kv-engine-1, ")


def test_a_released_schema_is_never_written(run):
    """--write refuses it."""
    assert run("schema", "kv-engine-1", "--write") == (
        2,
        "",
        "kvengine: schema: kv-engine-1 is released and frozen, it is never written again\n",
    )
