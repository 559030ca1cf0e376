"""The tier that ``bench --tier`` measures: in a place of its own, which is gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs

from kvengine.cli import UsageError
from kvengine.config.engine import Config
from kvengine.config.tiers import OWN_TIERS
from kvengine.config.tiers.own import DiskOptions
from kvengine.plan.plan import Plan
from kvengine.rules.shapes import fields_of
from kvengine.runtime.tiers.base import Tier, TierError
from kvengine.runtime.tiers.identity import identity_of
from kvengine.runtime.tiers.open import open_tier, options_of
from kvengine.runtime.tiers.raw import Raw, RawFile, RawStore

__all__ = ["opened_tier"]

_START_S = 10.0


@contextmanager
def opened_tier(text: str, plan: Plan, config: Config) -> Iterator[tuple[Tier, Raw] | None]:
    """A tier, and what its storage gives without it; None for ``host``, which has no other tier.

    ``text`` is ``fs`` or ``valkey``: the tier of that type in the config, else one in a temporary
    place; or a directory; or a table as in ``secondary_tiers[]`` written as JSON. UsageError if it
    cannot be opened, or does not do its work. SIGTERM leaves nothing behind either.
    """
    if text == "host":
        yield None
        return
    try:
        with _tidy_when_told_to_end(), ExitStack() as stack:
            yield _open(text, plan, config, stack)
    except (TierError, ValueError, OSError) as error:
        raise UsageError(f"bench: --tier: {error}") from None


def _open(text: str, plan: Plan, config: Config, stack: ExitStack) -> tuple[Tier, Raw]:
    table = _table(text, config)
    identity = identity_of(plan, config, runner="kvengine bench", hash_algorithm="random")
    if table.get("type") == "fs":
        table["root_dir"] = str(_folder(table.get("root_dir"), stack) / "tier")
    elif table.get("type") == "valkey" and "url" not in table:
        table["url"] = stack.enter_context(_server())
    options = options_of(table)
    tier = open_tier(options, identity)
    stack.callback(tier.close)
    raw: Raw
    if isinstance(options, DiskOptions):
        raw = RawFile(Path(options.root_dir).parent, options, tier)
    else:
        raw = RawStore(options)
    stack.callback(raw.close)
    return tier, raw


def _table(text: str, config: Config) -> dict[str, Any]:
    if text in ("fs", "valkey"):
        return _configured(text, config) or {"type": text}
    if not text.lstrip().startswith(("{", "[")):
        place = Path(text)
        if not text or not (place.is_dir() or (os.sep in text and not place.exists())):
            raise TierError(
                f"{text!r} is no tier: fs, valkey, host, a directory (a new one is written with a"
                " slash, as ./kv), or a JSON table"
            )
        return {"type": "fs", "root_dir": text}
    table = json.loads(text)
    if not isinstance(table, dict):
        raise TierError("a table is wanted, as an element of secondary_tiers")
    return table


def _configured(kind: str, config: Config) -> dict[str, Any] | None:
    """The first tier of a type that the config names."""
    extra = getattr(config.kv_transfer, "kv_connector_extra_config", None)
    for tier in getattr(extra, "secondary_tiers", None) or ():
        table = tier if isinstance(tier, Mapping) else attrs.asdict(tier, recurse=False)
        if table.get("type") == kind:
            declared = fields_of(OWN_TIERS[kind])  # vLLM's tier of this type has others, too
            return {key: value for key, value in table.items() if key in declared}
    return None


def _folder(root_dir: object, stack: ExitStack) -> Path:
    """A new directory: in ``root_dir``, so on its disk, if there is one."""
    where = None if root_dir is None else str(root_dir)
    if where is not None and not Path(where).is_dir():
        Path(where).mkdir(mode=0o700)
        stack.callback(Path(where).rmdir)
    made = tempfile.TemporaryDirectory(prefix="kvengine-bench-", dir=where)
    return Path(stack.enter_context(made))


@contextmanager
def _tidy_when_told_to_end() -> Iterator[None]:
    """Have SIGTERM end the block as an exception does."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def _server() -> Iterator[str]:
    """The url of a server that lives as long as the block and that nobody else can reach."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise TierError(
            "the file configures no valkey tier, and neither valkey-server nor redis-server is"
            " installed to start one; give a table with a url"
        )
    with tempfile.TemporaryDirectory(prefix="kvengine-bench-") as folder:
        path = Path(folder) / "socket"
        options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", folder]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            until_s = time.monotonic() + _START_S
            while not path.exists():
                if process.poll() is not None or time.monotonic() > until_s:
                    raise TierError(f"{program} does not start")
                time.sleep(0.01)
            yield f"unix://{path}"
        finally:
            process.kill()
            process.wait()
