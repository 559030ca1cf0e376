"""The shared store beside the client's own SET and GET of the same values.

Starts a server of its own on a loopback port unless a url is given. Runs alternate; every ratio is
of two times taken one after the other in the same run. The client's calls come from as many
threads, each with a connection of its own, with the tier's time limit and time to live; the tier
has to compute and to verify checksums as well. On a machine of few cores that takes from what the
server has, and server and client share.

    python benchmarks/store.py [--url valkey://host] [--mib 256] [--chunk-kib 128 1024]
        [--threads 1 4] [--runs 15]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks.disk import MIB, Slots, Times, identity, run, shared, timed
from kvengine.config.tiers.own import ValkeyOptions
from kvengine.runtime.tiers.valkey.tier import ValkeyTier

TIMEOUT_S = 120.0
TTL_S = 86400


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The url of a server that lives as long as the block."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise SystemExit("neither valkey-server nor redis-server is installed; give --url")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", place, "--save", ""]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            for _ in range(500):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                time.sleep(0.01)
            yield f"valkey://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def raw(url: str, slots: Slots, threads: int, times: Times) -> None:
    """SET and GET through the client, one chunk per call; what GET gives is dropped."""
    client = redis.from_url(
        url.replace("valkey", "redis"), retry=Retry(NoBackoff(), 0), socket_timeout=TIMEOUT_S
    )
    names = [b"raw:" + key for key in slots.keys]
    put: Callable[[int], Any] = lambda i: client.set(names[i], slots.chunks[i], ex=TTL_S)  # noqa: E731
    times["raw put"].append(timed(lambda: shared(len(names), threads, put)))
    get: Callable[[int], Any] = lambda i: client.get(names[i])  # noqa: E731
    times["raw get"].append(timed(lambda: shared(len(names), threads, get)))
    client.delete(*names)
    client.close()


def ours(url: str, slots: Slots, threads: int, job_chunks: int, times: Times) -> None:
    """Put and get of jobs of chunks; what get gives is verified, in the host slots."""
    slots.keys = [os.urandom(32) + bytes(4) for _ in slots.chunks]
    items = list(zip(slots.keys, slots.chunks, strict=True))
    jobs = [items[start : start + job_chunks] for start in range(0, len(items), job_chunks)]
    options = ValkeyOptions(
        url=url,
        threads=threads,
        timeout_s=TIMEOUT_S,
        ttl_s=TTL_S,
        queue_bytes=2 * len(slots.room),
    )

    with ValkeyTier(options, identity(len(slots.chunks[0]))) as tier:
        tier.resolve(slots.keys, 10)  # as an engine that looks a prompt up before it computes
        times["put"].append(timed(lambda: run(tier.put, jobs)))
        times["get"].append(timed(lambda: run(tier.get, jobs)))
        tier.delete(slots.keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--chunk-kib", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    with contextlib.nullcontext(arguments.url) if arguments.url else server() as url:
        print(f"{arguments.mib} MiB, medians of {arguments.runs} runs")
        header = ("chunk", "threads", "per job", "what", "MiB/s", "client", "ratio", "least-most")
        print(" ".join(f"{name:>10}" for name in header))
        for kib in arguments.chunk_kib:
            slots = Slots(arguments.mib * MIB, kib << 10)
            for threads in arguments.threads:
                for job_chunks in (1, 8):
                    times: Times = {name: [] for name in ("raw put", "raw get", "put", "get")}
                    turns = [
                        partial(raw, url, slots, threads, times),
                        partial(ours, url, slots, threads, job_chunks, times),
                    ]
                    for number in range(arguments.runs + 1):
                        for turn in turns if number % 2 else turns[::-1]:
                            turn()
                    report(arguments.mib, [f"{kib} KiB", str(threads), str(job_chunks)], times)


def report(mib: int, what: list[str], times: Times) -> None:
    for name in ("put", "get"):
        limit, own = times[f"raw {name}"][1:], times[name][1:]
        ratios = sorted(theirs / mine for theirs, mine in zip(limit, own, strict=True))
        cells = [
            *what,
            name,
            f"{mib / statistics.median(own):.0f}",
            f"{mib / statistics.median(limit):.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{ratios[0]:.2f}-{ratios[-1]:.2f}",
        ]
        print(" ".join(f"{cell:>10}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
