"""Old spelling -> today's spelling, remembering every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from kvengine.document.changes import changed
from kvengine.errors import Drop, Path, Put
from kvengine.rules.deprecation import carried_over
from kvengine.rules.judge import meaning
from kvengine.rules.modes import CURRENT
from kvengine.rules.tables import tables

__all__ = ["Migration", "migrate"]


@frozen
class Migration:
    """A document in today's spelling and the changes that led there, in order.

    ``origins`` says where the user wrote what a change put into another place.
    """

    data: Any
    changes: tuple[Put | Drop, ...] = ()
    origins: Mapping[Path, Path] = field(factory=dict)


def migrate(model: type, data: Mapping[str, Any]) -> Migration:
    """Rewrite a document of schema 1 that its own schema accepts; others come back as they are."""
    if data.get("schema") != 1:
        return Migration(data)
    changes: list[Put | Drop] = [Put(("schema",), CURRENT)]
    origins: dict[Path, Path] = {}
    for table in tables(model, data):
        for option, value in table.fields():
            at = (*table.path, option.name)
            if option.option.deprecated is not None:
                over = carried_over(option, value, at, data)
                origins |= {change.path: at for change in over if isinstance(change, Put)}
                changes += over
            elif option.name != "schema":
                plain = meaning(value, option, "old")
                if isinstance(value, str) and isinstance(plain, bool):
                    changes.append(Put(at, plain))
    result: Any = data
    for change in changes:
        result = changed(result, change)
    return Migration(result, tuple(changes), origins)
