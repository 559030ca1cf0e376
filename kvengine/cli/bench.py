"""``kvengine bench``: a small cache as planned, moved to host memory and back, and verified."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kvengine.cli import UsageError
from kvengine.cli.page import Facts, Grid, Section, print_page
from kvengine.cli.plan_flags import add_flags
from kvengine.cli.terminal import out
from kvengine.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from kvengine.cli.planning import Planned
    from kvengine.plan.plan import Plan
    from kvengine.runtime.bench import BenchReport, Progress

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine bench serve.toml
  kvengine bench serve.toml --seconds 30 --use "2 GiB" --json
  kvengine bench serve.toml --tier fs
  kvengine bench serve.toml --tier /mnt/nvme/kv
  kvengine bench transfer.json --model config.json --memory "40 GiB" --device cuda

Every figure stands beside its limit in the same run: one big copy of the same bytes; for a tier raw
reads and writes in its I/O mode, or the client's own GET and SET. --tier fs and --tier valkey take
the tier that the file configures, else a temporary directory, or a server started for the purpose;
what they leave is removed. Needs torch: pip install "kvengine[runtime]".
"""


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``bench``."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="document, manifest, script, ...; - is stdin")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--config", type=int, metavar="N", help="which config of a file that holds several")
    add("--vllm", metavar="R", help="vLLM release; goes before the one that the file names")
    add("--device", default="cpu", metavar="D", help="cpu (default), cuda, cuda:1, ...")
    add("--use", type=_size, default=384 << 20, metavar="SIZE", help="memory to take (384 MiB)")
    add(
        "--tier",
        default="host",
        metavar="TIER",
        help="measure this tier, too: fs, valkey, a directory for fs, or a JSON table",
    )
    add("--seconds", type=float, default=10.0, metavar="S", help="how long to measure (10)")
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan, allocate, move, verify, report; returns the exit code."""
    from kvengine.cli.plan_view import model_name
    from kvengine.cli.planning import Refused, plan_or_refuse
    from kvengine.plan.make import make_plan

    made = plan_or_refuse(arguments)
    if isinstance(made, Refused):
        made.tell(as_json=arguments.json)
        return made.exit_code
    other = make_plan(made.config, packing="never" if made.plan.packed else "always")
    report = _measured(made, other, arguments)
    if arguments.json:
        out(json.dumps(report.to_dict(), indent=2) + "\n")
    else:
        print_page([*_page(report, model_name(made.config))], sys.stdout)
    return 0


def _measured(made: Planned, other: Plan, arguments: argparse.Namespace) -> BenchReport:
    try:
        from kvengine.cli.bench_tier import opened_tier
        from kvengine.runtime.bench import run_bench
    except ModuleNotFoundError as error:
        raise UsageError(
            f'bench needs {error.name}, which is not installed: pip install "kvengine[runtime]"'
        ) from None
    with (
        opened_tier(arguments.tier, made.plan, made.config) as opened,
        _progress() as progress,
    ):
        tier, raw = opened or (None, None)
        return run_bench(
            made.plan,
            (other,),
            tier=tier,
            raw=raw,
            device=arguments.device,
            memory_bytes=arguments.use,
            seconds=arguments.seconds,
            progress=progress,
        )


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on a terminal. It is drawn between measurements only, not by a thread of its own."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True, auto_refresh=False) as bars:
        task = bars.add_task("", total=1.0)
        yield lambda what, share: bars.update(task, description=what, completed=share, refresh=True)


def _page(report: BenchReport, title: str) -> Iterator[Section]:
    """Transfers by group and layout, then the cost of bookkeeping."""
    yield Facts(
        (
            ("model", title),
            ("device", f"{report.device}, {format_bytes(report.memory_bytes)} in all"),
            ("verified", f"{format_bytes(report.verified_bytes)}, every byte as it was"),
            ("usable", f"{report.usable_share:.1%} of the host budget under a shifting mix"),
            *([("tier", report.tier)] if report.tier else []),
        )
    )
    moves = tuple(
        (
            str(one.group),
            one.layout,
            one.tier,
            one.direction,
            format_bytes(one.bytes),
            f"{one.bytes / one.seconds / 1e9:.2f}",
            "" if one.limit_bytes_per_s is None else f"{one.limit_bytes_per_s / 1e9:.2f}",
            "" if one.ratio is None else f"{one.ratio:.2f}",
        )
        for one in report.transfers
    )
    tiers = {one.tier for one in report.transfers} - {"host"}
    limit = "limit" if tiers else "one big copy"
    header = ("group", "layout", "tier", "direction", "bytes", "GB/s", limit, "ratio")
    words = frozenset({"layout", "tier", "direction"})
    others = "; of tiers, beside their storage used directly" if tiers else ""
    title = f"Transfers, each beside one big copy of the same bytes{others}"
    yield Grid(title, header, moves, words)
    books = tuple(
        (one.operation, one.policy, f"{one.chunks:,}", f"{one.seconds_per_chunk * 1e6:.2f}")
        for one in report.bookkeeping
    )
    columns = ("operation", "policy", "chunks", "microseconds/chunk")
    yield Grid("Bookkeeping", columns, books, frozenset({"operation", "policy"}))
