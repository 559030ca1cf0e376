"""The class that vLLM loads: ``"spec_name": "KVEngineOffloadingSpec"``.

vLLM makes one object in the scheduler process and one in every rank. They meet in the shared
region; whoever comes first makes it, and the scheduler, which comes last, removes its name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from vllm.v1.kv_offload.base import OffloadingSpec

import kvengine
from kvengine.integrations.vllm.findings import checked_config, share_log
from kvengine.integrations.vllm.identity import identity_of, warn_of_random_hashes
from kvengine.integrations.vllm.jobs import Board
from kvengine.integrations.vllm.keys import Numbers
from kvengine.integrations.vllm.ledger import Ledger
from kvengine.integrations.vllm.manager import KVEngineOffloadingManager
from kvengine.integrations.vllm.memory import RegionMemory
from kvengine.integrations.vllm.metrics import definitions
from kvengine.integrations.vllm.note import engine_config, read_note, take_note
from kvengine.integrations.vllm.planned import plan_of, stage_of
from kvengine.integrations.vllm.ranks import KVEngineOffloadingWorker
from kvengine.integrations.vllm.region import Region, RegionError
from kvengine.integrations.vllm.rows import differences, read_rows
from kvengine.integrations.vllm.versions import FIRST, LAST, GroupError, installed_release, require
from kvengine.integrations.vllm.worker import Geometry, Transfers
from kvengine.runtime.copies import make_mover
from kvengine.runtime.pool import HostPool
from kvengine.runtime.rows import Rows
from kvengine.runtime.tiers.base import Tier
from kvengine.runtime.tiers.open import open_tiers
from kvengine.units import format_bytes

__all__ = ["KVEngineOffloadingSpec"]

_log = logging.getLogger(__name__)
_JOIN_S = 60.0


class KVEngineOffloadingSpec(OffloadingSpec):  # type: ignore[misc]
    """kvengine's host memory and tiers for vLLM's ``OffloadingConnector``.

    Raises :class:`kvengine.ConfigError` when the checker finds an error in the options, and
    :class:`.VLLMVersionError` for a vLLM that it does not fit.
    """

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """The metrics that appear in vLLM's Prometheus output."""
        return definitions()

    @classmethod
    def config_info_keys(cls, extra_config: dict[str, Any]) -> tuple[str, ...]:
        """The labels of vLLM's info metric (0.33 and later)."""
        return ("kvengine_version", "host_bytes", "eviction_policy")

    def __init__(self, config: Any) -> None:
        share_log()
        self._version = installed_release() or ""
        self._release = require(self._version)
        quiet = config.parallel.rank > 0
        self._options = checked_config(config.extra_config, self._release, quiet=quiet)
        super().__init__(config)
        self._replicated = _replicated(config)
        if hasattr(self, "replicated_layout"):
            self.replicated_layout = self._replicated
        self._manager: KVEngineOffloadingManager | None = None
        self._worker: KVEngineOffloadingWorker | None = None

    def get_manager(self) -> KVEngineOffloadingManager:
        """The scheduler's side; waits for the ranks, which vLLM starts before."""
        if self._manager is None:
            self._manager = self._make_manager()
        return self._manager

    def get_worker(self, kv_caches: Any) -> KVEngineOffloadingWorker:
        """A rank's side: the caches that vLLM registers, and what they take in host memory."""
        if self._worker is None:
            self._worker = self._make_worker(kv_caches)
        return self._worker

    def _make_manager(self) -> KVEngineOffloadingManager:
        region = self._join()
        sizes = region.registered(_JOIN_S)
        region.unlink()
        chunk_bytes = tuple(map(sum, zip(*sizes, strict=True)))
        self._require_groups(chunk_bytes)
        replicated = region.world_size > 1 and not any(map(any, sizes[1:]))
        options = self._options
        host_bytes = options.cpu_bytes_to_use
        if max(chunk_bytes) > host_bytes:
            raise RegionError(
                f"cpu_bytes_to_use is {format_bytes(host_bytes)}, but one chunk takes"
                f" {format_bytes(max(chunk_bytes))} over all ranks"
                "\n  hint: raise cpu_bytes_to_use, or lower blocks_per_chunk"
            )
        pool = HostPool(chunk_bytes, host_bytes, policy=options.eviction_policy)
        note = read_note(region.read_note())
        tiers: list[Tier] = []
        if options.secondary_tiers:
            warn_of_random_hashes(note, self._release)
            identity = identity_of(self.config, note, chunk_bytes, replicated=replicated)
            tiers = open_tiers(options.secondary_tiers, identity)
        events = self.kv_events_config.enable_kv_cache_events
        ledger = Ledger(
            pool,
            region.data,
            Board(region.marks, region.world_size),
            tiers,
            writers=1 if replicated else region.world_size,
            store_threshold=options.store_threshold,
            announced=[
                number
                for number, tier in enumerate(options.secondary_tiers)
                if events and tier.enable_kv_events
            ],
        )
        _log.info(
            "kvengine keeps up to %s of KV in host memory; chunks take %s",
            format_bytes(pool.places.capacity_bytes),
            ", ".join(f"{format_bytes(size)} (group {g})" for g, size in enumerate(chunk_bytes)),
        )
        return KVEngineOffloadingManager(
            ledger,
            region,
            Numbers(_group_ids(self.config)),
            events=events,
            localities=[tier.locality for tier in options.secondary_tiers],
            info={
                "kvengine_version": kvengine.__version__,
                "host_bytes": str(host_bytes),
                "eviction_policy": options.eviction_policy,
            },
        )

    def _require_groups(self, chunk_bytes: Sequence[int]) -> None:
        """Every group that vLLM will ask for must have bytes on some rank."""
        groups = self.config.groups
        missing = [group for group, size in zip(groups, chunk_bytes, strict=True) if not size]
        if missing or not groups:
            layers = ", ".join(missing[0].layer_names[:2]) if missing else "none"
            raise GroupError(
                f"vLLM {self._version} offloads {len(groups)} groups of this model, but registered"
                f" no cache for {len(missing)} of them (layers: {layers}): a kind of group that"
                f" kvengine does not know in vLLM {FIRST} to {LAST}"
                "\n  hint: use another of these releases, or take the connector out of"
                " --kv-transfer-config"
            )

    def _make_worker(self, kv_caches: Any) -> KVEngineOffloadingWorker:
        rank = self.config.parallel.rank
        engine = engine_config()
        whole = plan_of(engine, self._version, quiet=rank > 0)
        plan = stage_of(whole, rank, self.config.parallel.world_size)
        rows = read_rows(kv_caches, plan, quiet=rank > 0)
        row_bytes = tuple(group.row_bytes if group else 0 for group in rows)
        if rank == 0 and plan is not None and (difference := differences(row_bytes, plan)):
            _log.warning("%s: vLLM's sizes are used", difference)
        region = self._join()
        replicated = self._replicated or _replicated_before_0_27(self.config, engine)
        writes = rank == 0 or not replicated
        if rank == 0:
            kinds = tuple(group.kind for group in whole.groups) if whole else ()
            model = self.config.model
            note = take_note(engine, model.name, model.dtype, self._version, kinds)
            region.write_note(note.text())
        region.register(rank, [size * self.blocks_per_chunk if writes else 0 for size in row_bytes])
        geometry = Geometry(
            self.blocks_per_chunk, row_bytes, lambda: _starts(region, 0 if replicated else rank)
        )
        mover = make_mover(_all_present(rows), RegionMemory(region))
        board = Board(region.marks, region.world_size)
        transfers = Transfers(mover, geometry, board, rank)
        return KVEngineOffloadingWorker(transfers, region, writes=writes)

    def _join(self) -> Region:
        return Region.open(
            re.sub(r"[^\w.-]", "_", self.config.engine_id),
            world_size=self.config.parallel.world_size,
            num_groups=len(self.config.groups),
            data_bytes=self._options.cpu_bytes_to_use,
        )


