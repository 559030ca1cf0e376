"""Bytes that a KV head takes for one token, per cache dtype."""

from __future__ import annotations

from attrs import frozen

from kvengine.units import ceil_div

__all__ = ["content_bytes", "element_bytes", "is_quantized", "storage_of"]

_ELEMENT_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}


@frozen
class _Turbo:
    """TurboQuant: keys and values of one head packed into one slot (bits per coordinate)."""

    key_bits: int
    value_bits: int

    def slot_bytes(self, head_size: int) -> int:
        """Packed key and value with their norm, scale and zero, rounded up to an even number."""
        key = head_size if self.key_bits == 8 else ceil_div(head_size * self.key_bits, 8) + 2
        slot = key + ceil_div(head_size * self.value_bits, 8) + 4
        return slot + slot % 2


_TURBO = {
    "turboquant_k8v4": _Turbo(8, 4),
    "turboquant_4bit_nc": _Turbo(4, 4),
    "turboquant_k3v4_nc": _Turbo(3, 4),
    "turboquant_3bit_nc": _Turbo(3, 3),
}


def element_bytes(dtype: str) -> int:
    """Bytes of one element: 2 for bfloat16; 1 for what is stored in bytes, as fp8 is."""
    return _ELEMENT_BYTES.get(dtype, 1)


def is_quantized(cache_dtype: str) -> bool:
    """Whether the cache holds something else than plain floating-point numbers."""
    return cache_dtype not in _ELEMENT_BYTES and cache_dtype != "auto"


def storage_of(cache_dtype: str, model_dtype: str) -> str:
    """The dtype that layers store, ``auto`` resolved to the model's."""
    return model_dtype if cache_dtype == "auto" else cache_dtype


def content_bytes(head_size: int, head_size_v: int, storage: str) -> int:
    """Bytes of one head's key and value for one token, stored as ``storage``."""
    if storage in _TURBO:
        return _TURBO[storage].slot_bytes(head_size)
    if storage.endswith("_per_token_head"):
        halves = 2 if storage.startswith("int4") else 1
        return head_size // halves + head_size_v // halves + 2 * 4
    if storage in ("nvfp4", "nvfp4_4over6"):
        return _nvfp4_bytes(head_size) + _nvfp4_bytes(head_size_v)
    return (head_size + head_size_v) * element_bytes(storage)


def _nvfp4_bytes(head_size: int) -> int:
    return head_size // 2 + head_size // 16
