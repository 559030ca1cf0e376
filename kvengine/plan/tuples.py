"""Grouping of caches whose pages differ and lie side by side in a block (DeepSeek-V4).

Layers that come in a repeating pattern, one of each page size, form *tuples*; sets of tuples
are split so that all groups hold about the same number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from kvengine.errors import PlanError
from kvengine.plan.alike import is_uniform
from kvengine.plan.facts import Facts
from kvengine.plan.specs import Spec
from kvengine.units import ceil_div

__all__ = ["bucket_groups", "tuple_groups"]

Layers = Mapping[str, Spec]
_BySize = dict[int, list[str]]


def tuple_groups(layers: Layers, *, padded: bool) -> list[dict[str, Spec]]:
    """Up to 0.28: the latent layers as one group, then window layers split into tuples.

    ``padded``: window pages take the next page size of the latent group (up to 0.26).
    """
    latent = {name: spec for name, spec in layers.items() if spec.kind == "mla"}
    windows: dict[tuple[int, int | None], dict[str, Spec]] = {}
    for name, spec in layers.items():
        if spec.kind == "window_mla":
            windows.setdefault((spec.tokens_per_block, spec.window), {})[name] = spec
    others = {spec.kind for spec in layers.values()} - {"mla", "window_mla"}
    if others or not latent:
        beside = f"beside {', '.join(sorted(others))}" if others else "without latent layers"
        raise PlanError(
            "plan",
            "geometry",
            f"no release before 0.29 groups window_mla layers {beside}",
            "use a draft of the model's own kind",
            path=("speculative", "draft"),
        )
    sizes = sorted({spec.page_bytes for spec in latent.values()})
    if padded:
        windows = {key: _pad_to(found, sizes) for key, found in windows.items()}
    counts = [_repeats(_by_size(found)) for found in (latent, *windows.values())]
    length = _best_length(counts, least=counts[0])
    split = (
        {name: found[name] for name in names}
        for found in windows.values()
        for names in _split(_by_size(found), length)
    )
    return [latent, *split]


def _pad_to(layers: dict[str, Spec], sizes: Sequence[int]) -> dict[str, Spec]:
    if max(spec.page_bytes for spec in layers.values()) > sizes[-1]:
        raise PlanError(
            "plan",
            "geometry",
            "window pages are wider than every page of the latent layers",
            "use blocks of more tokens, or leave tokens_per_block out",
            path=("cache", "tokens_per_block"),
        )
    padded = {
        spec: evolve(spec, padded_bytes=min(s for s in sizes if s >= spec.page_bytes))
        for spec in set(layers.values())
    }
    return {name: padded[spec] for name, spec in layers.items()}


def bucket_groups(layers: Layers, facts: Facts) -> list[list[str]]:
    """From 0.29: greedy sets of layers that need the same blocks, split into groups of names."""
    buckets = _buckets(layers, facts)
    sizes = [_by_size({name: layers[name] for name in bucket}) for bucket in buckets]
    balanced = [len({len(names) for names in size.values()}) == 1 for size in sizes]
    floor = max(
        (_repeats(s) for s, even in zip(sizes, balanced, strict=True) if even and len(s) > 1),
        default=0,
    )
    length = None
    if floor:
        even = [_repeats(s) for s, ok in zip(sizes, balanced, strict=True) if ok]
        length = _best_length(even, least=floor)
    counts = [
        ceil_div(_repeats(size), length) if length is not None and even else 1
        for size, even in zip(sizes, balanced, strict=True)
    ]
    counts = _fit_states(layers, buckets, sizes, counts, splits_windows=length is None, facts=facts)
    groups: list[list[str]] = []
    for bucket, size, count in zip(buckets, sizes, counts, strict=True):
        groups.extend([bucket] if count == 1 else _strided(size, count))
    return groups


def _buckets(layers: Layers, facts: Facts) -> list[list[str]]:
    buckets: list[list[str]] = []
    kinds: list[list[Spec]] = []
    home: dict[Spec, int] = {}
    for name, spec in layers.items():
        if spec not in home:
            for i, specs in enumerate(kinds):
                if is_uniform([*specs, spec], facts):
                    specs.append(spec)
                    home[spec] = i
                    break
            else:
                home[spec] = len(kinds)
                kinds.append([spec])
                buckets.append([])
        buckets[home[spec]].append(name)
    return buckets


def _fit_states(
    layers: Layers,
    buckets: Sequence[Sequence[str]],
    sizes: Sequence[_BySize],
    counts: Sequence[int],
    *,
    splits_windows: bool,
    facts: Facts,
) -> list[int]:
    """More groups for states, so that none is wider than the block that the others need."""

    def is_state(bucket: Sequence[str]) -> bool:
        kind = layers[bucket[0]].kind
        windows = ("window", "window_mla") if facts.state_buckets_split and splits_windows else ()
        return kind == "mamba" or kind in windows

    anchor = max(
        _widest(size, len(bucket) if is_state(bucket) else count)
        for bucket, size, count in zip(buckets, sizes, counts, strict=True)
    )
    fitted = []
    for bucket, count in zip(buckets, counts, strict=True):
        if is_state(bucket):
            fits = max(anchor // layers[bucket[0]].page_bytes, 1)
            count = max(count, ceil_div(len(bucket), fits))
        fitted.append(count)
    return fitted


def _widest(sizes: _BySize, count: int) -> int:
    return sum(ceil_div(len(names), count) * page for page, names in sizes.items())


def _by_size(layers: Layers) -> _BySize:
    sizes: _BySize = {}
    for name, spec in layers.items():
        sizes.setdefault(spec.page_bytes, []).append(name)
    return sizes


def _repeats(sizes: _BySize) -> int:
    return max(len(names) for names in sizes.values())


def _split(sizes: _BySize, length: int) -> Iterable[list[str]]:
    return _strided(sizes, ceil_div(_repeats(sizes), length))


def _strided(sizes: _BySize, count: int) -> list[list[str]]:
    tuples = list(zip(*sizes.values(), strict=False))
    return [[name for names in tuples[i::count] for name in names] for i in range(count)]


def _best_length(counts: Sequence[int], *, least: int) -> int:
    """Tuples per group that waste the fewest when each count is rounded up; ties to the most."""
    lengths = range(max(least, 1), max(counts) + 1)
    if not lengths:
        return max(least, 1)
    return min(lengths, key=lambda d: (sum(-count % d for count in counts), -d))
