"""Configs one or two steps away from real ones: keys added anywhere, dropped, or overwritten."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kvengine.config.connectors import CONNECTOR
from kvengine.config.tiers import SecondaryTier
from kvengine.config.transfer import KVTransferConfig
from kvengine.rules.families import leaves
from kvengine.rules.options import variant_of
from kvengine.rules.shapes import fields_of
from tests.config.test_cross_rules import RULES
from tests.documents import ODD

CASES = json.loads((Path(__file__).parent.parent / "data/cases/configs.json").read_text())
REAL = [c["config"] for c in CASES if c["config"] and "$" not in json.dumps(c["config"])]
REAL += [rule.config for rule in RULES.values() if rule.config]


def declared():
    """Key -> values that some declaration gives as an example or a choice."""
    models = {m for ms in leaves(CONNECTOR).values() for m in ms} | {KVTransferConfig}
    models |= {m for ms in leaves(variant_of(SecondaryTier)).values() for m in ms}
    found: dict[str, list[Any]] = {}
    for model in models:
        for key, field in fields_of(model).items():
            found.setdefault(key, []).extend([*field.option.examples, *field.shape.choices])
    return found


DECLARED = declared()
KEYS = sorted({*DECLARED, "x-mine", "strange", "lmcache.chunk_size", "kv_offloading_size"})


def tables(value: Any) -> list[dict[str, Any]]:
    """Every table inside a value, itself first."""
    if isinstance(value, dict):
        return [value, *(table for part in value.values() for table in tables(part))]
    if isinstance(value, list):
        return [table for part in value for table in tables(part)]
    return []


@st.composite
def mutants(draw: st.DrawFn) -> dict[str, Any]:
    """A real config after up to three changes."""
    config = copy.deepcopy(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(0, 3))):
        inside = tables(config)
        table = draw(st.sampled_from(inside[1:] * 3 + inside[:1]))
        if table and draw(st.booleans()):
            key = draw(st.sampled_from([*table]))
            if draw(st.booleans()):
                del table[key]
                continue
        else:
            key = draw(st.sampled_from(KEYS))
        fitting = DECLARED.get(key)
        chosen = st.sampled_from(fitting) if fitting else ODD
        table[key] = copy.deepcopy(draw(st.one_of(chosen, ODD)))
    return config