def _starts(region: Region, rank: int) -> tuple[int, ...]:
    """Where a rank's part of a chunk begins, per group: behind those of the ranks before it."""
    before = region.registered(_JOIN_S)[:rank]
    return tuple(sum(sizes[group] for sizes in before) for group in range(region.num_groups))


def _group_ids(config: Any) -> list[int]:
    """vLLM's number of each group: in the config since 0.31, its place in the list before."""
    return [getattr(group, "group_id", index) for index, group in enumerate(config.groups)]


def _replicated(config: Any) -> bool:
    """Whether every rank holds the same bytes, so that one of them stores for all."""
    return bool(getattr(config, "replicated_layout", False)) and config.parallel.world_size > 1


def _replicated_before_0_27(config: Any, engine: Any | None) -> bool:
    """The same for 0.26, which does not say it: MLA with nothing but tensor parallelism.

    There every rank is asked to store; all but the first leave it.
    """
    if hasattr(config, "replicated_layout") or engine is None or config.parallel.world_size < 2:
        return False
    parallel = engine.parallel_config
    return bool(
        engine.model_config.use_mla
        and parallel.world_size == parallel.tensor_parallel_size
        and parallel.decode_context_parallel_size == 1
        and parallel.distributed_executor_backend == "mp"
    )


def _all_present(rows: Sequence[Rows | None]) -> list[Rows]:
    """Rows for every group number; those of a group without layers are never asked for."""
    present = next(group for group in rows if group is not None)
    return [group or present for group in rows]
