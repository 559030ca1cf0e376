"""Names that stand for classes: what each is, in which releases, and what it was called before.

A registry maps names to attrs classes and imports the module of a class only when somebody asks
for it, so that checking one connector does not load them all. The places are ours: nothing that
a document names is ever imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from attrs import frozen

from kvengine.rules.releases import ALWAYS, Release, Releases, Renamed

__all__ = ["Named", "Registry", "named"]


@frozen(kw_only=True)
class Named:
    """One name: ``at`` is our class, ``module:Class``, that declares its options.

    ``vllm`` are the releases that know the name, ``was`` what they called it otherwise,
    ``instead`` what replaced it. ``origin`` names the package that brings it, if not vLLM;
    ``modules`` are the prefixes of the module paths under which it is found there.
    """

    at: str
    vllm: Releases = ALWAYS
    was: tuple[Renamed, ...] = ()
    instead: str = ""
    because: str = ""
    origin: str = ""
    modules: tuple[str, ...] = ()

    def lives_in(self, module: str) -> bool:
        """Whether a module path leads to this class."""
        return any(module == own or module.startswith(f"{own}.") for own in self.modules)

    def spelled_in(self, release: Release, name: str) -> str:
        """What ``release`` calls it; empty if it has no such thing. ``name`` is today's name."""
        if release in self.vllm:
            return name
        return next((old.name for old in self.was if release in old.vllm), "")


class Registry(Mapping[str, type]):
    """Name -> class, imported on demand; earlier names lead to the same class."""

    def __init__(self, names: Mapping[str, Named]) -> None:
        self._facts: dict[str, Named] = {}
        self._today: dict[str, str] = {}
        for name, facts in names.items():
            for spelled in (name, *(old.name for old in facts.was)):
                self._facts[spelled] = facts
                self._today[spelled] = name

    def __getitem__(self, name: str) -> type:
        module, _, attribute = self._facts[name].at.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, type)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._facts

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def facts(self, name: str) -> Named:
        """What is known about a name, today's or an earlier one."""
        return self._facts[name]

    def today(self, name: str) -> str:
        """The name under which the newest release has it."""
        return self._today[name]

    def valid(self, name: str, release: Release | None) -> bool:
        """Whether ``release``, or any that we know if None, takes this very spelling."""
        facts = self._facts[name]
        ranges = [facts.vllm] if self._today[name] == name else []
        ranges += [old.vllm for old in facts.was if old.name == name]
        return any(one.known if release is None else release in one for one in ranges)


def named(classes: Mapping[str, type], name: str) -> Named | None:
    """The facts about a name, where the classes are a registry that has it."""
    return classes.facts(name) if isinstance(classes, Registry) and name in classes else None
