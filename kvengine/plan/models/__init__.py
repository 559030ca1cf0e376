"""From a model's config.json to the caches that its layers declare: one file per family."""

from kvengine.plan.models.architecture import Architecture
from kvengine.plan.models.find import describe

__all__ = ["Architecture", "describe"]
