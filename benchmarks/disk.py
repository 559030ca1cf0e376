"""The disk tier beside raw reads and writes of the same bytes, and beside vLLM's fs tier.

Every ratio is of two times taken one after the other in the same run; runs alternate. Raw means
``pwrite``/``preadv`` of one chunk per call into one file made at full size, with the tier's own
O_DIRECT mode and fsync policy (a sync after each chunk, or whenever a segment would be full; no
time ends before what was full is synced). "fresh" files are new, "again" ones are written over, as
a tier does once it is full. Both have as much room and go through all of it before they write over
anything, for a device (or the machine below a virtual one) is quicker where it wrote lately. A
round has to be long beside its start: a fast disk takes 60 ms for 256 MiB. Buffered and never
synced, a raw write is a copy within memory, and checksums cost about as much. Where vLLM 0.32 is
importable (run this with its Python, and this folder's parent on PYTHONPATH), its tier takes its
turn as well.

    python benchmarks/disk.py [--dir DIR] [--mib 1024] [--chunk-kib 128 1024] [--threads 1 4]
        [--runs 5] [--fsync never|seal|put] [--buffered] [--reopen] [--policy]
"""

from __future__ import annotations

import argparse
import importlib.util
import mmap
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kvengine.config.tiers.own import DiskOptions
from kvengine.runtime.tiers.base import Batch, Outcome
from kvengine.runtime.tiers.disk.tier import DiskTier
from kvengine.runtime.tiers.identity import GroupGeometry, Identity

MIB = 1 << 20
JOB_CHUNKS = 8
SEGMENT_BYTES = 64 * MIB  # as a limit of 8 GiB has; larger limits have larger ones
REFILLS = 3  # until nothing is left of what was read, which a tier would keep
Times = dict[str, list[float]]


def identity(chunk_bytes: int) -> Identity:
    group = GroupGeometry(
        kind="full",
        layers=["layer"],
        tokens_per_block=16,
        page_bytes=[chunk_bytes],
        blocks_per_chunk=1,
        chunk_bytes=chunk_bytes,
    )
    return Identity(
        model="benchmark",
        cache_dtype="bfloat16",
        layout="packed",
        layout_version=1,
        runner="benchmark",
        groups=[group],
        tensor_parallel=1,
        pipeline_parallel=1,
        decode_context_parallel=1,
        prefill_context_parallel=1,
        rank=0,
        hash_algorithm="sha256",
    )


class Slots:
    """Host memory: chunks of one size next to each other, filled with random bytes."""

    def __init__(self, num_bytes: int, chunk_bytes: int) -> None:
        self.room = memoryview(mmap.mmap(-1, num_bytes))
        block = random.Random(1).randbytes(min(MIB, num_bytes))
        for start in range(0, num_bytes, len(block)):
            self.room[start : start + len(block)] = block[: num_bytes - start]
            self.room[start : start + 8] = start.to_bytes(8, "big")
        starts = range(0, num_bytes, chunk_bytes)
        self.chunks = [self.room[start : start + chunk_bytes] for start in starts]
        self.keys = [os.urandom(32) + bytes(4) for _ in self.chunks]

    def jobs(self) -> list[list[tuple[bytes, memoryview]]]:
        items = list(zip(self.keys, self.chunks, strict=True))
        return [items[start : start + JOB_CHUNKS] for start in range(0, len(items), JOB_CHUNKS)]


def timed(act: Callable[[], None]) -> float:
    started_s = time.perf_counter()
    act()
    return time.perf_counter() - started_s


