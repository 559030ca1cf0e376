"""Who judges a document."""

from __future__ import annotations

from typing import Literal

__all__ = ["Mode"]

Mode = Literal["old", "strict", "release"]
"""An engine document of schema 1, of schema 2, or vLLM itself (bare configs)."""
