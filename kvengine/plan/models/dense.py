"""Decoders with one attention per layer: the common case, and how its names and windows vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvengine.plan.models.architecture import Architecture, Family
from kvengine.plan.models.text import Text
from kvengine.plan.specs import Attention, Layer

__all__ = ["attention", "build", "dense", "every", "named", "windowed"]

NAME = "model.layers.{i}.self_attn.attn"

WindowRule = Callable[[Text, int], "int | None"]
"""The sliding window of layer ``i`` in tokens, None for full attention."""


def build(
    name: str, text: Text, layers: Iterable[Layer], drafts: Iterable[Layer] = ()
) -> Architecture:
    """An architecture of plain attention layers."""
    return Architecture(
        name=name,
        text=text,
        layers=tuple(layers),
        drafts=tuple(drafts),
        num_layers=text.num_layers,
        heads=text.heads,
        kv_heads=text.kv_heads,
        head_size=text.head_size,
    )


def attention(text: Text, *, window: int | None = None, sinks: bool = False) -> Attention:
    """The attention of one layer as most configs describe it."""
    size = text.head_size
    return Attention(
        heads=text.kv_heads, head_size=size, head_size_v=size, window=window, sinks=sinks
    )


def named(template: str = NAME, *, window: WindowRule | None = None, sinks: bool = False) -> Family:
    """A family whose layers are called ``template`` and have windows by ``window``.

    Without a rule the config's ``layer_types`` decide, and ``sliding_window`` where there are
    none.
    """
    rule = window or Text.window

    def family(name: str, text: Text, prefix: str) -> Architecture:
        caches: dict[int | None, Attention] = {}
        layers = []
        for i in range(text.num_layers):
            size = rule(text, i)
            if size not in caches:
                caches[size] = attention(text, window=size, sinks=sinks)
            layers.append(Layer(prefix + template.format(i=i), i, caches[size]))
        return build(name, text, layers, _drafts(text, prefix, template))

    return family


def _drafts(text: Text, prefix: str, template: str) -> list[Layer]:
    first = text.num_layers
    cache = attention(text)
    return [
        Layer(prefix + template.format(i=first + i), first + i, cache)
        for i in range(text.count("num_nextn_predict_layers", default=0))
    ]


def every(period: int, *, full: int) -> WindowRule:
    """Windows for all layers but each ``period``-th, counted so that ``full`` is the first."""

    def rule(text: Text, index: int) -> int | None:
        if text.sequence("layer_types"):
            return text.window(index)
        pattern = text.integer("sliding_window_pattern", default=period)
        is_full = index % pattern == full % pattern
        return None if is_full else text.size("sliding_window")

    return rule


def never(text: Text, index: int) -> int | None:
    """Full attention whatever the config says of windows."""
    return None


def _wider_by_one(text: Text, index: int) -> int | None:
    window = every(4, full=-1)(text, index)
    return None if window is None else window + 1


def _from_layer(text: Text, index: int) -> int | None:
    """Qwen2 and Qwen3: windows from ``max_window_layers`` on, and only when switched on."""
    if text.sequence("layer_types"):
        return text.window(index)
    if not text.get("use_sliding_window"):
        return None
    first = text.integer("max_window_layers", default=28)
    return text.size("sliding_window") if index >= first else None


def _even_layers(text: Text, index: int) -> int | None:
    return text.size("sliding_window") if index % 2 == 0 else None


dense = named()
windowed = named(window=every(2, full=1))
"""Gemma-2: every other layer has a window, the first one included."""

gpt_oss = named("model.layers.{i}.attn.attn", window=_even_layers, sinks=True)
cohere2 = named(window=_wider_by_one)
"""Cohere-2: a window layer sees one token more than ``sliding_window`` says."""

qwen = named(window=_from_layer)
olmo3 = named(window=every(4, full=-1))
exaone4 = named(window=every(4, full=-1))
full_only = named(window=never)
