"""Conditions on a table: the same verdict in Python and in JSON Schema."""

from __future__ import annotations

import pytest
from jsonschema import Draft7Validator

from kvengine.rules.conditions import (
    Absent,
    AnyMatches,
    AnyUnlike,
    AtLeast,
    Filled,
    Given,
    HasItem,
    In,
    LacksItem,
    Matches,
    NotIn,
    On,
    Several,
    Unlike,
    all_of,
)

TABLES = [
    {},
    {"a": 0},
    {"a": 1},
    {"a": 2},
    {"a": 7.5},
    {"a": True},
    {"a": False},
    {"a": ""},
    {"a": "x"},
    {"a": "lru"},
    {"a": "a.b"},
    {"a": []},
    {"a": ["x", "a.b"]},
    {"a": ["x"]},
    {"a": [{"t": "p2p"}]},
    {"a": [{"t": "fs"}, 3]},
    {"a": {}},
    {"a": {"x": 1}},
    {"b": 1},
]
CONDITIONS = [
    Given("a"),
    Absent("a"),
    In("a", ("lru", 1)),
    In("a", ("lru",), when_absent=True),
    NotIn("a", ("lru", 2)),
    On("a"),
    Filled("a"),
    AtLeast("a", 2),
    Matches("a", r"\."),
    Unlike("a", r"\."),
    AnyMatches("a", r"\."),
    AnyUnlike("a", r"\."),
    Several("a"),
    HasItem("a", "t", ("p2p",)),
    LacksItem("a", "t", ("p2p",)),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_both_judges_agree(condition, table):
    """Whatever the table holds."""
    if table == {"a": True} and isinstance(condition, (In, AtLeast)):
        pytest.skip("a boolean never reaches a rule about numbers: it has been converted")

    schema = all_of((condition,), frozenset())

    assert Draft7Validator(schema).is_valid(table) == condition.holds(table)


@pytest.mark.parametrize(
    ("text", "holds"), [("1", False), ("2", True), ("10", True), ("0_2", True)]
)
def test_a_number_in_a_text_counts_for_the_schema(text, holds):
    """The engine converts it, and the check has done so before it asks."""
    schema = all_of((AtLeast("a", 2),), frozenset())

    assert Draft7Validator(schema).is_valid({"a": text}) == holds


@pytest.mark.parametrize("condition", [Given("a"), Absent("a"), NotIn("a", ("x",))], ids=repr)
def test_a_null_that_is_no_choice_counts_as_absent(condition):
    """The check leaves it out of the table, the schema says so."""
    schema = all_of((condition,), frozenset({"a"}))

    assert Draft7Validator(schema).is_valid({"a": None}) == condition.holds({})
