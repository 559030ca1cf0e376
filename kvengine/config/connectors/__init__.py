"""The connectors: one class for the extra config of each, loaded when somebody asks for it."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.connectors.any import AnyKeys
from kvengine.rules.options import Variant
from kvengine.rules.registry import Named, Registry
from kvengine.rules.releases import ALWAYS, NEVER, Release, Releases, Renamed

__all__ = ["CONNECTOR", "CONNECTORS", "OUTSIDE", "AnyKeys", "Connector"]

_HERE = "kvengine.config.connectors"
_ANY = f"{_HERE}.any:AnyKeys"
_OLD = Releases(until="0.11")


@frozen(kw_only=True)
class Connector(Named):
    """A connector's name. ``hybrid``: the releases in which it serves the hybrid KV manager."""

    hybrid: Releases = NEVER

    def is_hybrid(self, release: Release) -> bool:
        """Whether this release keeps the hybrid KV manager on with it."""
        return release in self.hybrid


def _old(instead: str, because: str = "it belongs to the V0 engine") -> Connector:
    return Connector(at=_ANY, vllm=_OLD, instead=instead, because=because)


def _ascend(at: str = f"{_HERE}.outside:AscendConnector") -> Connector:
    return Connector(at=at, origin="vllm-ascend", modules=("vllm_ascend",), hybrid=ALWAYS)


CONNECTORS = Registry(
    {
        "OffloadingConnector": Connector(
            at=f"{_HERE}.offloading:OffloadingConnector", hybrid=ALWAYS
        ),
        "SimpleCPUOffloadConnector": Connector(
            at=f"{_HERE}.simple:SimpleCPUOffloadConnector", hybrid=ALWAYS
        ),
        "NixlConnector": Connector(at=f"{_HERE}.nixl:NixlConnector", hybrid=ALWAYS),
        "NixlPullConnector": Connector(
            at=f"{_HERE}.nixl:NixlConnector", vllm=Releases(since="0.24"), hybrid=ALWAYS
        ),
        "NixlPushConnector": Connector(
            at=f"{_HERE}.nixl:NixlPushConnector", vllm=Releases(since="0.24"), hybrid=ALWAYS
        ),
        "MultiConnector": Connector(at=f"{_HERE}.multi:MultiConnector", hybrid=ALWAYS),
        "LMCacheConnectorV1": Connector(
            at=f"{_HERE}.lmcache:LMCacheConnectorV1",
            was=(Renamed("LMCacheConnector", _OLD),),
            because="LMCacheConnector is the name of the V0 engine",
        ),
        "LMCacheMPConnector": Connector(at=f"{_HERE}.lmcache:LMCacheMPConnector"),
        "MooncakeConnector": Connector(at=f"{_HERE}.mooncake:MooncakeConnector", hybrid=ALWAYS),
        "MooncakeStoreConnector": Connector(
            at=f"{_HERE}.mooncake_store:MooncakeStoreConnector", hybrid=Releases(since="0.22")
        ),
        "MoRIIOConnector": Connector(
            at=f"{_HERE}.moriio:MoRIIOConnector", hybrid=Releases(since="0.30")
        ),
        "HiSparseConnector": Connector(
            at=f"{_HERE}.stores:HiSparseConnector", vllm=Releases(since="0.30"), hybrid=ALWAYS
        ),
        "FlexKVConnectorV1": Connector(at=f"{_HERE}.stores:FlexKVConnectorV1"),
        "HF3FSKVConnector": Connector(at=f"{_HERE}.stores:HF3FSKVConnector"),
        "ExampleConnector": Connector(
            at=f"{_HERE}.example:ExampleConnector",
            was=(Renamed("SharedStorageConnector", Releases(until="0.13")),),
            because="it is a sample, not for production",
        ),
        "ExampleHiddenStatesConnector": Connector(
            at=f"{_HERE}.example:ExampleHiddenStatesConnector", hybrid=Releases(since="0.22")
        ),
        "DecodeBenchConnector": Connector(
            at=f"{_HERE}.example:DecodeBenchConnector", hybrid=ALWAYS
        ),
        "P2pNcclConnector": Connector(
            at=f"{_HERE}.p2p_nccl:P2pNcclConnector",
            vllm=Releases(until="0.24"),
            instead="NixlConnector",
        ),
        "PyNcclConnector": _old("NixlConnector"),
        "MooncakeLayerwiseConnector": _ascend(),
        "MooncakeConnectorV1": _ascend(f"{_HERE}.outside:AscendPairConnector"),
        "MooncakeConnectorStoreV1": _ascend(f"{_HERE}.outside:AscendStoreConnector"),
        "AscendStoreConnector": _ascend(f"{_HERE}.outside:AscendStoreConnector"),
        "LLMDataDistCMgrConnector": _ascend(),
        "CPUOffloadingConnector": _ascend(f"{_HERE}.outside:AscendOffloadConnector"),
    }
)
"""The connectors of vLLM, past and present, and those that plugins register by name."""

OUTSIDE = Registry(
    {
        "LMCacheConnectorV1": Connector(
            at=f"{_HERE}.outside:LMCacheOutside", origin="LMCache", modules=("lmcache",)
        ),
        "LMCacheConnectorV1Dynamic": Connector(
            at=f"{_HERE}.outside:LMCacheOutside", origin="LMCache", modules=("lmcache",)
        ),
        "LMCacheMPConnector": Connector(
            at=f"{_HERE}.outside:LMCacheMPOutside",
            origin="LMCache",
            modules=("lmcache",),
            hybrid=ALWAYS,
        ),
        "PdConnector": Connector(
            at=f"{_HERE}.outside:PdConnector",
            origin="Dynamo",
            modules=("kvbm.vllm_integration.connector", "kvbm"),
        ),
        "DynamoConnector": Connector(
            at=f"{_HERE}.outside:DynamoConnector",
            origin="Dynamo",
            modules=("kvbm.vllm_integration.connector", "kvbm"),
        ),
        "UCMConnector": Connector(
            at=_ANY, origin="unified-cache-management", modules=("ucm.integration.vllm", "ucm")
        ),
        "UMBPStoreConnector": Connector(
            at=f"{_HERE}.umbp:UMBPStoreConnector",
            vllm=Releases(since="0.33"),
            origin="vLLM, which does not register it",
            modules=("vllm.distributed.kv_transfer.kv_connector.v1.umbp",),
            hybrid=ALWAYS,
        ),
        **{
            name: CONNECTORS.facts(name)
            for name in (
                "MooncakeLayerwiseConnector",
                "MooncakeConnectorV1",
                "MooncakeConnectorStoreV1",
                "AscendStoreConnector",
                "LLMDataDistCMgrConnector",
                "CPUOffloadingConnector",
            )
        },
    }
)
"""Well-known connectors that need kv_connector_module_path."""

CONNECTOR = Variant(
    tag="kv_connector",
    classes=CONNECTORS,
    otherwise=AnyKeys,
    beside=True,
    open_with="kv_connector_module_path",
    open_wins=True,
    closed=True,
    outside=OUTSIDE,
    kind="connector",
    code="connector",
)
"""How kv_connector decides what the extra config may hold."""
