"""Where the servers of a shared store are, read off their urls."""

from __future__ import annotations

from urllib.parse import urlsplit

from attrs import frozen

from kvengine.config.tiers.own import ValkeyOptions
from kvengine.runtime.tiers.base import TierError

__all__ = ["Address", "addresses", "urls_of"]

_PORT = 6379
_SENTINEL_PORT = 26379


@frozen
class Address:
    """Where a server is."""

    host: str
    port: int
    path: str
    db: int
    tls: bool


def urls_of(options: ValkeyOptions) -> tuple[str, ...]:
    """The urls, one or several."""
    return (options.url,) if isinstance(options.url, str) else tuple(options.url)


def addresses(options: ValkeyOptions) -> list[Address]:
    """The servers of options that were checked; TierError for a url that is none all the same."""
    port = _SENTINEL_PORT if options.service else _PORT
    try:
        return [_address(url, port) for url in urls_of(options)]
    except ValueError as error:
        raise TierError(f"a url is not valid: {error}") from None


def _address(text: str, port: int) -> Address:
    url = urlsplit(text)
    if url.scheme == "unix":
        return Address("", 0, url.path, 0, False)
    number = int(url.path.strip("/") or 0)
    tls = url.scheme in ("rediss", "valkeys")
    return Address(url.hostname or "localhost", url.port or port, "", number, tls)
