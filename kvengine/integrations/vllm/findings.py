"""The checker, run over the configuration that vLLM handed to the spec."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kvengine.config.connectors.offloading import KVEngineOffloadingSpec
from kvengine.config.load import examine
from kvengine.document import parse
from kvengine.errors import ConfigError, Problem, stopping
from kvengine.rules.releases import Release
from kvengine.rules.shapes import fields_of

__all__ = ["checked_config", "share_log"]

_log = logging.getLogger(__name__)
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


def checked_config(
    extra: Mapping[str, Any], release: Release, *, quiet: bool = False
) -> KVEngineOffloadingSpec:
    """``kv_connector_extra_config`` as this vLLM release reads it; every finding is logged.

    vLLM shows a spec only this half of the transfer config; the connector and role are those
    that lead here, and so is the spec. A class derived from it, under another name, may have keys
    of its own: they are left out. ``quiet`` leaves the log to another rank. Raises
    :class:`kvengine.ConfigError` when a finding is an error, or a variable was not filled in.
    """
    import json

    whole = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": _ours(extra),
    }
    text = json.dumps(whole, indent=1, default=str).encode()
    document = parse(text, name="--kv-transfer-config", form="json")
    checked = examine(document, vllm=str(release))
    for problem in () if quiet else checked.problems:
        _log.log(_LEVELS[problem.severity], "kvengine check: %s", _without_place(problem))
    wrong = [_unplaced(problem) for problem in stopping(checked.problems)]
    if wrong:
        raise ConfigError(wrong)
    assert checked.config is not None
    assert checked.config.kv_transfer is not None
    options = checked.config.kv_transfer.kv_connector_extra_config
    assert isinstance(options, KVEngineOffloadingSpec)
    return options


def _ours(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The table as one of kvengine's own spec."""
    name = KVEngineOffloadingSpec.__name__
    if extra.get("spec_name") == name:
        return dict(extra)
    known = fields_of(KVEngineOffloadingSpec)
    return {key: value for key, value in extra.items() if key in known} | {"spec_name": name}


def share_log() -> None:
    """Let kvengine's log lines go where vLLM's go, unless the program has its own wish."""
    ours, theirs = logging.getLogger("kvengine"), logging.getLogger("vllm")
    if theirs.handlers and not ours.handlers and ours.level == logging.NOTSET:
        ours.setLevel(theirs.getEffectiveLevel())
        ours.propagate = False
        for handler in theirs.handlers:
            ours.addHandler(handler)


def _unplaced(problem: Problem) -> Problem:
    """The problem without line and column: nobody wrote the text that was checked."""
    from attrs import evolve

    return evolve(problem, place=None)


def _without_place(problem: Problem) -> str:
    return str(_unplaced(problem))
