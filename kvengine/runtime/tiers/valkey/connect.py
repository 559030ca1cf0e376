"""Clients for the ways in which a store may be run; what they know of secrets stays in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.credentials import UsernamePasswordCredentialProvider
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from kvengine.config.tiers.own import ValkeyOptions
from kvengine.runtime.tiers.base import TierError
from kvengine.runtime.tiers.valkey.address import Address, addresses
from kvengine.runtime.tiers.valkey.sockets import Sockets
from kvengine.runtime.tiers.valkey.wire import connection_class

__all__ = ["connect"]


def connect(options: ValkeyOptions, sockets: Sockets) -> Any:
    """A client, thread-safe, that connects on first use (a cluster's: now), with ``sockets``.

    It never tries twice by itself: who knows the deadline does. Raises TierError for options that
    cannot work, and what the client raises when a cluster is not to be reached.
    """
    servers = addresses(options)
    common = _common(options, servers[0])
    if options.cluster:
        return _cluster(options, servers, common, sockets)
    if options.service:
        return _sentinel(options, servers, common, sockets)
    server = servers[0]
    kind = connection_class(sockets, tls=server.tls, unix=bool(server.path))
    place: dict[str, Any] = {"host": server.host, "port": server.port}
    if server.path:
        place = {"path": server.path}
        common.pop("socket_connect_timeout")
        common.pop("socket_keepalive")
    pool = ConnectionPool(connection_class=kind, db=server.db, **place, **common)
    return Redis(connection_pool=pool)


def _common(options: ValkeyOptions, server: Address) -> dict[str, Any]:
    common: dict[str, Any] = {
        "socket_timeout": options.timeout_s,
        "socket_connect_timeout": options.connect_timeout_s,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "client_name": "kvengine",
        "protocol": 2,
        "max_connections": 64 + 2 * options.threads,
    }
    common |= _credentials(options.username, options.password_env)
    if server.tls:
        for name in (options.tls_ca, options.tls_cert, options.tls_key):
            if name is not None and not Path(name).is_file():
                raise TierError(f"{name}, named for TLS, is not a file")
        common |= {
            "ssl_ca_certs": options.tls_ca,
            "ssl_certfile": options.tls_cert,
            "ssl_keyfile": options.tls_key,
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
        }
    return common


def _credentials(username: str | None, password_env: str | None) -> dict[str, Any]:
    if not (username or password_env):
        return {}
    password = os.environ.get(password_env) if password_env else None
    if password_env and not password:
        raise TierError(f"the environment variable {password_env} holds no password")
    provider = UsernamePasswordCredentialProvider(username, password)
    return {"credential_provider": provider}


def _cluster(
    options: ValkeyOptions, servers: list[Address], common: dict[str, Any], sockets: Sockets
) -> Any:
    kind = connection_class(sockets, tls=servers[0].tls)
    common.pop("client_name")
    problem: Exception | None = None
    for server in servers:
        try:
            return RedisCluster.from_url(
                f"redis://{server.host}:{server.port}", connection_class=kind, **common
            )
        except RedisError as error:
            problem = error
    assert problem is not None
    raise problem


def _sentinel(
    options: ValkeyOptions, servers: list[Address], common: dict[str, Any], sockets: Sockets
) -> Any:
    tls = servers[0].tls
    own = ("client_name", "credential_provider")
    to_sentinels = {name: common[name] for name in common if name not in own}
    to_sentinels |= _credentials(options.sentinel_username, options.sentinel_password_env)
    make: Any = Sentinel
    manager = make(
        [(server.host, server.port) for server in servers],
        sentinel_kwargs={"ssl": tls, **to_sentinels},
    )
    for sentinel in manager.sentinels:
        sentinel.connection_pool.connection_class = connection_class(sockets, tls=tls)
    return manager.master_for(
        options.service,
        connection_class=connection_class(sockets, tls=tls, sentinel=True),
        db=servers[0].db,
        **common,
    )
