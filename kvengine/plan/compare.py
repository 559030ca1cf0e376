"""Two plans side by side: what changes between releases, or between configs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from kvengine.errors import PlanError, Problem
from kvengine.plan.findings import refusal
from kvengine.plan.plan import Group, Offload, Plan, Tier

__all__ = ["Comparison", "Row", "compare"]

Outcome = Plan | PlanError


@frozen
class Row:
    """One figure of both plans; None where a plan has no such figure."""

    name: str
    before: Any
    after: Any

    @property
    def changed(self) -> bool:
        """Whether the two differ."""
        return bool(self.before != self.after)

    @property
    def ratio(self) -> float | None:
        """``after / before`` of two numbers, None for anything else."""
        numbers = (int, float)
        if isinstance(self.before, bool) or not isinstance(self.before, numbers):
            return None
        if isinstance(self.after, bool) or not isinstance(self.after, numbers):
            return None
        return self.after / self.before if self.before else None

    def to_dict(self) -> dict[str, Any]:
        """The row as ``plan --compare --json`` prints it."""
        return {"name": self.name, "before": self.before, "after": self.after}


@frozen(kw_only=True)
class Comparison:
    """All figures of two plans in one order, and the findings that only one of them has.

    ``same_chunks``: chunks hold the same layers, tokens and bytes, and hashes as many tokens.
    Without that, nothing that a disk or a shared store holds is found again.
    """

    rows: tuple[Row, ...]
    new_problems: tuple[Problem, ...]
    gone_problems: tuple[Problem, ...]
    same_chunks: bool

    @property
    def changes(self) -> tuple[Row, ...]:
        """The rows that differ."""
        return tuple(row for row in self.rows if row.changed)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as ``plan --compare --json`` prints it (``version`` 1)."""
        return {
            "version": 1,
            "rows": [row.to_dict() for row in self.rows],
            "new_problems": [problem.to_dict() for problem in self.new_problems],
            "gone_problems": [problem.to_dict() for problem in self.gone_problems],
            "same_chunks": self.same_chunks,
        }


def compare(before: Outcome, after: Outcome) -> Comparison:
    """Both outcomes side by side; a refusal (:class:`~kvengine.PlanError`) is one, too."""
    old, new = _problems(before), _problems(after)
    return Comparison(
        rows=tuple(_rows(before, after)),
        new_problems=_only(new, old),
        gone_problems=_only(old, new),
        same_chunks=_same_chunks(before, after),
    )


_FIGURES = (
    *("vllm", "layout", "packed", "num_blocks", "bytes_per_block", "capacity_tokens"),
    *("max_concurrency", "request_max_bytes", "max_model_len", "cache_dtype"),
    *("tokens_per_block", "attention_backends", "tokens_per_hash", "scheduler_block_tokens"),
)
_CHUNKS = ("blocks_per_chunk", "tokens_per_chunk", "chunk_bytes")
_STORED = (*_CHUNKS, "vllm_bytes_per_chunk", "vllm_num_chunks", "replicated")


def _rows(before: Outcome, after: Outcome) -> Iterator[Row]:
    if isinstance(before, PlanError) or isinstance(after, PlanError):
        yield Row("refused", _told(before), _told(after))
    plans = [None if isinstance(one, PlanError) else one for one in (before, after)]

    def row(name: str, read: Callable[[Plan], Any]) -> Row:
        old, new = (None if plan is None else read(plan) for plan in plans)
        return Row(name, old, new)

    for name in _FIGURES:
        yield row(name, lambda plan, name=name: _plain(getattr(plan, name)))  # type: ignore[misc]
    yield row("allocations", lambda plan: len(plan.allocations))
    yield row("allocated_bytes", lambda plan: sum(plan.allocations))
    yield from _groups(*([] if plan is None else plan.groups for plan in plans))
    yield from _offloads(*(None if plan is None else plan.offload for plan in plans))
    stages: list[Sequence[Plan]] = [() if plan is None else plan.ranks or () for plan in plans]
    for index in range(max(map(len, stages))):
        alone = [s[index].num_blocks_alone if index < len(s) else None for s in stages]
        yield Row(f"stage {index} num_blocks_alone", *alone)


def _groups(before: Sequence[Group], after: Sequence[Group]) -> Iterator[Row]:
    yield Row("groups", len(before), len(after))
    for old, new in _paired([g.layers for g in before], [g.layers for g in after]):
        label = f"group {old if new is None else new}"
        if old is not None and new is not None and old != new:
            label = f"group {old} -> {new}"
        pair = (None if old is None else before[old], None if new is None else after[new])
        for name in ("kind", "layers", "tokens_per_block", "page_bytes", "row_bytes"):
            yield Row(f"{label} {name}", *(_of_group(group, name) for group in pair))


def _paired(
    before: Sequence[tuple[str, ...]], after: Sequence[tuple[str, ...]]
) -> Iterator[tuple[int | None, int | None]]:
    """Indices of groups of the same layers; of the others, in order."""
    found = {index: after.index(layers) for index, layers in enumerate(before) if layers in after}
    free = [index for index in range(len(after)) if index not in found.values()]
    for old in range(len(before)):
        yield old, found[old] if old in found else free.pop(0) if free else None
    yield from ((None, new) for new in free)


def _of_group(group: Group | None, name: str) -> Any:
    if group is None:
        return None
    value = getattr(group, name)
    return len(value) if name == "layers" else value


Offloaded = Offload | PlanError | None


def _offloads(before: Offloaded, after: Offloaded) -> Iterator[Row]:
    pair = (before, after)
    if before is None and after is None:
        return
    if any(isinstance(one, PlanError) for one in pair):
        yield Row("offload refused", *(_told(one) for one in pair))
    known = [one if isinstance(one, Offload) else None for one in pair]
    for name in _STORED:
        yield Row(name, *(one and _plain(getattr(one, name)) for one in known))
    tiers: list[Sequence[Tier]] = [one.tiers if one else () for one in known]
    for index in range(max(map(len, tiers))):
        found = [t[index] if index < len(t) else None for t in tiers]
        label = next(tier.type for tier in found if tier is not None)
        yield Row(f"{label} chunks", *(tier and list(tier.num_chunks) for tier in found))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return round(value, 6) if isinstance(value, float) else value


def _told(outcome: Any) -> str | None:
    return str(outcome.message) if isinstance(outcome, PlanError) else None


def _problems(outcome: Outcome) -> tuple[Problem, ...]:
    return (refusal(outcome),) if isinstance(outcome, PlanError) else outcome.problems


def _only(mine: Sequence[Problem], theirs: Sequence[Problem]) -> tuple[Problem, ...]:
    """Problems whose kind and place the other plan has not; figures may differ."""
    known = {(problem.code, problem.path, problem.severity) for problem in theirs}
    return tuple(p for p in mine if (p.code, p.path, p.severity) not in known)


def _same_chunks(before: Outcome, after: Outcome) -> bool:
    if isinstance(before, PlanError) or isinstance(after, PlanError):
        return False
    old, new = before.offload, after.offload
    if not isinstance(old, Offload) or not isinstance(new, Offload):
        return False
    if before.tokens_per_hash != after.tokens_per_hash:
        return False
    alike = [group.layers for group in before.groups] == [group.layers for group in after.groups]
    return alike and all(getattr(old, name) == getattr(new, name) for name in _CHUNKS)
