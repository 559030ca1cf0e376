"""The extra config of a connector that we do not know: every key passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from kvengine.rules.options import open_keys

__all__ = ["AnyKeys"]


@frozen(kw_only=True)
class AnyKeys:
    """Keys whose meaning is not ours to judge, as given."""

    values: Mapping[str, Any] = open_keys()
