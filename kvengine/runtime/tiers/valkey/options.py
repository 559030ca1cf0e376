"""What can be set for a shared store, with its defaults; keys as in ``secondary_tiers[]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen
from attrs.validators import and_, deep_iterable, ge, gt, instance_of, matches_re, min_len, optional

from kvengine.runtime.tiers.base import TierError

__all__ = ["Address", "ValkeyOptions", "addresses"]

_SCHEMES = {
    "redis": False,
    "valkey": False,
    "rediss": True,
    "valkeys": True,
    "unix": False,
}
_PORT = 6379
_SENTINEL_PORT = 26379
_NONE_OR_POSITIVE: Any = optional(and_(instance_of(int), ge(1)))


def _count(least: int, default: int) -> Any:
    return field(default=default, validator=and_(instance_of(int), ge(least)))


def _text() -> Any:
    return field(default=None, validator=optional(and_(instance_of(str), min_len(1))))


def _urls(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@frozen(kw_only=True)
class ValkeyOptions:
    """A shared store, as configured. Secrets come from the environment and stay out of here."""

    url: tuple[str, ...] = field(
        converter=_urls, validator=and_(min_len(1), deep_iterable(instance_of(str)))
    )
    """``valkey://host:port/db`` (``valkeys://`` with TLS, ``unix:///path``; ``redis://`` and
    ``rediss://`` mean the same); several for the nodes of a cluster, or for sentinels."""
    cluster: bool = field(default=False, validator=instance_of(bool))
    """Whether the servers form a Cluster."""
    service: str | None = _text()
    """Name of the service that sentinels at ``url`` watch over."""
    username: str | None = _text()
    password_env: str | None = _text()
    """Name of the environment variable that holds the password."""
    sentinel_username: str | None = _text()
    sentinel_password_env: str | None = _text()
    """The same for the sentinels themselves."""
    tls_ca: str | None = _text()
    """File of certificates to trust; default: the system's."""
    tls_cert: str | None = _text()
    tls_key: str | None = _text()
    """The client's own certificate and key, where the server asks for them."""
    prefix: str = field(
        default="kvengine", validator=and_(instance_of(str), matches_re(r"[A-Za-z0-9_.-]+"))
    )
    """What all keys in the store begin with."""
    ttl_s: int | None = field(default=86400, validator=_NONE_OR_POSITIVE)
    """How long the server keeps a chunk after the last put of it; None: until it evicts it."""
    timeout_s: float = field(default=5.0, validator=gt(0))
    """Deadline of a batch that names none, retries included."""
    connect_timeout_s: float = field(default=1.0, validator=gt(0))
    retries: int = _count(0, 2)
    """Further attempts after a failed one, while the deadline allows."""
    threads: int = _count(1, 4)
    """Loads, and stores, at a time: a connection each."""
    queue_bytes: int = _count(1, 256 << 20)
    """Bytes that may wait in each queue; more is refused."""
    presence_s: float = field(default=2.0, validator=gt(0))
    """How long what ``exists`` learnt is good for."""


@frozen
class Address:
    """Where a server is."""

    host: str
    port: int
    path: str
    db: int
    tls: bool


def addresses(options: ValkeyOptions) -> list[Address]:
    """The servers of the options; TierError when they make no sense together."""
    if options.cluster and options.service:
        raise TierError("'cluster' and 'service' (sentinels) exclude each other")
    if len(options.url) > 1 and not (options.cluster or options.service):
        raise TierError("several urls need 'cluster' or 'service' (sentinels)")
    port = _SENTINEL_PORT if options.service else _PORT
    found = [_address(url, port) for url in options.url]
    if len({address.tls for address in found}) > 1:
        raise TierError("all urls must use TLS, or none")
    if any(address.path for address in found) and (options.cluster or options.service):
        raise TierError("a unix socket leads to a single server, not to a cluster or sentinel")
    if options.cluster and any(address.db for address in found):
        raise TierError("a cluster has no databases; leave the number out of the url")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise TierError("'tls_cert' and 'tls_key' need each other")
    given = [options.tls_ca, options.tls_cert]
    if any(name is not None for name in given) and not found[0].tls:
        raise TierError("'tls_ca' and 'tls_cert' need a url that begins with valkeys://")
    return found


def _address(text: str, port: int) -> Address:
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise TierError(f"a url is not valid: {error}") from None
    if url.scheme not in _SCHEMES:
        raise TierError(f"a url begins with {', '.join(f'{s}://' for s in _SCHEMES)}")
    if url.username or url.password:
        raise TierError("a url holds no credentials; use 'username' and 'password_env'")
    if url.query or url.fragment:
        raise TierError("a url ends with the number of the database; set options by their keys")
    if url.scheme == "unix":
        if url.netloc or not url.path.strip("/"):
            raise TierError("a unix socket is named by its whole path: unix:///run/valkey.sock")
        return Address("", 0, url.path, 0, False)
    try:
        number = int(url.path.strip("/") or 0)
        return Address(
            url.hostname or "localhost", url.port or port, "", number, _SCHEMES[url.scheme]
        )
    except ValueError as error:
        raise TierError(f"{url.hostname}: the url has no valid port or database") from error
