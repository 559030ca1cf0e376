"""Call the integration as one vLLM release would, without an engine: two ranks, two groups.

Runs with that release's unpacked sources first on ``PYTHONPATH``, so that spec, manager and
worker derive from its own base classes and are given its own values. Prints one JSON line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import sys
from typing import Any

import torch
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload import config as configs

from kvengine.integrations.vllm import KVEngineOffloadingSpec
from kvengine.integrations.vllm.versions import FIRST, LAST, GroupError, installed_release

BLOCKS, RANKS, PER_CHUNK = 16, 2, 2
GROUPS = {field.name for field in dataclasses.fields(configs.OffloadingGroupConfig)}
CONFIG = {field.name for field in dataclasses.fields(configs.OffloadingConfig)}
PAGES = ((512, 512, 512), (512, 512))
"""Bytes per page of each layer, per group; the last tensor belongs to the first group only."""


def main() -> None:
    called: list[str] = []
    scheduler = make_spec(0)
    workers, caches = zip(*(make_worker(rank) for rank in range(RANKS)), strict=True)
    manager = scheduler.get_manager()
    store_and_load(manager, workers, caches, called)
    failed_store_is_a_miss(manager, workers, called)
    reset_forgets(manager, called)
    extras(scheduler, manager, called)
    end(manager, workers)
    if "group_id" in GROUPS:
        numbers_with_gaps(called)
    if "replicated_layout" in CONFIG:
        replicated_ranks_store_once(called)
    missing_group_is_said(called)
    print(json.dumps({"release": installed_release(), "called": called}))


def filled(cls: type, **values: Any) -> Any:
    """A value of this release's class, from those of the fields that it has."""
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in known})


def end(manager: Any, workers: Any) -> None:
    for worker in workers:
        worker.shutdown()
    manager.shutdown()


def make_spec(
    rank: int, name: str = "lifecycle", *, ids: tuple[int, ...] = (0, 1), replicated: bool = False
) -> Any:
    groups = tuple(
        filled(
            configs.OffloadingGroupConfig,
            tokens_per_block=16,
            layer_names=tuple(f"layers.{group}.{i}" for i in range(len(pages))),
            group_id=ids[group],
        )
        for group, pages in enumerate(PAGES)
    )
    parallel = filled(
        configs.OffloadingParallelConfig,
        rank=rank,
        world_size=RANKS,
        tp_size=RANKS,
        pp_size=1,
        pcp_size=1,
        dcp_size=1,
        data_parallel_index=0,
        data_parallel_size=1,
        data_parallel_rank_local=None,
        is_parallelism_agnostic=False,
    )
    extra = {
        "spec_name": "KVEngineOffloadingSpec",
        "spec_module_path": "kvengine.integrations.vllm",
        "cpu_bytes_to_use": 1 << 20,
        "blocks_per_chunk": PER_CHUNK,
    }
    return KVEngineOffloadingSpec(
        filled(
            configs.OffloadingConfig,
            groups=groups,
            worker_kv_bytes_per_block=sum(PAGES[0]),
            enable_kv_cache_events=True,
            extra_config=extra,
            engine_id=f"{name}-{installed_release()}",
            replicated_layout=replicated,
            model=configs.OffloadingModelConfig(name="a-model", dtype="bfloat16"),
            cache=configs.OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=PER_CHUNK),
            parallel=parallel,
        )
    )


def make_worker(
    rank: int, *name: str, pages: Any = PAGES, **more: Any
) -> tuple[Any, list[torch.Tensor]]:
    torch.manual_seed(rank)
    tensors = [torch.randint(-128, 127, (BLOCKS, size), dtype=torch.int8) for size in PAGES[0]]
    caches = base.CanonicalKVCaches(
        tensors=[base.CanonicalKVCacheTensor(t, t.shape[1]) for t in tensors],
        group_data_refs=[
            [base.CanonicalKVCacheRef(i, size) for i, size in enumerate(group)] for group in pages
        ],
    )
    return make_spec(rank, *name, **more).get_worker(caches), tensors


