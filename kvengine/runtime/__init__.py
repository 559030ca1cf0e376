"""From a plan to tensors and moving chunks. Its names are loaded on first use: torch is heavy.

``pool``, ``policies``, ``places``, ``prefix`` and ``tiers`` never import torch, so that a
scheduler process can keep the books without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvengine.runtime.cache import Cache, allocate
    from kvengine.runtime.engine import HostTier, OffloadEngine
    from kvengine.runtime.jobs import Job
    from kvengine.runtime.pool import Found, HostPool
    from kvengine.runtime.tiers.identity import Identity, identity_of
    from kvengine.runtime.tiers.open import open_tiers

__all__ = [
    "Cache",
    "Found",
    "HostPool",
    "HostTier",
    "Identity",
    "Job",
    "OffloadEngine",
    "allocate",
    "identity_of",
    "open_tiers",
]

_HOMES = {
    "Cache": "cache",
    "Found": "pool",
    "HostPool": "pool",
    "HostTier": "engine",
    "Identity": "tiers.identity",
    "Job": "jobs",
    "OffloadEngine": "engine",
    "allocate": "cache",
    "identity_of": "tiers.identity",
    "open_tiers": "tiers.open",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
