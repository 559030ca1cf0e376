"""Faults of releases and of combinations, as data: ``advisories.toml`` read and applied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from attrs import field, frozen

from kvengine.config.flags import flag, is_on
from kvengine.errors import Path, Problem, Severity
from kvengine.rules.releases import Release, Releases

__all__ = ["Advisory", "Scene", "advice", "advisories"]

_EXTRA = "kv_connector_extra_config"


@frozen(kw_only=True)
class Scene:
    """A transfer config and what surrounds it; None where that is not known.

    ``config`` is what the engine ends up with, ``flags`` and ``env`` what it is started with,
    ``traits`` what is known of the model.
    """

    config: Mapping[str, Any]
    release: Release
    flags: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    traits: frozenset[str] | None = None


def _tuple(values: Any) -> tuple[str, ...]:
    return tuple(values)


@frozen(kw_only=True, eq=False, repr=False)
class Advisory:
    """One entry of ``advisories.toml``, where its conditions are described."""

    id: str
    at: str
    says: str
    hint: str = ""
    link: str = ""
    code: str = "known-issue"
    severity: Severity = "warning"
    since: str | None = None
    until: str | None = None
    connectors: tuple[str, ...] = field(default=(), converter=_tuple)
    children: tuple[str, ...] = field(default=(), converter=_tuple)
    outer: bool = False
    inner: bool = False
    fields: Mapping[str, Any] = field(factory=dict)
    not_fields: Mapping[str, Any] = field(factory=dict)
    keys: Mapping[str, Any] = field(factory=dict)
    not_keys: Mapping[str, Any] = field(factory=dict)
    tier: Mapping[str, Any] = field(factory=dict)
    any_tier: tuple[str, ...] = field(default=(), converter=_tuple)
    flags: Mapping[str, Any] = field(factory=dict)
    env: Mapping[str, Any] = field(factory=dict)
    not_env: Mapping[str, Any] = field(factory=dict)
    any_env: tuple[str, ...] = field(default=(), converter=_tuple)
    traits: tuple[str, ...] = field(default=(), converter=_tuple)
    embedded: bool = False

    @property
    def vllm(self) -> Releases:
        """The releases that it is about."""
        return Releases(self.since, self.until)

    @property
    def text(self) -> str:
        """The hint and the link."""
        return "; ".join(part for part in (self.hint, self.link and f"see {self.link}") if part)

    def problems(self, scene: Scene) -> Iterator[Problem]:
        """One problem for every place of the config that it applies to."""
        if scene.release not in self.vllm or not self._around(scene):
            return
        for path, table in _configs(scene.config, ()):
            if self._fits(table, bool(path)):
                for tier in self._tiers(table):
                    at = self._path(path, tier)
                    yield Problem(self.code, at, self.says, self.text, self.severity)

    def _around(self, scene: Scene) -> bool:
        if self.embedded and scene.env is None:
            return False
        if self.flags and (
            scene.flags is None
            or not all(_flag(scene.flags, name, wanted) for name, wanted in self.flags.items())
        ):
            return False
        if (self.env or self.not_env or self.any_env) and (
            scene.env is None
            or not _all(scene.env, self.env)
            or any(meets(scene.env.get(name), wanted) for name, wanted in self.not_env.items())
            or (self.any_env and not any(name in scene.env for name in self.any_env))
        ):
            return False
        return not self.traits or (
            scene.traits is not None
            and all(
                (t[1:] not in scene.traits) if t[0] == "!" else t in scene.traits
                for t in self.traits
            )
        )

    def _fits(self, table: Mapping[str, Any], is_child: bool) -> bool:
        if (self.outer and is_child) or (self.inner and not is_child):
            return False
        if self.connectors and table.get("kv_connector") not in self.connectors:
            return False
        extra = table.get(_EXTRA)
        extra = extra if isinstance(extra, Mapping) else {}
        below = [child.get("kv_connector") for _, child in _children(extra)]
        return (
            all(child in below for child in self.children)
            and _all(table, self.fields)
            and _all(extra, self.keys)
            and not any(meets(table.get(name), w) for name, w in self.not_fields.items())
            and not any(meets(extra.get(name), w) for name, w in self.not_keys.items())
        )

    def _tiers(self, table: Mapping[str, Any]) -> Iterator[int | None]:
        if not self.tier:
            yield None
            return
        extra = table.get(_EXTRA)
        tiers = extra.get("secondary_tiers") if isinstance(extra, Mapping) else None
        for index, tier in enumerate(tiers if isinstance(tiers, list) else ()):
            fits = isinstance(tier, Mapping) and _all(tier, self.tier)
            if fits and (not self.any_tier or any(tier.get(name) for name in self.any_tier)):
                yield index

    def _path(self, path: Path, tier: int | None) -> Path:
        kind, _, name = self.at.partition(":")
        match kind:
            case "field":
                return (*path, name) if name else path
            case "key":
                return (*path, _EXTRA, name)
            case "tier":
                assert tier is not None
                return (*path, _EXTRA, "secondary_tiers", tier, *((name,) if name else ()))
        return (self.at,)


def _configs(config: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The config and all its children, each with its path."""
    yield path, config
    extra = config.get(_EXTRA)
    for index, child in _children(extra if isinstance(extra, Mapping) else {}):
        yield from _configs(child, (*path, _EXTRA, "connectors", index))


def _children(extra: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    children = extra.get("connectors")
    for index, child in enumerate(children if isinstance(children, list) else ()):
        if isinstance(child, Mapping):
            yield index, child


def _all(table: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(meets(table.get(name), value) for name, value in wanted.items())


def _flag(flags: Mapping[str, Any], name: str, wanted: Any) -> bool:
    match wanted:
        case "on":
            return is_on(flags, name) is True
        case "off":
            return is_on(flags, name) is False
        case "not on":
            return is_on(flags, name) is not True
        case "not off":
            return is_on(flags, name) is not False
    return meets(flag(flags, name), wanted)


def meets(value: Any, wanted: Any) -> bool:
    """Whether a value, None if absent, is as an advisory wants it."""
    match wanted:
        case list():
            return any(meets(value, one) for one in wanted) if wanted else value == []
        case "given":
            return value is not None
        case "absent":
            return value is None
        case "on":
            return _truth(value)
        case "not on":
            return not _truth(value)
        case str() if wanted[0] in "<>":
            return _compare(value, wanted)
        case str() if wanted[0] == "~":
            return value is not None and re.search(wanted[1:], str(value)) is not None
        case bool():
            return value is wanted
    return bool(value == wanted)


def _truth(value: Any) -> bool:
    return bool(value) and str(value).lower() not in ("false", "0", "no", "off")


def _compare(value: Any, wanted: str) -> bool:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    limit = float(wanted[1:])
    return number > limit if wanted[0] == ">" else number < limit


@cache
def advisories() -> tuple[Advisory, ...]:
    """Every advisory, in the order of the file."""
    import tomli

    text = FilePath(__file__).with_name("advisories.toml").read_text(encoding="utf-8")
    return tuple(Advisory(**entry) for entry in tomli.loads(text)["advisory"])


def advice(scene: Scene) -> list[Problem]:
    """What the advisories have to say of a transfer config in its surroundings."""
    return [problem for one in advisories() for problem in one.problems(scene)]