def store_and_load(manager: Any, workers: Any, caches: Any, called: list[str]) -> None:
    """Chunks of both groups come back, rank by rank, entered in the middle of the first one."""
    request = base.ReqContext(req_id="a")
    manager.on_new_request(request)
    keys = [base.make_offload_key(bytes([i]) * 32, group) for group in (0, 1) for i in range(2)]
    with locked(manager, called):
        assert manager.lookup(keys[0], request) is base.LookupResult.MISS
        order = manager.prepare_store(keys, request)
    assert order.keys_to_store == keys
    source = base.GPULoadStoreSpec([1, 2, 3, 4, 5, 6, 7, 8], [4, 4], [0, 0])
    run(workers, 1, source, order.store_spec, stores=True)
    manager.complete_store(set(keys), request)
    called.append("store")
    before = [[tensor.clone() for tensor in tensors] for tensors in caches]
    with locked(manager, called):
        assert all(manager.lookup(key, request) is base.LookupResult.HIT for key in keys)
        spec = manager.prepare_load(keys, request)
    target = base.GPULoadStoreSpec([10, 11, 12, 13, 14, 15], [3, 3], [1, 1])
    run(workers, 2, spec, target, stores=False, called=called)
    manager.complete_load(set(keys), request)
    for tensors, old in zip(caches, before, strict=True):
        for index, tensor in enumerate(tensors):
            assert torch.equal(tensor[10:13], old[index][2:5])
            if index < len(PAGES[1]):
                assert torch.equal(tensor[13:16], old[index][6:9])
    called.append("load")
    manager.touch(keys, request)
    manager.on_request_finished(request)
    events = list(manager.take_events())
    assert [key for event in events for key in event.keys] == keys
    called.append("events")


def failed_store_is_a_miss(manager: Any, workers: Any, called: list[str]) -> None:
    """A block that does not exist fails the store on every rank; nobody is told, it is a miss."""
    request = base.ReqContext(req_id="b")
    key = base.make_offload_key(b"x" * 32, 0)
    order = manager.prepare_store([key], request)
    bad = base.GPULoadStoreSpec([BLOCKS + 5, 1], [2, 0], [0, 0])
    run(workers, 3, bad, order.store_spec, stores=True)
    manager.complete_store([key], request)
    assert manager.lookup(key, request) is base.LookupResult.MISS
    called.append("failed store")


def reset_forgets(manager: Any, called: list[str]) -> None:
    request = base.ReqContext(req_id="c")
    manager.reset_cache()
    if hasattr(base.OffloadingManager, "on_reset_flushed"):
        manager.on_reset_flushed()
        called.append("on_reset_flushed")
    key = base.make_offload_key(bytes([0]) * 32, 0)
    assert manager.lookup(key, request) is base.LookupResult.MISS
    called.append("reset")


def numbers_with_gaps(called: list[str]) -> None:
    """Groups 2 and 7 of the model are offloaded: keys say so, groups are counted from 0."""
    more = {"ids": (2, 7)}
    workers, _ = zip(*(make_worker(rank, "gaps", **more) for rank in range(RANKS)), strict=True)
    manager = make_spec(0, "gaps", **more).get_manager()
    request = base.ReqContext(req_id="e")
    keys = [base.make_offload_key(b"k" * 32, group) for group in (2, 7)]
    order = manager.prepare_store(keys, request)
    assert order.keys_to_store == keys
    blocks = base.GPULoadStoreSpec([1, 2, 3, 4], [2, 2], [0, 0])
    run(workers, 1, blocks, order.store_spec, stores=True)
    manager.complete_store(keys, request)
    assert all(manager.lookup(key, request) is base.LookupResult.HIT for key in keys)
    assert [key for event in manager.take_events() for key in event.keys] == keys
    called.append("numbers with gaps")
    end(manager, workers)


