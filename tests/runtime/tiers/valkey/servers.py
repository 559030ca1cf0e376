"""Real servers for tests: processes of our own on free loopback ports, in scratch directories."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from kvengine.runtime.tiers.open import options_of
from kvengine.runtime.tiers.valkey.tier import ValkeyTier
from tests.runtime.tiers.kit import identity

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")
needs_server = pytest.mark.skipif(
    PROGRAM is None, reason="neither valkey-server nor redis-server is installed"
)


def free_port() -> int:
    """A port that nobody has, and whose cluster bus (10,000 above) is free as well."""
    while True:
        with socket.socket() as sock, socket.socket() as bus:
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                bus.bind(("127.0.0.1", port + 10_000))
                return port


class Server:
    """One server process; it can be killed and started again at the same port."""

    def __init__(self, place: Path, *options: str) -> None:
        self.port = free_port()
        self._ready_port = self.port
        if "--tls-port" in options:
            self._ready_port = int(options[options.index("--tls-port") + 1])
        self._place = place
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        place.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert PROGRAM is not None
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._place)]
        own += [] if "--sentinel" in self._options else ["--save", "", "--appendonly", "no"]
        config = [option for option in self._options if option.endswith(".conf")]
        rest = [option for option in self._options if option not in config]
        self._process = subprocess.Popen(
            [PROGRAM, *config, *own, *rest], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._await()

    def kill(self) -> None:
        """As hard as can be."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def client(self, **options: Any) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port, protocol=2, **options)

    def num_tier_connections(self) -> int:
        """The connections that tiers have here; others have names of their own."""
        with self.client(client_name="watcher") as client:
            return sum(each["name"] in ("", "kvengine") for each in client.client_list())

    def _await(self) -> None:
        until_s = time.monotonic() + 10
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self._ready_port), 1).close()
                return
            time.sleep(0.01)
        self.kill()
        raise AssertionError("the server does not start")


@contextlib.contextmanager
def server(place: Path, *options: str) -> Iterator[Server]:
    running = Server(place, *options)
    try:
        yield running
    finally:
        running.kill()


@contextlib.contextmanager
def cluster(place: Path, nodes: int = 3) -> Iterator[list[Server]]:
    """Masters that share the slots, without replicas."""
    with contextlib.ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
        servers = [
            stack.enter_context(server(place / str(number), *options)) for number in range(nodes)
        ]
        clients = [each.client() for each in servers]
        for number, client in enumerate(clients):
            first, last = 16384 * number // nodes, 16384 * (number + 1) // nodes - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for client in clients[1:]:
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
        until_s = time.monotonic() + 20
        while not all(_whole(client, nodes) for client in clients):
            assert time.monotonic() < until_s, "the cluster does not form"
            time.sleep(0.05)
        for client in clients:
            client.close()
        yield servers


def _whole(client: redis.Redis, nodes: int) -> bool:
    info: Any = client.execute_command("CLUSTER", "INFO")
    text = str(info)
    return (
        "cluster_state" in text
        and f"cluster_known_nodes:{nodes}" in text
        and ("cluster_state:ok" in text)
    )


def certificates(place: Path) -> dict[str, str]:
    """A certificate for 127.0.0.1 that vouches for itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    place.mkdir(parents=True, exist_ok=True)
    cert, key = place / "cert.pem", place / "key.pem"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    command += f" -days 1 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout {key}"
    subprocess.run([*command.split(), "-out", str(cert)], check=True, capture_output=True)
    return {"cert": str(cert), "key": str(key)}


def store(url: str | Sequence[str], *chunk_bytes: int, **options: Any) -> ValkeyTier:
    """A store tier with two threads and short deadlines, unless told otherwise."""
    facts: dict[str, Any] = {"type": "valkey", "url": url, "threads": 2, "presence_s": 0.2}
    who = options.pop("who", None) or identity(*chunk_bytes)
    return ValkeyTier(options_of({**facts, **options}), who)