def shared(count: int, threads: int, act: Callable[[int], object]) -> None:
    """Call ``act`` with each number below ``count``, from so many threads."""
    numbers = iter(range(count))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            act(number)

    others = [threading.Thread(target=work) for _ in range(threads - 1)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()


def run(move: Callable[..., Batch], jobs: Sequence[Any]) -> None:
    """Jobs one after the other, then wait for the last of them first.

    An engine is told by callbacks, and does not wake up for each job as one would that waits.
    """
    batches = [move(job) for job in jobs]
    for batch in reversed(batches):
        assert batch.wait(120)
        assert set(batch.outcomes) == {Outcome.DONE}, batch.outcomes


def make_cold(paths: Sequence[Path]) -> None:
    """Have nothing of these files in the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def raw(place: Path, slots: Slots, threads: int, fsync: str, direct: bool, times: Times) -> None:
    """One file with as much room as a tier has, written new, read, and written over."""
    size, total = len(slots.chunks[0]), len(slots.room)
    room_bytes = total + 4 * SEGMENT_BYTES
    path = place / "raw"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_DIRECT if direct else 0), 0o600)

    def write(turn: int, number: int) -> None:
        os.pwritev(fd, [slots.chunks[number]], (turn * total + number * size) % room_bytes)
        filled = number * size // SEGMENT_BYTES < (number + 1) * size // SEGMENT_BYTES
        if fsync == "put" or (fsync == "seal" and filled):
            os.fdatasync(fd)

    def write_all(turn: int) -> None:
        shared(len(slots.chunks), threads, partial(write, turn))

    def make_and_write() -> None:
        os.posix_fallocate(fd, 0, total)
        write_all(0)

    times["raw write fresh"].append(timed(make_and_write))
    if not direct:
        make_cold([path])
    read = lambda number: os.preadv(fd, [slots.chunks[number]], number * size)  # noqa: E731
    times["raw read"].append(timed(lambda: shared(len(slots.chunks), threads, read)))
    os.posix_fallocate(fd, 0, room_bytes)
    for turn in range(1, REFILLS + 1):
        again_s = timed(partial(write_all, turn))
    times["raw write again"].append(again_s)
    os.close(fd)
    path.unlink()


def ours(place: Path, slots: Slots, threads: int, fsync: str, direct: bool, times: Times) -> None:
    """A tier that is filled, read, and filled again with other keys once it is full."""
    total = len(slots.room)
    options = DiskOptions(
        root_dir=str(place / "ours"),
        max_bytes=total + 4 * SEGMENT_BYTES,
        segment_bytes=SEGMENT_BYTES,
        fsync=fsync,
        direct=bool(direct),
        n_read_threads=threads,
        n_write_threads=threads,
        queue_bytes=2 * total,
    )

    with DiskTier(options, identity(len(slots.chunks[0]))) as tier:

        def write_all() -> None:
            run(tier.put, slots.jobs())
            while fsync == "seal" and tier._mount and tier._mount.journal.num_unsealed:
                time.sleep(0.001)

        times["write fresh"].append(timed(write_all))
        if not direct:
            make_cold(list((place / "ours").rglob("*.seg")))
        times["read"].append(timed(lambda: run(tier.get, slots.jobs())))
        for _ in range(REFILLS):
            slots.keys = [os.urandom(32) + bytes(4) for _ in slots.chunks]
            again_s = timed(write_all)
        times["write again"].append(again_s)
        stats = tier.stats()
        assert set(stats.io_bytes) - {"copied"} == {"direct" if direct else "buffered"}
    shutil.rmtree(place / "ours")


def vllm(place: Path, slots: Slots, threads: int, direct: bool, times: Times) -> None:
    """vLLM's tier on jobs of the same chunks; so many threads to read and as many to write."""
    import numpy as np
    from vllm.v1.kv_offload import config
    from vllm.v1.kv_offload.base import OffloadingSpec, ReqContext, make_offload_key
    from vllm.v1.kv_offload.tiering.base import TransferJob
    from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager

    class Spec(OffloadingSpec):
        def get_manager(self) -> Any:
            raise NotImplementedError

        def get_worker(self, kv_caches: Any) -> Any:
            raise NotImplementedError

    size, count = len(slots.chunks[0]), len(slots.chunks)
    parallel = {
        **dict.fromkeys(("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size"), 1),
        "rank": 0,
        "data_parallel_index": 0,
        "data_parallel_size": 1,
        "data_parallel_rank_local": None,
        "is_parallelism_agnostic": True,
    }
    group = config.OffloadingGroupConfig(tokens_per_block=16, layer_names=("l",), group_id=0)
    spec = Spec(
        config.OffloadingConfig(
            groups=(group,),
            worker_kv_bytes_per_block=size,
            enable_kv_cache_events=False,
            extra_config={},
            engine_id="benchmark",
            model=config.OffloadingModelConfig(name="model", dtype="float16"),
            cache=config.OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=1),
            parallel=config.OffloadingParallelConfig(**parallel),
        )
    )
    tier = FileSystemTierManager(
        offloading_spec=spec,
        primary_kv_view=slots.room.cast("B", (count, size)),
        tier_type="fs",
        root_dir=str(place / "vllm"),
        n_read_threads=threads,
        n_write_threads=threads,
    )
    keys = [make_offload_key(key[:32], 0) for key in slots.keys]

    def run(submit: Callable[[Any], None], promotion: bool) -> None:
        for start in range(0, count, JOB_CHUNKS):
            ids = np.arange(start, min(start + JOB_CHUNKS, count))
            some = keys[start : start + JOB_CHUNKS]
            context = ReqContext(req_id="r")
            submit(
                TransferJob(
                    job_id=start,
                    keys=some,
                    chunk_ids=ids,
                    is_promotion=promotion,
                    req_context=context,
                )
            )
        tier.drain_jobs()
        assert all(job.success for job in tier.get_finished_jobs())

    times["vllm write"].append(timed(lambda: run(tier.submit_store, False)))
    if not direct:
        make_cold([path for path in (place / "vllm").rglob("*") if path.is_file()])
    times["vllm read"].append(timed(lambda: run(tier.submit_load, True)))
    tier.shutdown()
    shutil.rmtree(place / "vllm")