def replicated_ranks_store_once(called: list[str]) -> None:
    """Rank 0 stores for all, host memory holds its bytes once, and every rank loads them."""
    more = {"replicated": True}
    workers, caches = zip(
        *(make_worker(rank, "replicated", **more) for rank in range(RANKS)), strict=True
    )
    spec = make_spec(0, "replicated", **more)
    manager = spec.get_manager()
    assert spec.replicated_layout
    request = base.ReqContext(req_id="f")
    key = base.make_offload_key(b"k" * 32, 0)
    order = manager.prepare_store([key], request)
    run(workers, 1, base.GPULoadStoreSpec([1, 2], [2, 0], [0, 0]), order.store_spec, stores=True)
    manager.complete_store([key], request)
    assert manager.ledger.counts["stored_bytes"] == PER_CHUNK * sum(PAGES[0])
    assert manager.lookup(key, request) is base.LookupResult.HIT
    load = manager.prepare_load([key], request)
    run(workers, 2, load, base.GPULoadStoreSpec([8, 9], [2, 0], [0, 0]), stores=False)
    manager.complete_load([key], request)
    for tensors in caches:
        assert all(torch.equal(t[8:10], caches[0][i][1:3]) for i, t in enumerate(tensors))
    called.append("replicated")
    end(manager, workers)


def missing_group_is_said(called: list[str]) -> None:
    """A group of which no rank has a cache stops the start, and the releases are named."""
    workers = [make_worker(rank, "missing", pages=(PAGES[0], ()))[0] for rank in range(RANKS)]
    said = ""
    try:
        make_spec(0, "missing").get_manager()
    except GroupError as error:
        said = str(error)
    assert "no cache for 1 of them (layers: layers.1.0" in said, said
    assert f"vLLM {FIRST} to {LAST}" in said, said
    called.append("missing group")
    for worker in workers:
        worker.shutdown()


def extras(spec: Any, manager: Any, called: list[str]) -> None:
    """What only some releases ask for."""
    if hasattr(base, "ScheduleEndContext"):
        manager.on_schedule_end(base.ScheduleEndContext(new_req_ids=(), preempted_req_ids=()))
    assert not manager.has_pending_work()
    stats = manager.get_stats()
    assert manager.get_stats() is None
    assert "vllm:kvengine_stored_chunks" in stats.reduce()
    defined = spec.build_metric_definitions(spec.extra_config)
    assert {name.split(":{")[0].split(":(")[0] for name in stats.reduce()} <= set(defined)
    called.append("get_stats")
    if hasattr(base.OffloadingSpec, "config_info_keys"):
        keys = spec.config_info_keys(spec.extra_config)
        assert all(set(info) <= set(keys) for info in manager.config_info())
        called.append("config_info")
    if hasattr(base.OffloadingManager, "get_load_source"):
        manager.get_load_source(b"k" * 32 + bytes(4), base.ReqContext(req_id="d"))
        called.append("get_load_source")


def run(
    workers: Any,
    job: int,
    source: Any,
    target: Any,
    *,
    stores: bool,
    called: list[str] | None = None,
) -> None:
    """One job on every rank, until each has reported it."""
    submits = inspect.signature(base.OffloadingWorker.submit_load).parameters
    more = {"expedited": True} if "expedited" in submits and not stores else {}
    for worker in workers:
        submit = worker.submit_store if stores else worker.submit_load
        assert submit(job, source, target, **more)
        worker.wait({job})
        results = worker.get_finished()
        assert [(result.job_id, result.success) for result in results] == [(job, True)]
    if more and called is not None:
        called.append("expedited")


def locked(manager: Any, called: list[str]) -> Any:
    """The lock that 0.33 holds from the first look-up of a step on."""
    lock = getattr(manager, "lock", None)
    if lock is None:
        return contextlib.nullcontext()
    if "lock" not in called:
        called.append("lock")
    return lock


if __name__ == "__main__":
    sys.exit(main())
