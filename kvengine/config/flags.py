"""Reading flags, and the config that the short ones become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvengine.rules.releases import Release, release

__all__ = ["effective", "flag", "is_on"]

_GIB = 1 << 30
_LMCACHE_SERVER = release("0.23")


def flag(flags: Mapping[str, Any], name: str) -> Any:
    """The value of a flag, whichever way it is spelled: ``--a-b`` or ``--a_b``; True if bare."""
    for spelled in (name, "--" + name[2:].replace("-", "_")):
        if spelled in flags:
            return flags[spelled]
    return None


def is_on(flags: Mapping[str, Any], name: str) -> bool | None:
    """Whether a switch is given as on or as off; None if it is not given."""
    negated = flag(flags, f"--no-{name[2:]}")
    if negated is not None and negated is not False:
        return False
    value = flag(flags, name)
    if value is None:
        return None
    return str(value).lower() not in ("false", "0", "no", "off")


def effective(
    config: Mapping[str, Any] | None,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    wanted: Release,
) -> Mapping[str, Any] | None:
    """The transfer config that the engine ends up with, after ``--kv-offloading-size``."""
    size = flag(flags, "--kv-offloading-size")
    if size is None:
        return config
    given = (config or {}).get("kv_connector_extra_config")
    extra = dict(given) if isinstance(given, Mapping) else {}
    if flag(flags, "--kv-offloading-backend") == "lmcache":
        if wanted >= _LMCACHE_SERVER:
            name = "LMCacheMPConnector"
        else:
            name, extra = "LMCacheConnectorV1", {"lmcache.local_cpu": True}
    else:
        simple = env.get("VLLM_USE_SIMPLE_KV_OFFLOAD", "0").strip()
        name = "OffloadingConnector" if simple in ("0", "") else "SimpleCPUOffloadConnector"
        extra["cpu_bytes_to_use"] = _bytes(size)
    outer = {**(config or {}), "kv_connector": name, "kv_role": "kv_both"}
    return {**outer, "kv_connector_extra_config": extra}


def _bytes(size: Any) -> Any:
    try:
        return int(float(size) * _GIB)
    except (TypeError, ValueError, OverflowError):
        return size
