"""``option()``: everything known about one configuration option, on its attrs field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
from attrs import frozen

from kvengine.errors import Path
from kvengine.rules.readings import AS_IT_IS, Reading
from kvengine.rules.registry import Registry, named
from kvengine.rules.releases import ALWAYS, NEWEST, Release, Releases, Renamed

__all__ = [
    "OWN_KEYS",
    "Deprecated",
    "Option",
    "Renamed",
    "Variant",
    "is_open",
    "open_keys",
    "option",
    "option_of",
    "options_of",
    "own_keys",
    "own_keys_of",
    "refuses",
    "refuses_unknown",
    "tagged",
    "variant_of",
]

T = TypeVar("T")


@frozen
class Deprecated:
    """An option on its way out: a warning since ``since``, an error from ``removed`` on.

    ``moves_to`` is where its meaning goes in today's document, from the root, if it can.
    """

    use: str
    moves_to: Path = ()
    since: Release | None = None
    removed: Release | None = None
    because: str = ""


@frozen(kw_only=True, eq=False)
class Variant:
    """The class of a table is chosen by a key of its own, or with ``beside`` of its parent.

    ``classes`` maps values of ``tag`` to attrs classes, ``default`` is what an absent tag means.
    ``open_with`` is the key that names a module of the user's own: ``otherwise`` then describes
    the table, for every value of the tag if ``open_wins``, else for those that are none of ours.
    With ``closed`` a value that is none of ours and comes without ``open_with`` is refused.
    ``outside`` are classes that only the user's module holds, by the value of ``open_with``.
    ``kind`` is what messages call the thing that the tag names, ``code`` that of the problem of
    an unknown one, ``origin`` whose it is, if not vLLM's, ``within`` what must stand around it.
    """

    tag: str
    classes: Mapping[str, type]
    otherwise: type
    default: str | None = None
    beside: bool = False
    open_with: str | None = None
    open_wins: bool = False
    closed: bool = False
    outside: Mapping[str, type] = attrs.field(factory=dict)
    kind: str = "kind"
    code: str = "choice"
    origin: str = ""
    within: str = ""

    def choose(self, holder: Mapping[str, Any], release: Release | None = None) -> type:
        """The class for a table whose tag stands, or would stand, in ``holder``.

        A name of another release than ``release`` is ours still, unless ``open_with`` is given.
        """
        name = holder.get(self.tag, self.default)
        if not isinstance(name, str):
            return self.otherwise
        if self.opened(holder, release) and (self.open_wins or not self.knows(name, release)):
            module = holder.get(self.open_with or "")
            known = named(self.outside, name)
            inside = known is not None and known.lives_in(str(module))
            return self.outside[name] if inside else self.otherwise
        return self.classes.get(name, self.otherwise)

    def knows(self, name: str, release: Release | None) -> bool:
        """Whether ``release``, or any if None, has the name."""
        known = self.classes
        if isinstance(known, Registry):
            return name in known and known.valid(name, release)
        return name in known

    def opened(self, holder: Mapping[str, Any], release: Release | None = None) -> bool:
        """Whether ``holder`` names a module of the user's own, and ``release`` looks there."""
        if self.open_with is None or holder.get(self.open_with) is None:
            return False
        _, key = options_of(self.otherwise).get(self.open_with, (None, None))
        return release is None or key is None or release in key.vllm


@frozen(kw_only=True)
class Option:
    """The facts attached to one attrs field.

    ``unit`` is what a number counts; ``ge`` and ``le`` bound it, both ends included, ``gt``
    without its end.
    ``spelled_since`` is the first version of the document that has the key.
    ``reading`` is what vLLM does to the value it finds; ``nullable``: null counts as not given.
    ``vllm`` are the releases that read the option at all, in ``dead`` ones it is accepted
    without effect. ``instead`` is what replaced it, ``readers`` who reads it where not everyone
    does, ``traps`` the surprises that people met, for the reference. A ``required`` option may
    be optional in releases outside ``required_in``. ``key`` is its spelling where that is no
    name in Python.
    """

    doc: str
    unit: str = ""
    ge: float | None = None
    le: float | None = None
    gt: float | None = None
    examples: tuple[Any, ...] = ()
    reading: Reading = AS_IT_IS
    vllm: Releases = ALWAYS
    readers: tuple[str, ...] = ()
    deprecated: Deprecated | None = None
    was: tuple[Renamed, ...] = ()
    required: bool = False
    required_in: Releases = ALWAYS
    spelled_since: int = 1
    nullable: bool = False
    dead: Releases | None = None
    variant: Variant | None = None
    instead: str = ""
    default_text: str = ""
    traps: tuple[str, ...] = ()
    key: str = ""

    def is_required(self, release: Release | None) -> bool:
        """Whether ``release``, or today's if None, insists on it."""
        return self.required and (release or NEWEST) in self.required_in


def option(
    doc: str,
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    alias: str | None = None,
    **facts: Any,
) -> Any:
    """An attrs field with its :class:`Option`; without a default the option is required."""
    required = default is attrs.NOTHING and factory is None
    return attrs.field(
        default=default if factory is None else attrs.Factory(factory),
        alias=alias,
        metadata={"option": Option(doc=doc, required=facts.pop("required", required), **facts)},
    )


def tagged(variant: Variant) -> Callable[[type[T]], type[T]]:
    """Let a key of its own choose which subclass of an attrs class describes a table."""

    def attach(model: type[T]) -> type[T]:
        assert variant.otherwise is not model, "a choice must lead somewhere"
        model.__variant__ = variant  # type: ignore[attr-defined]
        return model

    return attach


def variant_of(model: type) -> Variant | None:
    """The choice that :func:`tagged` attached to this very class, not to one it inherits from."""
    found = vars(model).get("__variant__")
    assert found is None or isinstance(found, Variant)
    return found


def open_keys() -> Any:
    """A field that takes every key which no option declares, unchecked."""
    return attrs.field(factory=dict, metadata={"open": True})


def is_open(model: type) -> bool:
    """Whether an attrs class takes undeclared keys."""
    return any("open" in field.metadata for field in attrs.fields(model))


OWN_KEYS = "^x-"
"""The pattern of keys that are the user's own in every table that has such keys."""


def own_keys(*patterns: str) -> Callable[[type[T]], type[T]]:
    """Let users keep keys of their own in a table: those that match one of ``patterns``."""

    def attach(model: type[T]) -> type[T]:
        model.__own_keys__ = patterns  # type: ignore[attr-defined]
        return model

    return attach


def own_keys_of(model: type) -> tuple[str, ...]:
    """The patterns of keys that are the user's own in a table."""
    patterns: tuple[str, ...] = getattr(model, "__own_keys__", ())
    return patterns


def refuses_unknown(model: type[T]) -> type[T]:
    """Say of a table that the engine refuses keys which the chosen class does not have."""
    model.__refuses_unknown__ = True  # type: ignore[attr-defined]
    return model


def refuses(model: type) -> bool:
    """Whether the engine refuses unknown keys in a table, where it commonly ignores them."""
    return bool(getattr(model, "__refuses_unknown__", False))


def option_of(attribute: attrs.Attribute[Any]) -> Option:
    """The option declared on one attribute."""
    declared = attribute.metadata["option"]
    assert isinstance(declared, Option)
    return declared


def options_of(model: type) -> dict[str, tuple[attrs.Attribute[Any], Option]]:
    """Key -> attribute and option of every field of an attrs class, in order of declaration."""
    return {
        option_of(field).key or field.name: (field, option_of(field))
        for field in attrs.fields(model)
        if "option" in field.metadata
    }
