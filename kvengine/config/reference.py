"""The pages of ``docs/reference``, made from the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kvengine.rules.reference import anchor, table_section
from kvengine.rules.registry import Registry
from kvengine.rules.releases import ALWAYS, KNOWN

__all__ = ["PAGES", "page"]

_NOTE = "<!-- Made from the declarations by scripts/write_reference.py: do not edit. -->"


def _head(title: str, text: str) -> Iterator[str]:
    yield _NOTE
    yield ""
    yield f"# {title}"
    yield ""
    yield text
    yield ""


def _engine() -> Iterator[str]:
    from kvengine.config.engine import Config
    from kvengine.rules.shapes import fields_of

    yield from _head(
        "Engine document",
        "What `schema = 2` documents hold. Keys that begin with `x-` are your own in every table"
        " but `kv_transfer`.",
    )
    yield from table_section("Top level", Config)
    for name, field in fields_of(Config).items():
        if field.shape.table is not None and name != "kv_transfer":
            yield from table_section(name, field.shape.table)


def _transfer() -> Iterator[str]:
    from kvengine.config.transfer import Child, KVTransferConfig

    yield from _head(
        "Transfer config",
        f"The object that vLLM's `--kv-transfer-config` takes, for vLLM {KNOWN[0]} to {KNOWN[-1]}."
        " What `kv_connector_extra_config` may hold depends on the connector:"
        " [connectors](connectors.md).",
    )
    yield from table_section("KVTransferConfig", KVTransferConfig)
    yield from table_section("A child of MultiConnector", Child)


def _named(registry: Registry, *, level: int = 2) -> Iterator[str]:
    """A section for every class of a registry, under all of its names."""
    by_place: dict[str, list[str]] = {}
    for name in registry:
        by_place.setdefault(registry.facts(name).at, []).append(name)
    for names in by_place.values():
        today = [name for name in names if registry.today(name) == name]
        if not any(registry.facts(name).vllm.known for name in today):
            continue
        yield from table_section(", ".join(today), registry[today[0]], level=level)
        for name in today:
            facts = registry.facts(name)
            if facts.vllm != ALWAYS:
                yield f"`{name}`: vLLM {facts.vllm}."
                yield ""
            for old in facts.was:
                yield f"`{name}` was called `{old.name}` {old.vllm}."
                yield ""


def _connectors() -> Iterator[str]:
    from kvengine.config.connectors import CONNECTORS, OUTSIDE
    from kvengine.config.connectors.mooncake_store import MooncakeFile
    from kvengine.config.connectors.offloading import OUTSIDE_SPECS, SPECS
    from kvengine.rules.options import variant_of

    yield from _head(
        "Connectors",
        "What `kv_connector_extra_config` holds, by connector. Keys that begin with `x-` are your"
        " own.",
    )
    plain = {
        name: CONNECTORS.facts(name)
        for name in CONNECTORS
        if CONNECTORS.today(name) == name
        and not CONNECTORS.facts(name).origin
        and variant_of(CONNECTORS[name]) is None
    }
    yield "## OffloadingConnector"
    yield ""
    yield "Its keys depend on `spec_name`."
    yield ""
    yield from _named(SPECS, level=3)
    yield from _named(Registry(plain))
    yield from table_section("The file of MooncakeStoreConnector", MooncakeFile)
    yield "## Connectors of other packages"
    yield ""
    yield "What is known of them; the rest passes."
    yield ""
    yield from _named(OUTSIDE_SPECS, level=3)
    yield from _named(OUTSIDE, level=3)


def _tiers() -> Iterator[str]:
    from kvengine.config.tiers import OWN_TIERS, TIERS
    from kvengine.config.tiers.backpressure import EMABackpressure
    from kvengine.config.tiers.kvcr import KvcrDisk
    from kvengine.config.tiers.obj import ObjectStore

    yield from _head("Secondary tiers", "What an element of `secondary_tiers` holds, by its type.")
    yield "## Tiers of vLLM (TieringOffloadingSpec)"
    yield ""
    yield from _named(TIERS, level=3)
    yield from table_section("store_config of an obj tier", ObjectStore, level=3)
    yield from table_section("g3 of a kvcr tier", KvcrDisk, level=3)
    yield from table_section("backpressure", EMABackpressure, level=3)
    yield "## Tiers of kvengine (KVEngineOffloadingSpec)"
    yield ""
    yield from _named(OWN_TIERS, level=3)


def _command_line() -> Iterator[str]:
    from kvengine.config.command_line import Flags
    from kvengine.config.environment import Variables

    yield from _head("Flags and environment", "What bears on KV transfer beside the config.")
    yield from table_section("Flags", Flags)
    yield from table_section("Environment variables", Variables)


def _issues() -> Iterator[str]:
    from kvengine.config.advisories import advisories

    yield from _head(
        "Known issues",
        "Faults of releases and combinations that no single option can know, reported by"
        " `kvengine check`.",
    )
    for one in advisories():
        yield f"- **{one.id}** (`{one.code}`, {one.severity}; vLLM: {one.vllm}), at `{one.at}`:"
        yield f"  {one.says}." + (f" {one.hint[0].upper()}{one.hint[1:]}." if one.hint else "")
        if one.link:
            yield f"  <{one.link}>"
    yield ""


def _codes() -> Iterator[str]:
    from kvengine.rules.codes import CODES

    yield from _head("Problem codes", "Stable words to match on, in `--select` and `--ignore` too.")
    for code in CODES.values():
        yield f"## {code.name}"
        yield ""
        yield code.means
        yield ""
        yield f"    {code.example}"
        yield ""
        yield code.mend
        yield ""


_MAKERS: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "engine-document": ("Engine document", _engine),
    "transfer-config": ("Transfer config", _transfer),
    "connectors": ("Connectors", _connectors),
    "tiers": ("Secondary tiers", _tiers),
    "flags-and-environment": ("Flags and environment", _command_line),
    "known-issues": ("Known issues", _issues),
    "codes": ("Problem codes", _codes),
}


def _index() -> Iterator[str]:
    yield from _head("Reference", "Everything here is read off the declarations in the code.")
    for name, (title, make) in _MAKERS.items():
        yield f"- [{title}]({name}.md)"
        for line in make():
            if line.startswith("## "):
                yield f"  - [{line[3:]}]({name}.md#{anchor(line[3:])})"
    yield ""


PAGES = ("README", *_MAKERS)
"""The pages, each a file ``docs/reference/NAME.md``."""


def page(name: str) -> str:
    """The text of one page."""
    lines = _index() if name == "README" else _MAKERS[name][1]()
    return "\n".join(lines).rstrip() + "\n"
