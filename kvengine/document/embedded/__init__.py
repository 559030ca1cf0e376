"""Transfer configs inside of other files: manifests, scripts, command lines, programs."""

from __future__ import annotations

from kvengine.document.embedded.find import find
from kvengine.document.embedded.source import Origin, Source

__all__ = ["Origin", "Source", "find"]
