"""kvengine's own tiers: a bounded directory, and a shared store. Only with its own spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from kvengine.config.tiers import OwnTier
from kvengine.rules.conditions import (
    Absent,
    AnyMatches,
    AnyUnlike,
    Given,
    In,
    Matches,
    On,
    Several,
)
from kvengine.rules.options import option, refuses_unknown
from kvengine.rules.relations import Fault, Requires, rules

__all__ = ["DiskOptions", "ValkeyOptions"]

_MIB = 1 << 20
_PLAIN = r"^(redis|valkey|unix)://"
_TLS = r"^(rediss|valkeys)://"
_PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = r"(\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]|[A-Za-z0-9_.-]*)"
_ADDRESS = (
    rf"^(redis|rediss|valkey|valkeys)://([^/]*@)?{_HOST}(:{_PORT}?)?(/[0-9]*/?)?$|^unix:///[^?#]+$"
)
_SERVER = r"^(redis|rediss|valkey|valkeys)://"


def _filled(*names: str) -> tuple[Fault, ...]:
    """Texts that are not empty."""
    return tuple(
        Fault(at=In(name, ("",)), says="is empty", because="leave it out", code="range")
        for name in names
    )


@refuses_unknown
@rules(
    Fault(at=In("root_dir", ("",)), says="is empty", because="name a directory", code="range"),
    Fault(
        at=Matches("root_dir", "^~"),
        says="begins with ~, which stands for nothing here",
        because="a directory of that name would be made: write the whole path",
        severity="warning",
    ),
    Fault(
        at=Matches("root_dir", "^[^/~]"),
        says="is relative to wherever the engine is started",
        because="another start would not find the chunks: write the whole path",
        severity="warning",
    ),
)
@frozen(kw_only=True, slots=False)
class DiskOptions(OwnTier):
    """Segment files below a directory, within a hard limit, checked on every read."""

    type: Literal["fs"] = option("Which tier.", required=True, default="fs", examples=("fs",))
    root_dir: str = option("Directory for the segments.", examples=("/var/cache/kv",))
    max_bytes: int | None = option(
        "Hard limit over everything below root_dir, all models and processes together.",
        unit="bytes",
        ge=5 * _MIB,
        default=None,
        nullable=True,
        default_text="nine tenths of what is free at the start",
        examples=(214748364800,),
    )
    segment_bytes: int | None = option(
        "Size of one segment file, the unit of eviction.",
        unit="bytes",
        ge=_MIB,
        default=None,
        nullable=True,
        default_text="a 128th of the limit, 1 to 256 MiB",
        examples=(67108864,),
    )
    fsync: Literal["never", "seal", "put"] = option(
        "When to wait for the device: never, soon after a segment is full (a few may wait), or"
        " before a store is done. Wrong bytes are impossible with each.",
        default="never",
        examples=("seal",),
    )
    direct: bool | Literal["auto"] = option(
        "O_DIRECT: where it works, demanded, or not at all.", default="auto", examples=("auto",)
    )
    n_read_threads: int = option(
        "Threads that load; one more verifies checksums meanwhile.",
        unit="threads",
        ge=1,
        default=4,
        examples=(4,),
    )
    n_write_threads: int = option(
        "Threads that store, and load when they have nothing to store; one more computes checksums"
        " meanwhile.",
        unit="threads",
        ge=1,
        default=4,
        examples=(4,),
    )
    timeout_s: float = option(
        "Deadline of a batch.", unit="seconds", gt=0, default=30.0, examples=(30,)
    )
    refresh_s: float = option(
        "How often to look for what other processes wrote.",
        unit="seconds",
        gt=0,
        default=2.0,
        examples=(2,),
    )


@refuses_unknown
@rules(
    Fault(
        at=Given("service"),
        when=(On("cluster"),),
        says="cannot be combined with 'cluster'",
        because="a Cluster has no sentinels",
        code="exclusive",
    ),
    Requires("tls_key", needs=("tls_cert",), because="a key without its certificate is no use"),
    Requires(
        "tls_cert", needs=("tls_key",), because="a certificate proves nothing without its key"
    ),
    Fault(
        at=AnyUnlike("url", rf"{_SERVER}|^unix:///[^?#]+$"),
        says="must begin with valkey://, valkeys://, redis://, rediss:// or unix:///",
        because="the scheme says how to reach the server",
        code="choice",
    ),
    Fault(
        at=AnyMatches("url", r"^[a-z]+://[^/]*@"),
        says="holds credentials",
        because="they belong into username and, by way of the environment, password_env",
    ),
    Fault(
        at=AnyUnlike("url", _ADDRESS),
        when=(AnyMatches("url", _SERVER),),
        says="must end with host:port, or host:port/number of the database",
        because="ports go up to 65535, and options have keys of their own",
        code="range",
    ),
    Fault(
        at=AnyMatches("url", r"\s"),
        says="holds white space",
        because="no server's address has any",
        code="range",
    ),
    Fault(at=In("url", ([],)), says="is empty", because="name a server", code="range"),
    Fault(
        at=Several("url"),
        when=(In("cluster", (False,), when_absent=True), Absent("service")),
        says="names several servers, which needs cluster or service",
        because="a single server has a single address",
        code="requires",
    ),
    Fault(
        at=AnyMatches("url", _TLS),
        when=(AnyMatches("url", _PLAIN),),
        says="uses TLS for some servers only",
        because="use valkeys:// for all of them, or for none",
    ),
    *(
        Fault(
            at=Given(name),
            when=(AnyMatches("url", _PLAIN),),
            says="needs a url that begins with valkeys://",
            because="the scheme of this one says that nothing is encrypted",
        )
        for name in ("tls_ca", "tls_cert")
    ),
    *(
        Fault(
            at=AnyMatches("url", "^unix://"),
            when=(condition,),
            says="is a socket of this machine, and neither a cluster nor a sentinel",
            because="those are reached by host and port",
        )
        for condition in (On("cluster"), Given("service"))
    ),
    Fault(
        at=AnyMatches("url", r"^[a-z]+://[^/]*/0*[1-9]"),
        when=(On("cluster"),),
        says="has the number of a database",
        because="a Cluster has no databases",
    ),
    *_filled(
        "prefix",
        "service",
        "username",
        "password_env",
        "sentinel_username",
        "sentinel_password_env",
    ),
    *_filled("tls_ca", "tls_cert", "tls_key"),
    Fault(
        at=Matches("prefix", "[^A-Za-z0-9_.-]"),
        says="may hold letters, digits, dots, dashes and underscores, not {value}",
        because="it becomes part of every key",
        code="range",
    ),
)
@frozen(kw_only=True, slots=False)
class ValkeyOptions(OwnTier):
    """Chunks in Valkey or Redis, shared by engines; secrets come from the environment."""

    type: Literal["valkey"] = option(
        "Which tier.", required=True, default="valkey", examples=("valkey",)
    )
    url: str | Sequence[str] = option(
        "Where the server is: valkey://host:port/db, valkeys:// with TLS, unix:///path; several"
        " for the nodes of a Cluster, or for sentinels.",
        examples=("valkey://cache:6379/0",),
    )
    cluster: bool = option("Whether the servers form a Cluster.", default=False, examples=(True,))
    service: str | None = option(
        "Name of the service that the sentinels at url watch over.",
        default=None,
        nullable=True,
        examples=("kv",),
    )
    username: str | None = option("User.", default=None, nullable=True, examples=("kv",))
    password_env: str | None = option(
        "Environment variable that holds the password.",
        default=None,
        nullable=True,
        examples=("KV_PASSWORD",),
    )
    sentinel_username: str | None = option(
        "User at the sentinels.", default=None, nullable=True, examples=("kv",)
    )
    sentinel_password_env: str | None = option(
        "Environment variable that holds the sentinels' password.",
        default=None,
        nullable=True,
        examples=("KV_SENTINEL_PASSWORD",),
    )
    tls_ca: str | None = option(
        "File of certificates to trust.",
        default=None,
        nullable=True,
        default_text="the system's",
        examples=("/etc/ssl/ca.pem",),
    )
    tls_cert: str | None = option(
        "The client's own certificate.",
        default=None,
        nullable=True,
        examples=("/etc/ssl/client.pem",),
    )
    tls_key: str | None = option(
        "Key of the client's certificate.",
        default=None,
        nullable=True,
        examples=("/etc/ssl/client.key",),
    )
    prefix: str = option(
        "What all keys in the store begin with.", default="kvengine", examples=("kvengine",)
    )
    ttl_s: int | None = option(
        "How long the server keeps a chunk after its last store; null: until it evicts it.",
        unit="seconds",
        ge=1,
        default=86400,
        nullable=True,
        examples=(86400,),
    )
    timeout_s: float = option(
        "Deadline of a batch, retries included.",
        unit="seconds",
        gt=0,
        default=5.0,
        examples=(5,),
    )
    connect_timeout_s: float = option(
        "Deadline of a connection.", unit="seconds", gt=0, default=1.0, examples=(1,)
    )
    retries: int = option(
        "Further attempts after a failed one.", unit="attempts", ge=0, default=2, examples=(2,)
    )
    threads: int = option(
        "Connections for loads and stores; as many again that only load.",
        unit="threads",
        ge=1,
        default=4,
        examples=(4,),
    )
    presence_s: float = option(
        "How long what was learnt about the presence of chunks is good for.",
        unit="seconds",
        gt=0,
        default=2.0,
        examples=(2,),
    )
