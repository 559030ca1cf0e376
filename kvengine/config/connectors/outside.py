"""Well-known connectors of other packages: what is known of their keys, the rest passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import frozen

from kvengine.config.connectors.base import ExtraConfig
from kvengine.config.connectors.lmcache import LMCacheConnectorV1, LMCacheMPConnector
from kvengine.config.transfer import Child
from kvengine.errors import Problem, show
from kvengine.rules.options import open_keys, option
from kvengine.rules.relations import rules
from kvengine.rules.releases import ALWAYS, Releases

__all__ = [
    "AscendConnector",
    "AscendOffloadConnector",
    "AscendPairConnector",
    "AscendStoreConnector",
    "DynamoConnector",
    "LMCacheMPOutside",
    "LMCacheOutside",
    "PdConnector",
]


@frozen(kw_only=True, slots=False)
class LMCacheOutside(LMCacheConnectorV1):
    """The connector of the lmcache package itself."""

    values: Mapping[str, Any] = open_keys()


@frozen(kw_only=True, slots=False)
class LMCacheMPOutside(LMCacheMPConnector):
    """The multi-process connector of the lmcache package itself."""

    values: Mapping[str, Any] = open_keys()


@frozen(kw_only=True, slots=False)
class AscendConnector(ExtraConfig):
    """A connector of vllm-ascend."""

    use_ascend_direct: bool = option(
        "Transport between NPUs without a copy in host memory.", default=False, examples=(True,)
    )
    values: Mapping[str, Any] = open_keys()


@frozen(kw_only=True, slots=False)
class AscendPairConnector(AscendConnector):
    """Prefill to decode; both sides state the sizes of both."""

    prefill: Mapping[str, Any] = option(
        "Parallel sizes of the prefill engine; must equal its real ones.",
        factory=dict,
        examples=({"tp_size": 1, "dp_size": 1},),
    )
    decode: Mapping[str, Any] = option(
        "Parallel sizes of the decode engine; must equal its real ones.",
        factory=dict,
        examples=({"tp_size": 1, "dp_size": 1},),
    )


@frozen(kw_only=True, slots=False)
class AscendStoreConnector(AscendConnector):
    """Blocks in a shared store."""

    mooncake_rpc_port: int | str | None = option(
        "Tells the look-up sockets of engines on one host apart.", default=None, examples=("0",)
    )
    register_buffer: bool | None = option(
        "Register the cache's memory with the store.", default=None, examples=(True,)
    )


@frozen(kw_only=True, slots=False)
class AscendOffloadConnector(AscendConnector):
    """Blocks in host memory."""

    swap_in_threshold: int = option(
        "Tokens below which nothing is loaded back.", unit="tokens", default=0, examples=(0,)
    )
    cpu_swap_space_gb: float | None = option(
        "Host memory.", unit="GB", default=None, examples=(200,)
    )


@frozen(kw_only=True, slots=False)
class DynamoConnector(ExtraConfig):
    """Dynamo's block manager."""

    values: Mapping[str, Any] = open_keys()


@frozen
class FirstChild:
    """The first child is one of ``names``; said by the checker only."""

    names: tuple[str, ...]
    vllm: Releases = ALWAYS

    def violations(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """One problem, at the child's name."""
        children = given.get("connectors")
        first = children[0] if isinstance(children, list) and children else None
        name = first.get("kv_connector") if isinstance(first, Mapping) else None
        if isinstance(name, str) and name not in self.names:
            wanted = " or ".join(self.names)
            says = f"must be {wanted} in first place, not {show(name)}"
            yield Problem("conflict", ("connectors", 0, "kv_connector"), says)

    def as_schema(self, nullable: Set[str]) -> list[dict[str, Any]]:
        """Nothing: the schemas leave other packages' rules out."""
        return []

    def as_sentence(self) -> str:
        """The relation for the reference page."""
        return f"The first child is {' or '.join(self.names)}."


@rules(FirstChild(("DynamoConnector", "LMCacheConnectorV1")))
@frozen(kw_only=True, slots=False)
class PdConnector(ExtraConfig):
    """Dynamo's wrapper of an offloading child and a transfer child."""

    connectors: Sequence[Child] = option(
        "The children: first the one that offloads, then the one that transfers.",
        examples=(
            [
                {"kv_connector": "DynamoConnector", "kv_role": "kv_both"},
                {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
            ],
        ),
    )
    values: Mapping[str, Any] = open_keys()
