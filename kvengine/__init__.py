"""Declarative, checked and planned KV-cache transfer and offload for LLM servers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kvengine.config.engine import Config
    from kvengine.config.load import load
    from kvengine.errors import ConfigError, DocumentError, KVEngineError, PlanError, Problem
    from kvengine.plan.make import make_plan
    from kvengine.plan.plan import Plan

__all__ = [
    "Config",
    "ConfigError",
    "DocumentError",
    "KVEngineError",
    "Plan",
    "PlanError",
    "Problem",
    "__version__",
    "load",
    "make_plan",
]

__version__ = "0.1.0"

_HOMES = {
    "Config": "kvengine.config.engine",
    "ConfigError": "kvengine.errors",
    "DocumentError": "kvengine.errors",
    "KVEngineError": "kvengine.errors",
    "PlanError": "kvengine.errors",
    "Problem": "kvengine.errors",
    "Plan": "kvengine.plan.plan",
    "load": "kvengine.config.load",
    "make_plan": "kvengine.plan.make",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing else: ``import kvengine`` stays light."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
