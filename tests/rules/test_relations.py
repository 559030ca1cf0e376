"""Relations between options: the same verdict in Python and in JSON Schema."""

from __future__ import annotations

import pytest
from attrs import frozen
from jsonschema import Draft7Validator

from kvengine.rules.check import check
from kvengine.rules.jsonschema import object_schema
from kvengine.rules.options import option
from kvengine.rules.relations import AtMostOne, IgnoredUnless, Requires, relations_of, rules
from kvengine.rules.releases import Releases, release


@rules(
    AtMostOne(("host_bytes", "host_blocks"), because="both set the size of the host pool"),
    Requires("eviction", needs=("host_bytes",), because="only a bounded pool evicts"),
    IgnoredUnless("host_blocks", key="eviction", because="the pool grows anyway"),
)
@frozen(kw_only=True)
class Pool:
    """A pool."""

    host_bytes: int | None = option("Bytes.", ge=1, default=None, nullable=True)
    host_blocks: int | None = option("Blocks.", ge=1, default=None, nullable=True)
    eviction: str | None = option("Policy.", default=None, nullable=True)


CASES = [
    ({}, None),
    ({"host_bytes": 1 << 30}, None),
    ({"host_blocks": 64}, None),
    ({"host_bytes": 1 << 30, "host_blocks": 64}, "exclusive"),
    ({"host_blocks": 64, "host_bytes": 1 << 30}, "exclusive"),
    ({"host_bytes": None, "host_blocks": 64}, None),
    ({"host_bytes": 1, "host_blocks": None}, None),
    ({"eviction": "lru"}, "missing"),
    ({"eviction": "lru", "host_bytes": None}, "missing"),
    ({"eviction": None}, None),
    ({"eviction": "lru", "host_bytes": 1 << 30}, None),
]


@pytest.mark.parametrize(("table", "code"), CASES)
def test_both_judges_agree(table, code):
    """The generated schema rejects exactly what the relations reject."""
    accepted = Draft7Validator(object_schema(Pool, "release")).is_valid(table)
    found = check(Pool, table, mode="release", release=release("0.28"))
    codes = [problem.code for problem in found if problem.severity == "error"]

    assert codes == ([code] if code else [])
    assert accepted == (code is None)


def test_the_later_of_two_keys_is_the_problem():
    """The finding stands where the user wrote the second one, and names the first."""
    table = {"host_blocks": 64, "host_bytes": 1}

    found = check(Pool, table, mode="strict", release=release("0.28"))

    assert [str(problem) for problem in found if problem.code == "exclusive"] == [
        "host_bytes: cannot be combined with 'host_blocks' [exclusive]\n"
        "  hint: both set the size of the host pool"
    ]


def test_an_option_without_effect_is_a_warning():
    """IgnoredUnless never refuses."""
    found = check(Pool, {"host_blocks": 64}, mode="strict", release=release("0.28"))

    assert [(problem.severity, str(problem)) for problem in found] == [
        (
            "warning",
            "host_blocks: has no effect unless eviction is given [ignored]\n"
            "  hint: the pool grows anyway",
        )
    ]


def test_a_relation_reads_as_a_sentence():
    """For the reference page."""
    assert [relation.as_sentence() for relation in relations_of(Pool)] == [
        "At most one of host_bytes, host_blocks: both set the size of the host pool.",
        "eviction needs host_bytes: only a bounded pool evicts.",
        "host_blocks is ignored unless eviction says so: the pool grows anyway.",
    ]


def test_a_relation_holds_in_its_releases_only():
    """Before blocks_per_chunk existed nothing excluded it."""

    @rules(AtMostOne(("a", "b"), because="of it", vllm=Releases(since="0.26")))
    @frozen(kw_only=True)
    class Later:
        a: int | None = option("A.", default=None)
        b: int | None = option("B.", default=None)

    both = {"a": 1, "b": 2}

    assert check(Later, both, mode="strict", release=release("0.25")) == []
    assert len(check(Later, both, mode="strict", release=release("0.26"))) == 1


def test_a_subclass_adds_its_relations_behind_those_it_inherits():
    """A spec has the relations of its connector too."""

    @rules(Requires("more", needs=("host_bytes",), because="of it"))
    @frozen(kw_only=True)
    class More(Pool):
        more: int | None = option("More.", default=None)

    assert len(relations_of(More)) == 4
    assert len(relations_of(Pool)) == 3
