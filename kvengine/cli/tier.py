"""``kvengine tier``: look into a disk tier, verify it, and give back what nobody uses."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from attrs import asdict

from kvengine.cli import UsageError
from kvengine.cli.page import Facts, Grid, Section, print_page
from kvengine.cli.terminal import out
from kvengine.units import format_bytes

if TYPE_CHECKING:
    from kvengine.runtime.tiers.disk.inspect import NamespaceFacts, Verified
    from kvengine.runtime.tiers.disk.root import LaneFiles

__all__ = ["configure", "run"]

_EXAMPLES = """\
examples:
  kvengine tier ls /var/cache/kv
  kvengine tier verify /var/cache/kv --json
  kvengine tier gc /var/cache/kv --unused 7d
  kvengine tier gc /var/cache/kv --unused 7d --delete

ls and verify only read, also while engines use the tier. gc says what it would remove: what no
process owns and nobody wrote to for so long; --delete removes it. Exit code 1: verify found
chunks that are not what was stored, or something that it could not read.
"""
_SPAN = re.compile(r"([0-9]+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``tier``."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("what", choices=("ls", "verify", "gc"), help="list, read and compare, or reclaim")
    add("dir", metavar="DIR", help="root_dir of the tier")
    add("--json", action="store_true", help="print the facts as JSON")
    add("--unused", type=_span, default=7 * 86400, metavar="SPAN", help="gc: 30m, 12h, 7d (7d)")
    add("--namespace", metavar="DIGEST", help="gc: only this one")
    add("--delete", action="store_true", help="gc: really remove it")


def run(arguments: argparse.Namespace) -> int:
    """Look, verify or reclaim; returns the exit code."""
    from kvengine.runtime.tiers.base import TierError

    commands: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "ls": _ls,
        "verify": _verify,
        "gc": _gc,
    }
    try:
        return commands[arguments.what](arguments)
    except BrokenPipeError:
        raise
    except (TierError, OSError) as error:
        raise UsageError(f"tier: {error}") from None
    except ModuleNotFoundError as error:
        raise UsageError(
            f'tier needs {error.name}, which is not installed: pip install "kvengine[runtime]"'
        ) from None


def _ls(arguments: argparse.Namespace) -> int:
    from kvengine.runtime.tiers.disk.inspect import look

    found = look(arguments.dir)
    if arguments.json:
        _print_json(asdict(found))
        return 0
    sections = [section for each in found.namespaces for section in _namespace(each)]
    sections += _closed(found.closed)
    if sections:
        print_page(sections, sys.stdout)
    else:
        out("nothing is stored here\n")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from kvengine.runtime.tiers.disk.inspect import verify

    found = verify(arguments.dir, _progress)
    if arguments.json:
        _print_json(asdict(found))
    else:
        print_page(list(_verified(found)), sys.stdout)
    return 1 if found.bad or found.unreadable_segments or found.closed else 0


def _gc(arguments: argparse.Namespace) -> int:
    from kvengine.runtime.tiers.disk.inspect import collect

    found = collect(
        arguments.dir,
        unused_s=arguments.unused,
        delete=arguments.delete,
        namespace=arguments.namespace,
    )
    if arguments.json:
        lanes = [
            {"namespace": lane.namespace, "lane": lane.lane, "used_bytes": lane.num_bytes}
            for lane in found
        ]
        _print_json({"deleted": arguments.delete, "lanes": lanes})
    else:
        print_page(list(_collected(found, arguments.delete)), sys.stdout)
    return 0


def _namespace(found: NamespaceFacts) -> Iterator[Section]:
    known = found.identity or {}
    groups = known.get("groups", [])
    yield Facts(
        (
            ("namespace", found.digest),
            ("model", str(known.get("model", "unknown"))),
            ("cache", f"{known.get('cache_dtype', '?')}, {known.get('layout', '?')}"),
            ("rank", str(known.get("rank", "?"))),
            ("chunks of", ", ".join(format_bytes(group["chunk_bytes"]) for group in groups)),
        )
    )
    rows = tuple(
        (
            lane.lane,
            f"process {lane.owner.get('pid', '?')}" if lane.owner is not None else "none",
            f"{lane.segments}"
            + (f", {lane.unreadable_segments} unreadable" if lane.unreadable_segments else ""),
            f"{lane.chunks:,}",
            format_bytes(lane.payload_bytes),
            format_bytes(lane.used_bytes),
            _moment(lane.last_used_s),
        )
        for lane in found.lanes
    )
    header = ("lane", "owner", "segments", "chunks", "payload", "occupied", "last written")
    yield Grid("lanes", header, rows, frozenset({"lane", "owner", "last written"}))


def _verified(found: Verified) -> Iterator[Section]:
    yield Facts(
        (
            ("read", f"{found.chunks:,} chunks, {format_bytes(found.payload_bytes)}"),
            ("bad", f"{len(found.bad):,} chunks"),
            ("unreadable", f"{len(found.unreadable_segments):,} segments"),
        )
    )
    if found.bad:
        rows = tuple((bad.key, f"{bad.num_bytes}", f"{bad.offset}", bad.path) for bad in found.bad)
        header = ("key", "bytes", "offset", "file")
        yield Grid("chunks that are not what was stored", header, rows, frozenset({"key", "file"}))
    if found.unreadable_segments:
        paths = tuple((path,) for path in found.unreadable_segments)
        yield Grid("segments that cannot be read", ("file",), paths, frozenset({"file"}))
    yield from _closed(found.closed)


def _closed(names: tuple[str, ...]) -> list[Section]:
    """What nothing can be said of."""
    rows = tuple((name,) for name in names)
    title = "not looked into: links, or closed to this user"
    return [Grid(title, ("directory",), rows, frozenset({"directory"}))] if rows else []


def _collected(found: tuple[LaneFiles, ...], deleted: bool) -> Iterator[Section]:
    total = format_bytes(sum(lane.num_bytes for lane in found))
    what = "removed" if deleted else "would be removed (--delete does it)"
    yield Facts((("unused lanes", f"{len(found)}, {total}: {what}"),))
    rows = tuple(
        (lane.namespace, lane.lane, format_bytes(lane.num_bytes), _moment(lane.last_used_s))
        for lane in found
    )
    if rows:
        header = ("namespace", "lane", "occupied", "last written")
        yield Grid("lanes", header, rows, frozenset({"namespace", "lane", "last written"}))


def _print_json(facts: Mapping[str, Any]) -> None:
    out(json.dumps({"version": 1, **facts}, indent=2) + "\n")


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        line = f"{done / max(total, 1):4.0%} verified" if done < total else ""
        out(f"\r\x1b[K{line}", sys.stderr)
        sys.stderr.flush()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _span(text: str) -> float:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30m, 12h or 7d")
    return int(match[1]) * _SECONDS[match[2]]
