"""Environment variables of the process that stand for options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvengine.errors import Problem

__all__ = ["environment_problems"]


def environment_problems(environ: Mapping[str, str]) -> Iterator[Problem]:
    """What is to be said about variables that are set: none of them ever affects a plan."""
    if not any(name in environ for name in _NAMES):
        return
    from kvengine.config.engine import Environment
    from kvengine.rules.options import options_of

    for name, (_, option) in options_of(Environment).items():
        if name in environ and option.deprecated is not None:
            message = f"is deprecated, use {option.deprecated.use} instead"
            hint = option.deprecated.because
            yield Problem("deprecated", (f"env:{name}",), message, hint, "warning")


_NAMES = ("VLLM_USE_PACKED_HMA_KV_CACHE",)
"""The variables of ``Environment``: looked for before its module is imported."""
