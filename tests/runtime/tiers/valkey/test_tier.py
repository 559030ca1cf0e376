"""The shared store against a real server: shared, checked, bounded, never in the way."""

from __future__ import annotations

import threading
import time

import pytest

from kvengine.plan.tiers import STORE_PART_BYTES
from kvengine.runtime.tiers.base import Outcome, TierError
from kvengine.runtime.tiers.valkey.store import Store
from tests.runtime.tiers.kit import (
    CHUNK_BYTES,
    DONE,
    KIB,
    MIB,
    MISS,
    done,
    get,
    identity,
    key_of,
    keys_of,
    payload_of,
    put,
    readable,
    wait_until,
)
from tests.runtime.tiers.valkey.servers import (
    certificates,
    cluster,
    free_port,
    needs_server,
    server,
    store,
)

pytestmark = needs_server
KEYS = keys_of(range(20))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def fresh(running):
    with running.client() as client:
        client.flushall()
    return running


@pytest.fixture
def tier(fresh):
    with store(fresh.url) as tier:
        yield tier


@pytest.mark.parametrize("length", [1, 100, 16 * KIB, MIB - 1, MIB, MIB + 1, 5 * MIB // 2 + 13])
def test_chunks_of_any_length_come_back(fresh, length):
    """In parts of 1 MiB at most."""
    keys = keys_of(range(5))
    with store(fresh.url, length) as tier:
        assert set(put(tier, keys, length)) == {DONE}
        assert readable(tier, keys, length) == keys
    with fresh.client() as client:
        sizes = [client.strlen(name) for name in client.scan_iter()]

    assert len(sizes) == len(keys) * -(-length // STORE_PART_BYTES)
    assert max(sizes) <= STORE_PART_BYTES + 64


def test_chunks_of_many_small_jobs_are_sent_together(fresh, monkeypatch):
    """Over a single connection: each job hears of its own chunks, and all of them are there."""
    sent, put_together = [], Store.put

    def spy(self, chunks, until_s):
        sent.append(len(chunks))
        put_together(self, chunks, until_s)

    monkeypatch.setattr(Store, "put", spy)
    keys = keys_of(range(200))
    with store(fresh.url, threads=1) as tier:
        tier.resolve(keys, 5)
        payloads = [payload_of(key) for key in keys]
        batches = [
            tier.put([(key, memoryview(payload))])
            for key, payload in zip(keys, payloads, strict=True)
        ]
        assert [done(batch) for batch in batches] == [(DONE,)] * 200
        assert readable(tier, keys) == keys

    assert sum(sent) == 200
    assert len(sent) < 200


def test_two_engines_share_their_chunks(fresh):
    """What one stored, the other finds; neither writes it twice."""
    with store(fresh.url) as first, store(fresh.url) as second:
        assert second.resolve(KEYS, 5) == [False] * 20
        put(first, KEYS)
        time.sleep(0.25)
        assert second.resolve(KEYS, 5) == [True] * 20
        assert set(put(second, KEYS)) == {DONE}
        assert second.stats().stores == 0

        assert readable(second, KEYS) == KEYS


@pytest.mark.parametrize("name", ["model", "cache_dtype", "salt"])
def test_another_identity_finds_nothing(fresh, name):
    """The namespace is the disk tier's (R06, R07)."""
    with store(fresh.url) as tier, store(fresh.url, who=identity(**{name: "other"})) as other:
        put(tier, KEYS)

        assert other.resolve(KEYS, 5) == [False] * 20
        assert get(other, KEYS)[0] == (MISS,) * 20


def test_exists_answers_at_once_and_knows_soon(tier):
    """Unknown at first; asked about in the background, once."""
    put(tier, KEYS[:10])
    time.sleep(0.25)

    assert tier.exists(KEYS) == [None] * 20
    wait_until(lambda: tier.exists(KEYS) == [True] * 10 + [False] * 10)


def test_an_evicted_part_is_a_miss_of_the_whole_chunk(fresh):
    """And is stored again by the next put."""
    length = 3 * MIB
    with store(fresh.url, length) as tier, fresh.client() as client:
        put(tier, KEYS[:2], length)
        victim = sorted(client.keys())[1]
        client.delete(victim)
        time.sleep(0.25)

        assert tier.resolve(KEYS[:2], 5).count(True) == 1
        assert len(readable(tier, KEYS[:2], length)) == 1
        assert set(put(tier, KEYS[:2], length)) == {DONE}
        assert readable(tier, KEYS[:2], length) == KEYS[:2]


@pytest.mark.parametrize("what", ["flip", "cut", "empty", "mixed", "other type"])
def test_a_value_that_is_not_what_was_stored_is_never_taken(fresh, what):
    """Flipped, cut, or parts of two different chunks."""
    length = 2 * MIB
    with store(fresh.url, length) as tier, fresh.client() as client:
        put(tier, KEYS[:2], length)
        (first, *_), (other, *_) = (sorted(client.keys(f"*{key.hex()}*")) for key in KEYS[:2])
        value = bytearray(client.get(first))
        if what == "flip":
            value[500_000] ^= 1
            client.set(first, bytes(value))
        elif what == "cut":
            client.set(first, bytes(value[:-1]))
        elif what == "empty":
            client.set(first, b"")
        elif what == "mixed":
            client.set(first, client.get(other))
        else:
            client.delete(first)
            client.lpush(first, "list")
        outcomes, _ = get(tier, KEYS[:2], length)

    assert outcomes[0] in (Outcome.CORRUPT, MISS, Outcome.FAILED)
    assert outcomes[1] is DONE or what == "other type"


def test_chunks_live_for_their_time_and_a_put_prolongs_it(fresh):
    """The server forgets by itself what nobody stores any more."""
    with store(fresh.url, ttl_s=100) as tier, fresh.client() as client:
        put(tier, KEYS[:1])
        (name,) = client.keys()
        assert 90 < client.ttl(name) <= 100
        client.expire(name, 5)
        time.sleep(0.25)
        put(tier, KEYS[:1])
        assert 90 < client.ttl(name) <= 100
    with store(fresh.url, ttl_s=None) as tier, fresh.client() as client:
        put(tier, KEYS[1:2])
        assert sorted(client.ttl(name) > 0 for name in client.scan_iter()) == [False, True]


def test_a_deleted_chunk_is_gone_for_everybody(fresh):
    """All parts of it."""
    with store(fresh.url, 2 * MIB) as tier, fresh.client() as client:
        put(tier, KEYS[:2], 2 * MIB)
        tier.delete(KEYS[:1])
        wait_until(lambda: client.dbsize() == 2)

        assert readable(tier, KEYS[:2], 2 * MIB) == KEYS[1:2]


def test_a_full_store_that_does_not_evict_refuses(tmp_path):
    """Back-pressure, no failure; it takes chunks again when there is room (R16)."""
    options = ("--maxmemory", "6mb", "--maxmemory-policy", "noeviction")
    with server(tmp_path, *options) as small, store(small.url) as tier:
        outcomes = [put(tier, [key])[0] for key in keys_of(range(600))]
        assert set(outcomes) == {DONE, Outcome.REFUSED}
        assert tier.stats().failures == {"OOM": outcomes.count(Outcome.REFUSED)}
        with small.client() as client:
            client.flushall()

        assert put(tier, [key_of(9999)]) == (DONE,)


def test_a_store_that_evicts_never_gives_wrong_bytes(tmp_path):
    """Parts disappear at the server's will."""
    length = 2 * MIB
    keys = keys_of(range(30))
    options = ("--maxmemory", "24mb", "--maxmemory-policy", "allkeys-random")
    with server(tmp_path, *options) as small, store(small.url, length) as tier:
        found = 0
        for start in range(0, 30, 3):
            put(tier, keys[start : start + 3], length)
            found += len(readable(tier, keys[: start + 3], length))

        assert found > 20
        assert tier.stats().misses > 0


def test_buffers_of_another_length_are_refused(tier, caplog):
    """A chunk has the length of its group."""
    assert put(tier, KEYS[:1], CHUNK_BYTES - 1) == (Outcome.REFUSED,)
    assert get(tier, [key_of(1, group=7)])[0] == (Outcome.REFUSED,)
    assert caplog.messages == [f"valkey: a chunk of group 0 has {CHUNK_BYTES - 1} bytes"]


def test_any_memory_will_do(tier):
    """Unaligned, read-only, of another format."""
    room = memoryview(bytearray(CHUNK_BYTES + 1))[1:]
    room[:] = payload_of(KEYS[0])
    longs = memoryview(payload_of(KEYS[1])).cast("Q")
    assert done(tier.put([(KEYS[0], room), (KEYS[1], longs)])) == (DONE, DONE)
    back = memoryview(bytearray(CHUNK_BYTES + 1))[1:]

    assert done(tier.get([(KEYS[0], back)])) == (DONE,)
    assert back == payload_of(KEYS[0])
    assert readable(tier, KEYS[:2]) == KEYS[:2]


def test_close_leaves_no_thread_and_refuses_what_comes_later(fresh):
    """It may be called twice."""
    before = threading.active_count()
    tier = store(fresh.url)
    put(tier, KEYS)
    tier.close()
    tier.close()

    assert threading.active_count() == before
    assert put(tier, KEYS[:1]) == (Outcome.REFUSED,)
    assert get(tier, KEYS[:1])[0] == (Outcome.REFUSED,)
    assert tier.resolve(KEYS[:1], 1) in ([False], [True])


def test_close_leaves_no_connection_and_none_is_made_later(fresh):
    """Also by a prober or a look-up that comes late."""
    tier = store(fresh.url)
    put(tier, KEYS)
    assert fresh.num_tier_connections()
    tier.close()
    wait_until(lambda: not fresh.num_tier_connections())

    assert not tier.probe(1)
    assert not tier.probe(1)
    assert not fresh.num_tier_connections()


def test_close_ends_a_connection_that_is_in_use(fresh):
    """A reply that takes too long does not keep it."""
    tier = store(fresh.url, retries=5)
    put(tier, KEYS[:1])
    with fresh.client(client_name="blocker") as client:
        client.execute_command("CLIENT", "PAUSE", 2000)
        batch = tier.get([(KEYS[0], memoryview(bytearray(CHUNK_BYTES)))], 30)
        time.sleep(0.1)
        started_s = time.monotonic()
        tier.close(0.1)

    assert done(batch) != (DONE,)
    assert time.monotonic() - started_s < 1.5
    wait_until(lambda: not fresh.num_tier_connections())


def test_a_unix_socket_leads_to_the_store(tmp_path):
    """Quicker than TCP on one machine."""
    path = tmp_path / "s"
    with server(tmp_path, "--unixsocket", str(path)), store(f"unix://{path}") as tier:
        assert set(put(tier, KEYS)) == {DONE}
        assert readable(tier, KEYS) == KEYS


def test_a_password_is_needed_and_never_shown(tmp_path, monkeypatch, caplog):
    """It comes from the environment; neither logs nor values print it."""
    caplog.set_level("DEBUG")
    acl = tmp_path / "acl.conf"
    acl.write_text("user kv on >sesame ~* +@all\nuser default off\n")
    with server(tmp_path, str(acl)) as closed:
        monkeypatch.setenv("KV_PASSWORD", "sesame")
        with store(closed.url, username="kv", password_env="KV_PASSWORD") as tier:
            assert set(put(tier, KEYS)) == {DONE}
            assert readable(tier, KEYS) == KEYS
            assert "sesame" not in repr(tier._options) + repr(tier._store._client)
        monkeypatch.setenv("KV_PASSWORD", "swordfish")
        with store(closed.url, username="kv", password_env="KV_PASSWORD") as tier:
            assert put(tier, KEYS[:1]) == (Outcome.FAILED,)
            assert not tier.probe(1)
    said = "\n".join(caplog.messages)

    assert "AuthenticationError" in said
    assert "sesame" not in said
    assert "swordfish" not in said


def test_tls(tmp_path):
    """With a certificate authority of our own, a client certificate, and none that vouches."""
    pems = certificates(tmp_path / "tls")
    port = free_port()
    options = ["--tls-port", str(port), "--tls-cert-file", pems["cert"]]
    options += ["--tls-key-file", pems["key"], "--tls-ca-cert-file", pems["cert"]]
    url = f"valkeys://127.0.0.1:{port}"
    with server(tmp_path, *options, "--port", "0", "--tls-auth-clients", "yes"):
        mine = {"tls_cert": pems["cert"], "tls_key": pems["key"]}
        with store(url, tls_ca=pems["cert"], **mine) as tier:
            keys = keys_of(range(4))
            assert set(put(tier, keys)) == {DONE}
            assert readable(tier, keys) == keys
        with store(url, **mine) as tier:
            assert put(tier, KEYS[:1]) == (Outcome.FAILED,)


def test_a_cluster(tmp_path):
    """Chunks of many parts over three nodes; a node that dies costs its own chunks only."""
    length = 5 * MIB // 2
    keys = keys_of(range(24))
    with cluster(tmp_path) as nodes:
        urls = [node.url for node in nodes]
        with store(urls, length, cluster=True, timeout_s=10) as tier:
            assert set(put(tier, keys, length)) == {DONE}
            assert readable(tier, keys, length) == keys
            time.sleep(0.25)
            assert tier.resolve(keys, 5) == [True] * 24
            for node in nodes:
                with node.client() as client:
                    assert client.dbsize() > 0
            assert tier.probe(5)
            nodes[2].kill()
            outcomes, _ = get(tier, keys, length)

            assert DONE in outcomes
            assert set(outcomes) - {DONE} <= {Outcome.FAILED, Outcome.TIMEOUT}


def test_close_leaves_no_connection_to_any_node_of_a_cluster(tmp_path):
    """Each has a pool of its own."""
    with cluster(tmp_path) as nodes:
        tier = store([node.url for node in nodes], cluster=True, timeout_s=10)
        assert set(put(tier, KEYS)) == {DONE}
        assert all(node.num_tier_connections() for node in nodes)
        tier.close()

        wait_until(lambda: not any(node.num_tier_connections() for node in nodes))


def test_sentinels_lead_to_the_server(tmp_path):
    """And to its replica when it dies."""
    with (
        server(tmp_path / "first") as first,
        server(tmp_path / "second", "--replicaof", f"127.0.0.1 {first.port}") as second,
    ):
        watch = tmp_path / "sentinel.conf"
        watch.write_text(
            f"sentinel monitor kv 127.0.0.1 {first.port} 1\n"
            "sentinel down-after-milliseconds kv 300\n"
            "sentinel failover-timeout kv 5000\n"
        )
        with (
            server(tmp_path / "watch", str(watch), "--sentinel") as sentinel,
            store([sentinel.url], service="kv", timeout_s=2) as tier,
        ):
            assert set(put(tier, KEYS)) == {DONE}
            with second.client() as client:
                wait_until(lambda: client.dbsize() == len(KEYS))
            with sentinel.client() as watcher:  # it asks for replicas every ten seconds
                wait_until(lambda: watcher.sentinel_slaves("kv"), 30)
            first.kill()
            wait_until(lambda: put(tier, [key_of(77)]) == (DONE,), 20)

            assert readable(tier, KEYS) == KEYS
            assert second.num_tier_connections()
            tier.close()
            wait_until(lambda: not second.num_tier_connections())
            wait_until(lambda: not sentinel.num_tier_connections())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"url": "valkey://me:secret@x"},
            "a tier of type 'valkey': url holds credentials (they belong into username and, by way"
            " of the environment, password_env)",
        ),
        ({"url": "valkey://[1:2]"}, "a url is not valid: "),
        (
            {"url": "valkeys://x", "tls_ca": "/not/there"},
            "/not/there, named for TLS, is not a file",
        ),
        (
            {"url": "valkey://x", "password_env": "KV_NOT_SET"},
            "the environment variable KV_NOT_SET holds no password",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options, message):
    """Without connecting anywhere, and without a secret in the message."""
    with pytest.raises(TierError) as caught:
        store(options.pop("url"), **options)

    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
