"""Two engines that hand KV cache to each other: what must agree, and what must differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from kvengine.config.flags import flag
from kvengine.errors import Path, Problem, show
from kvengine.rules.releases import NEWEST, Release, Releases

__all__ = ["Engine", "check_pair"]

_EXTRA = "kv_connector_extra_config"
_NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
_PULLS = ("NixlConnector", "NixlPullConnector")
_SAME_KEYS = (
    "enable_cross_layers_blocks",
    "kv_lease_duration",
    "enforce_handshake_compat",
    "mooncake_protocol",
    "bidirectional_kv_xfer",
    "canonical_layout",
)
_SAME_FLAGS = ("--kv-cache-dtype", "--block-size", "--dtype", "--prefix-caching-hash-algo")
_EQUAL_SIZES = Releases(until="0.22")
_PORTS = {
    "NixlConnector": ("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600"),
    "MooncakeConnector": ("VLLM_MOONCAKE_BOOTSTRAP_PORT", "8998"),
}


@frozen(kw_only=True)
class Engine:
    """One engine of a pair: its transfer config, and what it is started with."""

    config: Mapping[str, Any]
    flags: Mapping[str, Any] = field(factory=dict)
    env: Mapping[str, str] = field(factory=dict)
    host: str = ""
    """Where it runs, if that is known: engines of one host share its ports."""
    traits: frozenset[str] = frozenset()
    kv_heads: int | None = None
    """Key/value heads of the model, if they are known."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """The extra config."""
        extra = self.config.get(_EXTRA)
        return extra if isinstance(extra, Mapping) else {}

    def movers(self) -> dict[str, tuple[Path, Mapping[str, Any]]]:
        """Name -> path and config of the connectors, its children included."""
        found: dict[str, tuple[Path, Mapping[str, Any]]] = {}
        name = self.config.get("kv_connector")
        children = self.extra.get("connectors")
        if isinstance(children, list) and name != "P2pNcclConnector":
            for index, child in enumerate(children):
                if isinstance(child, Mapping) and isinstance(child.get("kv_connector"), str):
                    found[child["kv_connector"]] = ((_EXTRA, "connectors", index), child)
        elif isinstance(name, str):
            found[name] = ((), self.config)
        return found


def check_pair(one: Engine, other: Engine, *, release: Release = NEWEST) -> list[Problem]:
    """What stands between two engines; paths lead through the config of ``other``."""
    return [
        *_sizes(one, other, release),
        *_roles(one, other),
        *_connectors(one, other),
        *_identity(one, other),
        *_ports(one, other),
        *_agreement(one, other),
    ]


def _roles(one: Engine, other: Engine) -> Iterator[Problem]:
    first, second = one.config.get("kv_role"), other.config.get("kv_role")
    if first == second and first in ("kv_producer", "kv_consumer"):
        says = f"is {show(second)} on both sides: nobody takes what the other hands out"
        yield Problem("conflict", ("kv_role",), says, "one side is the other's opposite")


def _transfers(engine: Engine) -> set[str]:
    names = engine.movers().keys() - {"OffloadingConnector", "SimpleCPUOffloadConnector"}
    return {"NixlConnector" if name in _PULLS else name for name in names}


def _connectors(one: Engine, other: Engine) -> Iterator[Problem]:
    first, second = _transfers(one), _transfers(other)
    if first and second and first.isdisjoint(second):
        says = f"is {', '.join(sorted(second))} here and {', '.join(sorted(first))} there"
        hint = "both engines of a pair need the same connector"
        yield Problem("conflict", ("kv_connector",), says, hint)


def _identity(one: Engine, other: Engine) -> Iterator[Problem]:
    name = other.config.get("engine_id")
    if name is not None and name == one.config.get("engine_id"):
        says = f"is {show(name)} on both sides"
        yield Problem("conflict", ("engine_id",), says, "leave it out, or give each its own")
    seeds = one.env.get("PYTHONHASHSEED"), other.env.get("PYTHONHASHSEED")
    if None not in seeds and seeds[0] != seeds[1]:
        says = f"is {seeds[1]} here and {seeds[0]} there: hashes do not match"
        yield Problem("conflict", ("env:PYTHONHASHSEED",), says, "give both the same")


def _sizes(one: Engine, other: Engine, release: Release) -> Iterator[Problem]:
    """Tensor parallel sizes that NIXL of old could not pair."""
    sizes = [_number(flag(engine.flags, "--tensor-parallel-size")) for engine in (one, other)]
    both = _transfers(one) & _transfers(other)
    if sizes[0] == sizes[1] or release not in _EQUAL_SIZES or "NixlConnector" not in both:
        return
    at: Path = ("flag:--tensor-parallel-size",)
    hint = "use the same size on both sides, or a newer release"
    if other.kv_heads is not None and max(sizes) > other.kv_heads:
        says = (
            f"is {sizes[1]} here and {sizes[0]} there, with {other.kv_heads} KV heads: the larger"
            " one repeats heads, which NIXL cannot pair"
        )
        yield Problem("conflict", at, says, hint)
    if "mamba" in one.traits | other.traits:
        says = f"is {sizes[1]} here and {sizes[0]} there: the block sizes of this model differ then"
        yield Problem("conflict", at, says, hint)


def _number(text: Any) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        return 1


def _ports(one: Engine, other: Engine) -> Iterator[Problem]:
    shared = _transfers(one) & _transfers(other)
    if not one.host or not other.host:
        return
    if one.host != other.host:
        if "NixlConnector" in shared and "VLLM_NIXL_SIDE_CHANNEL_HOST" not in other.env:
            says = (
                "is not set: the handshake listens on localhost, and the other engine is elsewhere"
            )
            hint = "set it to an address of this machine, such as status.podIP"
            yield Problem("conflict", ("env:VLLM_NIXL_SIDE_CHANNEL_HOST",), says, hint)
        return
    for connector, (name, default) in _PORTS.items():
        ports = one.env.get(name, default), other.env.get(name, default)
        if connector in shared and ports[0] == ports[1]:
            says = f"is {ports[1]} for two engines of one machine"
            yield Problem("conflict", (f"env:{name}",), says, "give each its own port")


def _agreement(one: Engine, other: Engine) -> Iterator[Problem]:
    ours, theirs = other.movers(), one.movers()
    for name in ours.keys() & theirs.keys():
        path, config = ours[name]
        first, second = theirs[name][1].get(_EXTRA) or {}, config.get(_EXTRA) or {}
        if not isinstance(first, Mapping) or not isinstance(second, Mapping):
            continue
        for key in _SAME_KEYS:
            values = first.get(key), second.get(key)
            if values[0] != values[1] and (key in first or key in second):
                says = f"is {show(values[1])} here and {show(values[0])} there"
                at = (*path, _EXTRA, key)
                yield Problem("conflict", at, says, "both sides must agree", "warning")
    for name in _SAME_FLAGS:
        values = flag(one.flags, name), flag(other.flags, name)
        if values[0] != values[1]:
            says = f"is {show(values[1])} here and {show(values[0])} there"
            yield Problem("conflict", (f"flag:{name}",), says, "both sides must agree", "warning")
