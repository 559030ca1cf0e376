"""What ``check --probe`` asks this machine: can the tiers of a config work here?

It looks and touches nothing: no file is made, no server spoken to. Directories are asked for
permissions and free space, certificates for being readable, the environment for passwords.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from kvengine.config.engine import Config
from kvengine.errors import Path, Problem
from kvengine.plan.tiers import OWN_SPEC
from kvengine.units import format_bytes

__all__ = ["probe_problems"]

_TIERS: Path = ("kv_transfer", "kv_connector_extra_config", "secondary_tiers")


def probe_problems(config: Config) -> Iterator[Problem]:
    """Problems of the tiers on this machine, for the user who asks."""
    extra = getattr(config.kv_transfer, "kv_connector_extra_config", None)
    own = getattr(extra, "spec_name", None) == OWN_SPEC
    for number, tier in enumerate(getattr(extra, "secondary_tiers", None) or ()):
        read = tier.get if isinstance(tier, Mapping) else _reader(tier)
        at = (*_TIERS, number)
        root_dir = read("root_dir")
        if read("type") == "fs" and isinstance(root_dir, str):
            yield from _directory(root_dir, read("max_bytes") if own else None, at)
        elif read("type") == "valkey" and own:
            yield from _secrets(read, at)


def _reader(tier: object) -> Any:
    return lambda key: getattr(tier, key, None)


def _directory(name: str, max_bytes: Any, at: Path) -> Iterator[Problem]:
    """The directory, or the nearest one above it that there is, in which it would be made."""
    where = (*at, "root_dir")
    folder = FilePath(name)
    try:
        while not os.path.lexists(folder) and folder != folder.parent:
            folder = folder.parent
        mode = folder.stat().st_mode
        free_bytes = _free_bytes(folder)
    except OSError as error:
        yield _missing(where, f"{folder} cannot be looked at: {error.strerror}", "mend that first")
        return
    if not stat.S_ISDIR(mode):
        yield _missing(where, f"{folder} is no directory", "name one")
        return
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield _missing(where, f"{folder} is on a read-only file system", "choose another directory")
        return
    lacks = [word for word, bit in _RIGHTS.items() if not os.access(folder, bit)]
    if lacks:
        owner = folder.stat().st_uid
        yield _missing(
            where,
            f"user {os.geteuid()} may not {' or '.join(lacks)} in {folder}"
            f" (mode {stat.S_IMODE(mode):04o}, owner {owner})",
            f"chown it to user {os.geteuid()}, or choose another directory",
        )
    if isinstance(max_bytes, int) and max_bytes > free_bytes + _used_bytes(FilePath(name)):
        yield Problem(
            "capacity",
            (*at, "max_bytes"),
            f"is {max_bytes} bytes ({format_bytes(max_bytes)}), but only {format_bytes(free_bytes)}"
            f" are free at {folder}",
            "free space, or lower it: a full disk costs misses",
            "warning",
        )


_RIGHTS = {"list": os.R_OK, "write": os.W_OK, "enter": os.X_OK}


def _free_bytes(folder: FilePath) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _used_bytes(folder: FilePath) -> int:
    """What is below a directory already, as far as that can be seen."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (FilePath(place) / name).lstat().st_blocks * 512
            except OSError:
                continue  # gone meanwhile
    return total


def _secrets(read: Any, at: Path) -> Iterator[Problem]:
    for key in ("password_env", "sentinel_password_env"):
        name = read(key)
        if isinstance(name, str) and not os.environ.get(name):
            yield _missing((*at, key), f"the environment here has no {name}", "export it")
    for key in ("tls_ca", "tls_cert", "tls_key"):
        name = read(key)
        if not isinstance(name, str):
            continue
        if not FilePath(name).is_file():
            yield _missing((*at, key), f"{name} is no file here", "name the file")
        elif not os.access(name, os.R_OK):
            yield _missing(
                (*at, key), f"user {os.geteuid()} may not read {name}", "give the right to read"
            )
        elif b"-----BEGIN " not in _beginning(FilePath(name)):
            yield _missing((*at, key), f"{name} holds nothing in PEM form", "name another file")


def _beginning(path: FilePath) -> bytes:
    with path.open("rb") as file:
        return file.read(1 << 20)


def _missing(at: Path, message: str, hint: str) -> Problem:
    return Problem("missing", at, message, hint)
