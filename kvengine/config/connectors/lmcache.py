"""LMCache inside vLLM: ``LMCacheConnectorV1`` and ``LMCacheMPConnector``."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.rules.conditions import Matches
from kvengine.rules.options import option, own_keys
from kvengine.rules.readings import FloatCall, Truth
from kvengine.rules.relations import Fault, rules

__all__ = ["LMCacheConnectorV1", "LMCacheMPConnector"]


@own_keys("^x-", r"^lmcache\.")
@frozen(kw_only=True, slots=False)
class LMCacheConnectorV1(ExtraConfig):
    """LMCache in the engine's own process. Keys that begin with lmcache. go to LMCache."""

    use_native: bool = option(
        "Use the adapter inside vLLM instead of that of the installed lmcache package.",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    use_layerwise: bool = option(
        "Tells vLLM to run CUDA graphs piecewise; lmcache.use_layerwise is what switches LMCache's"
        " own mode on. Both are needed.",
        default=False,
        reading=Truth(),
        examples=(True,),
        traps=("either key without the other does half of the job",),
    )
    discard_partial_chunks: bool = option(
        "Drop the last, partial chunk (native adapter).",
        default=False,
        reading=Truth(),
        examples=(True,),
    )
    skip_last_n_tokens: int = option(
        "Do not store the last tokens (native adapter).", unit="tokens", default=0, examples=(0,)
    )


_NO_PORT = Fault(
    at=Matches("lmcache.mp.host", r"^([a-z]+://)?[^:/\[\]]+:[0-9]+$"),
    says="holds a port, {value}; the connector puts its own behind it",
    because="give the address alone, the port goes into lmcache.mp.port",
    code="range",
)
_SCHEME = Fault(
    at=Matches("lmcache.mp.host", r"^[^:]*$"),
    says="has no scheme, {value}",
    because="write tcp:// before the address",
    code="range",
)


@rules(_NO_PORT, _SCHEME)
@own_keys("^x-", r"^lmcache\.")
@frozen(kw_only=True, slots=False)
class LMCacheMPConnector(ExtraConfig):
    """LMCache as a server of its own. From 0.22 an installed lmcache package takes its place.

    Keys have dots in their names, which dotted flags cannot set. LMCACHE_USE_UPSTREAM_MP keeps
    vLLM's own class.
    """

    host: str = option(
        "Address of the server, with its scheme and without a port.",
        key="lmcache.mp.host",
        default="tcp://localhost",
        examples=("tcp://lmcache",),
        traps=("without tcp:// the address is invalid",),
    )
    port: int | str = option(
        "Port of the server.",
        key="lmcache.mp.port",
        unit="port",
        default=5555,
        examples=(5555,),
    )
    mq_timeout: float = option(
        "How long a request may take.",
        key="lmcache.mp.mq_timeout",
        unit="seconds",
        default=300.0,
        reading=FloatCall(),
        examples=(300,),
    )
    heartbeat_interval: float = option(
        "Pause between heartbeats.",
        key="lmcache.mp.heartbeat_interval",
        unit="seconds",
        default=10.0,
        reading=FloatCall(),
        examples=(10,),
    )
