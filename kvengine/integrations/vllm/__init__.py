"""kvengine as vLLM's offloading spec, for vLLM 0.26 to 0.33, on any device that torch carries.

::

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "KVEngineOffloadingSpec",
        "spec_module_path": "kvengine.integrations.vllm", "cpu_bytes_to_use": 8589934592}}'

Every group takes its own size in host memory. What is here without vLLM can be imported without
it; the spec itself raises :class:`VLLMVersionError` where vLLM is missing or of another release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvengine.integrations.vllm.versions import VLLMVersionError, installed_release, require

if TYPE_CHECKING:
    from kvengine.integrations.vllm.spec import KVEngineOffloadingSpec

__all__ = ["KVEngineOffloadingSpec", "VLLMVersionError"]


def __getattr__(name: str) -> Any:
    """Import the spec when vLLM asks for it, and say clearly when vLLM does not fit."""
    if name == "KVEngineOffloadingSpec":
        require(installed_release())
        from kvengine.integrations.vllm.spec import KVEngineOffloadingSpec

        return KVEngineOffloadingSpec
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
