"""Declarations -> JSON Schema, compared whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from kvengine.rules.jsonschema import object_schema
from kvengine.rules.options import Deprecated, option, own_keys
from kvengine.rules.readings import IntCall, Truth
from kvengine.rules.relations import AtMostOne, rules


@own_keys("^x-")
@frozen(kw_only=True)
class Tier:
    """A tier."""

    type: Literal["disk", "host"] = option("Kind of tier.", examples=("disk",))


@rules(AtMostOne(("blocks", "tokens"), because="both size a chunk"))
@frozen(kw_only=True)
class Store:
    """Where chunks go.

    Not part of the schema.
    """

    blocks: int | None = option(
        "Blocks per chunk.", unit="blocks", ge=1, default=None, default_text="1", reading=IntCall()
    )
    tokens: int | None = option("Tokens per chunk.", unit="tokens", ge=1, default=None)
    lazy: bool = option(
        "Store late.", default=False, reading=Truth(), deprecated=Deprecated(use="eager")
    )
    tiers: Sequence[Tier] = option("Tiers in order.", factory=list)


STORE = {
    "type": "object",
    "description": "Where chunks go.",
    "properties": {
        "blocks": {
            "description": "Blocks per chunk. Unit: blocks. Default: 1.",
            "type": "integer",
            "minimum": 1,
        },
        "tokens": {
            "description": "Tokens per chunk. Unit: tokens. Default: none.",
            "type": "integer",
            "minimum": 1,
        },
        "lazy": {
            "description": "Store late.",
            "type": "boolean",
            "default": False,
            "deprecated": True,
            "deprecationMessage": "use eager instead",
        },
        "tiers": {
            "description": "Tiers in order.",
            "type": "array",
            "items": {"$ref": "#/definitions/Tier"},
            "default": [],
        },
    },
    "additionalProperties": False,
    "allOf": [
        {
            "dependencies": {
                "blocks": {
                    "properties": {
                        "tokens": {
                            "not": {},
                            "errorMessage": "cannot be combined with 'blocks': both size a chunk",
                        }
                    }
                }
            }
        }
    ],
    "definitions": {
        "Tier": {
            "type": "object",
            "description": "A tier.",
            "properties": {
                "type": {
                    "description": "Kind of tier.",
                    "enum": ["disk", "host"],
                    "examples": ["disk"],
                }
            },
            "required": ["type"],
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
        }
    },
}


def test_a_strict_schema_states_types_bounds_and_relations():
    """Every fact of a declaration that JSON Schema has a word for is there."""
    assert object_schema(Store) == STORE


def test_a_schema_of_shapes_leaves_the_relations_out():
    """The checker judges relations itself."""
    shapes = {key: value for key, value in STORE.items() if key != "allOf"}

    assert object_schema(Store, relations=False) == shapes


def test_a_bare_config_may_hold_what_vllm_converts():
    """int() takes texts of digits, bool() everything; a no that reads as yes is refused."""
    properties = object_schema(Store, "release")["properties"]

    assert properties["blocks"]["type"] == ["number", "string", "boolean"]
    assert properties["lazy"]["not"]["type"] == "string"


def test_documents_of_schema_1_may_write_booleans_as_text():
    """Only true and false, in any case."""
    lazy = object_schema(Store, "old")["properties"]["lazy"]

    assert lazy["type"] == ["boolean", "string"]
    assert lazy["pattern"] == "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"
