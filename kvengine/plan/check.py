"""The planner's findings for a document, planned or refused: what ``check`` adds to its own."""

from __future__ import annotations

from kvengine.config.engine import Config
from kvengine.errors import PlanError, Problem
from kvengine.plan.findings import refusal
from kvengine.plan.make import make_plan

__all__ = ["plan_findings"]


def plan_findings(config: Config) -> tuple[Problem, ...]:
    """Findings of a config that names a model and memory; none of one that does not."""
    model, cache = config.model, config.cache
    described = bool(model.config) or bool(model.layers)
    if not described or (cache.memory is None and cache.num_blocks is None):
        return ()
    try:
        return make_plan(config).problems
    except PlanError as error:
        return (refusal(error),)
