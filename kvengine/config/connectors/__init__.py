"""One file per connector: the keys that it reads from ``kv_connector_extra_config``."""

from __future__ import annotations

from collections.abc import Mapping

from kvengine.config.connectors.any import AnyKeys
from kvengine.config.connectors.offloading import OffloadingConnector

__all__ = ["CONNECTORS", "AnyKeys"]

CONNECTORS: Mapping[str, type] = {"OffloadingConnector": OffloadingConnector}
"""Connector name -> the class of its extra config."""
