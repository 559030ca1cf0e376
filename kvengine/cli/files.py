"""Files that commands read and write: which ones are meant, and never half a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kvengine.cli import UsageError

__all__ = ["expand", "replace_file"]

_ENDINGS = (".toml", ".json", ".yaml", ".yml", ".sh", ".bash", ".service", ".env", ".py")
_NAMES = ("dockerfile", "containerfile")
_PASSED_OVER = {"node_modules", "__pycache__", "site-packages", "venv"}


def expand(names: Sequence[str], *, recursive: bool) -> Iterator[tuple[str, bool]]:
    """Every file that is meant, and whether it was named: others may turn out not to be ours.

    UsageError for a directory without ``recursive``.
    """
    for name in names:
        if name == "-" or not Path(name).is_dir():
            yield name, True
        elif recursive:
            yield from ((found, False) for found in _below(name))
        else:
            raise UsageError(f"{name} is a directory; --recursive checks the files in it")


def _below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _PASSED_OVER
        )
        for name in sorted(names):
            if name.lower().endswith((*_ENDINGS, *_NAMES)) or name.lower().startswith(_NAMES):
                yield str(Path(here, name))


def replace_file(name: str, old: bytes, new: bytes) -> None:
    """Put ``new`` in place of the file's content at once, keeping its mode and links to it.

    UsageError when the file no longer holds ``old``, or cannot be written; it is then as it was.
    """
    target = Path(name).resolve()
    made: str | None = None
    try:
        if target.read_bytes() != old:
            raise UsageError(f"{name} was changed by somebody else meanwhile; nothing was written")
        handle, made = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            status = target.stat()
            with suppress(PermissionError):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(target)
        made = None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{name} cannot be written: {reason}") from None
    finally:
        if made is not None:
            Path(made).unlink(missing_ok=True)