def compare(arguments: argparse.Namespace, place: Path) -> None:
    direct = not arguments.buffered
    with_vllm = importlib.util.find_spec("vllm") is not None
    print(f"{arguments.mib} MiB in {place}, {'O_DIRECT' if direct else 'buffered'}, ", end="")
    print(f"fsync {arguments.fsync}, jobs of {JOB_CHUNKS} chunks; medians of {arguments.runs} runs")
    header = ["chunk", "threads", "what", "MiB/s", "raw", "ratio", "least-most"]
    print(" ".join(f"{name:>11}" for name in [*header, *(["/vllm"] if with_vllm else [])]))
    for kib in arguments.chunk_kib:
        for threads in arguments.threads:
            times = measure(arguments, place, kib << 10, threads, with_vllm)
            report(kib, threads, arguments.mib, times)


def measure(
    arguments: argparse.Namespace, place: Path, chunk_bytes: int, threads: int, with_vllm: bool
) -> Times:
    """The seconds of each turn of each run, but for the first run, which warms up."""
    slots = Slots(arguments.mib * MIB, chunk_bytes)
    direct = not arguments.buffered
    times: Times = {name: [] for name in _NAMES}
    turns: list[Callable[[], None]] = [
        lambda: raw(place, slots, threads, arguments.fsync, direct, times),
        lambda: ours(place, slots, threads, arguments.fsync, direct, times),
    ]
    if with_vllm:
        turns.append(lambda: vllm(place, slots, threads, direct, times))
    for number in range(arguments.runs + 1):
        for turn in turns if number % 2 else turns[::-1]:
            os.sync()  # what the turn before left to be done is not this one's to do
            turn()
    return {name: some[1:] for name, some in times.items()}


_NAMES = ("raw write fresh", "raw read", "raw write again", "write fresh", "read", "write again")
_NAMES += ("vllm write", "vllm read")
_RIVALS = {"write fresh": "vllm write", "read": "vllm read"}


def report(kib: int, threads: int, mib: int, times: Times) -> None:
    for what in ("write fresh", "write again", "read"):
        pairs = list(zip(times[f"raw {what}"], times[what], strict=True))
        ratios = sorted(limit / own for limit, own in pairs)
        cells = [
            f"{kib} KiB",
            str(threads),
            what,
            f"{mib / statistics.median(times[what]):.0f}",
            f"{mib / statistics.median(times[f'raw {what}']):.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{ratios[0]:.2f}-{ratios[-1]:.2f}",
        ]
        rival = times.get(_RIVALS.get(what, ""), [])
        if rival:
            gains = [theirs / own for theirs, own in zip(rival, times[what], strict=True)]
            cells.append(f"{statistics.median(gains):.2f}")
        print(" ".join(f"{cell:>11}" for cell in cells), flush=True)


