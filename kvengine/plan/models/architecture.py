"""The value that every family produces: a model's caches, before release and parallelism."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Latent, Layer, State

__all__ = ["Architecture", "Family"]


@frozen(kw_only=True)
class Architecture:
    """What the caches of a model depend on.

    ``layers`` stand in the order in which vLLM registers them. ``drafts`` are the layers that
    the model's own multi-token prediction adds. ``num_layers`` are the hidden layers, which
    pipeline stages divide. ``heads``, ``kv_heads`` and ``head_size`` are the model-wide ones,
    used where vLLM does not look at single layers (``head_size`` of a latent cache is its
    width). ``hybrid``: recurrent states beside attention. ``packed_latent``: stores fp8 in a
    format of its own. ``uneven_heads``: attention layers have heads of several sizes, and one
    backend for all of them.
    """

    name: str
    text: Text
    layers: tuple[Layer, ...]
    num_layers: int
    heads: int
    kv_heads: int
    head_size: int
    drafts: tuple[Layer, ...] = ()
    latent: bool = False
    hybrid: bool = False
    packed_latent: bool = False
    uneven_heads: bool = False

    @property
    def state(self) -> State | None:
        """The recurrent state of the model, None without one."""
        return next((x.cache for x in self.layers if isinstance(x.cache, State)), None)

    @property
    def attention(self) -> Attention | Latent | None:
        """The first attention cache of the model, None without one."""
        caches = (layer.cache for layer in self.layers)
        return next((x for x in caches if isinstance(x, Attention | Latent)), None)


Family = Callable[[str, Text, str], Architecture]
"""Architecture name, config and name prefix -> the architecture."""
