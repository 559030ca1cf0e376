"""Who judges a document."""

from __future__ import annotations

from typing import Literal

__all__ = ["CURRENT", "Mode"]

Mode = Literal["old", "strict", "release"]
"""An engine document of schema 1, of schema 2, or vLLM itself (bare configs)."""

CURRENT = 2
"""The version of the engine document that we write."""