def reopen(place: Path) -> None:
    """How long a start takes with 100,000 chunks there; closed properly, and after a kill."""
    room = memoryview(bytearray(os.urandom(4096)))
    for count in (25_000, 100_000):
        keys = [os.urandom(32) + bytes(4) for _ in range(count)]
        options = DiskOptions(
            root_dir=str(place / "many"), max_bytes=1024 * MIB, segment_bytes=16 * MIB
        )
        with DiskTier(options, identity(4096)) as tier:
            for start in range(0, count, 2000):
                tier.put([(key, room) for key in keys[start : start + 2000]]).wait()
            shutil.copytree(place / "many", place / "killed")
        for what in ("many", "killed"):
            again = DiskOptions(
                root_dir=str(place / what), max_bytes=1024 * MIB, segment_bytes=16 * MIB
            )
            make_cold(list((place / what).rglob("*.seg")))
            started_s = time.perf_counter()
            with DiskTier(again, identity(4096)) as tier:
                took_s = time.perf_counter() - started_s
                found = tier.stats().resident_chunks
            how = "closed properly" if what == "many" else "killed"
            print(f"reopen {found:,} of {count:,} chunks of 4 KiB, {how}: {took_s:.2f} s")
            shutil.rmtree(place / what)


def policy(place: Path) -> None:
    """Hit rate on the Mooncake conversation trace, beside an exact LRU of as much payload."""
    from benchmarks.policies import read_trace

    prompts = read_trace()
    size = 16 << 10
    room = memoryview(bytearray(os.urandom(size)))
    total = sum(map(len, prompts))
    for chunks in (5_000, 20_000, 50_000):
        limit = chunks * size
        options = DiskOptions(
            root_dir=str(place / "policy"), max_bytes=limit, segment_bytes=max(MIB, limit // 128)
        )
        hits = 0
        with DiskTier(options, identity(size)) as tier:
            for ids in prompts:
                items = [(number.to_bytes(32, "big") + bytes(4), room) for number in ids]
                found = tier.exists([key for key, _ in items])
                have = next((i for i, there in enumerate(found) if not there), len(items))
                batches = [tier.get(items[:have]), tier.put(items[have:])]
                hits += have
                for batch in batches:
                    batch.wait()
            stats = tier.stats()
            moved = tier._mount.cleaner.moved_bytes if tier._mount else 0
        shutil.rmtree(place / "policy")
        resident = stats.resident_bytes or 0
        print(
            f"limit {limit / MIB:.0f} MiB: {hits / total:.2%} hits; exact LRU of as much payload "
            f"{lru(prompts, resident // size) / total:.2%}, of the whole limit "
            f"{lru(prompts, chunks) / total:.2%}; resident payload {resident / limit:.0%}, "
            f"written again {moved / max(stats.stored_bytes, 1):.0%}",
            flush=True,
        )


def lru(prompts: Sequence[Sequence[int]], most: int) -> int:
    order: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for ids in prompts:
        hit = True
        for number in ids:
            hit = hit and number in order
            hits += hit
            order[number] = None
            order.move_to_end(number)
            if len(order) > most:
                order.popitem(last=False)
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dir", default=tempfile.gettempdir())
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--chunk-kib", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--fsync", choices=("never", "seal", "put"), default="never")
    parser.add_argument("--buffered", action="store_true")
    parser.add_argument("--reopen", action="store_true", help="only this")
    parser.add_argument("--policy", action="store_true", help="only this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        if arguments.reopen:
            reopen(Path(place))
        if arguments.policy:
            policy(Path(place))
        if not (arguments.reopen or arguments.policy):
            compare(arguments, Path(place))


if __name__ == "__main__":
    main()
