"""Names that stand for classes, release by release."""

from __future__ import annotations

import sys

import pytest
from attrs import frozen

from kvengine.rules.check import check
from kvengine.rules.options import Variant, open_keys, option, tagged
from kvengine.rules.registry import Named, Registry, named
from kvengine.rules.releases import KNOWN, NEVER, Releases, Renamed, release

HERE = "tests.rules.test_registry"


@frozen(kw_only=True, slots=False)
class Disk:
    """A disk."""

    type: str = option("Which.", examples=("disk",))
    path: str = option("Where.", examples=("/a",))


@frozen(kw_only=True, slots=False)
class Net:
    """A network."""

    type: str = option("Which.", examples=("net",))
    host: str = option("Where.", examples=("a",))


@frozen(kw_only=True, slots=False)
class Other:
    """Somebody else's."""

    type: str = option("Which.", examples=("mine",))
    module: str | None = option("Module.", default=None, examples=("my.module",))
    values: dict[str, object] = open_keys()


KINDS = Registry(
    {
        "disk": Named(
            at=f"{HERE}:Disk",
            vllm=Releases(since="0.23"),
            was=(Renamed("disk_py", Releases(since="0.22", until="0.23")),),
        ),
        "net": Named(at=f"{HERE}:Net", vllm=Releases(until="0.24"), instead="disk"),
        "late": Named(at=f"{HERE}:Net", vllm=Releases(since="0.30")),
        "plug": Named(at=f"{HERE}:Other", origin="a plugin"),
        "never": Named(at=f"{HERE}:Net", vllm=NEVER, because="it belongs elsewhere"),
    }
)


@tagged(
    Variant(
        tag="type",
        classes=KINDS,
        otherwise=Other,
        open_with="module",
        closed=True,
        kind="tier",
    )
)
@frozen(kw_only=True, slots=False)
class Tier:
    """A tier."""


def findings(table, wanted="0.28"):
    found = check(Tier, table, mode="release", release=wanted and release(wanted))
    return [(problem.severity, problem.code, problem.message) for problem in found]


DISK = {"type": "disk", "path": "/a"}
NET = {"type": "net", "host": "a"}


@pytest.mark.parametrize(
    ("table", "wanted", "said"),
    [
        (DISK, "0.28", []),
        (DISK, "0.22", [("error", "renamed", 'is called "disk_py" in vLLM 0.22')]),
        ({**DISK, "type": "disk_py"}, "0.22", []),
        (
            {**DISK, "type": "disk_py"},
            "0.23",
            [("error", "renamed", 'is called "disk" in vLLM 0.23')],
        ),
        (NET, "0.23", []),
        (
            NET,
            "0.24",
            [("error", "removed", "is no tier of vLLM 0.24 any more (vLLM has it before 0.24)")],
        ),
        (
            {**NET, "type": "late"},
            "0.29",
            [("error", "choice", "is not in vLLM 0.29 yet (vLLM has it since 0.30)")],
        ),
        ({**NET, "type": "never"}, "0.28", [("error", "choice", "is no tier of vLLM 0.28")]),
        ({"type": "dsk"}, "0.28", [("error", "choice", "is no tier of vLLM 0.28")]),
        (
            {"type": "plug"},
            "0.28",
            [("info", "unchecked", "is a tier of a plugin, not of vLLM: its keys are not checked")],
        ),
        (
            {"type": "mine", "module": "my.module", "any": 1},
            "0.28",
            [("info", "unchecked", "leads to a tier outside vLLM: its keys are not checked")],
        ),
        (DISK, None, []),
        ({**DISK, "type": "disk_py"}, None, []),
        (NET, None, []),
        ({**NET, "type": "never"}, None, [("error", "choice", "is no tier of vLLM")]),
    ],
)
def test_a_name_is_judged_by_the_release(table, wanted, said):
    """Known, renamed, removed, not there yet, unknown, another package's, the user's own."""
    assert findings(table, wanted) == said


def test_a_wrong_name_is_mended():
    """A rename is certain, a likely meaning is not."""
    (renamed,) = check(Tier, {**DISK, "type": "disk_py"}, mode="release", release=release("0.28"))
    (likely,) = check(Tier, {"type": "dsk"}, mode="release", release=release("0.28"))

    assert renamed.fix is not None
    assert (renamed.fix.title, renamed.fix.safe) == ('write "disk"', True)
    assert likely.fix is not None
    assert (likely.fix.title, likely.fix.safe) == ('write "disk"', False)
    assert likely.hint == 'did you mean "disk"? one outside vLLM needs module'


def test_a_class_is_imported_when_asked_for(monkeypatch):
    """Looking a name up costs nothing."""
    lazy = Registry({"x": Named(at="html.parser:HTMLParser")})
    monkeypatch.delitem(sys.modules, "html.parser", raising=False)

    assert "x" in lazy
    assert lazy.facts("x").vllm == Releases()
    assert "html.parser" not in sys.modules
    assert lazy["x"].__name__ == "HTMLParser"


def test_an_earlier_name_leads_to_the_same_class():
    """And to today's name."""
    assert KINDS["disk_py"] is KINDS["disk"]
    assert KINDS.today("disk_py") == "disk"
    assert [str(one) for one in KNOWN if KINDS.valid("disk_py", one)] == ["0.22"]
    assert named({"plain": Disk}, "plain") is None


@pytest.mark.parametrize(
    ("module", "inside"),
    [("kvbm", True), ("kvbm.connector", True), ("kvbmx", False), ("other.kvbm", False)],
)
def test_a_module_path_belongs_to_a_package_by_its_first_parts(module, inside):
    """Not by its first letters."""
    assert Named(at="a:B", modules=("kvbm",)).lives_in(module) is inside
