"""What servers and clients are like: rights, missing scripts, TLS, failovers, Sentinel, Valkey."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from datetime import timedelta

import pytest
import redis
import redis.asyncio.sentinel
from both import in_threads
from redis.sentinel import Sentinel
from servers import Server, free_port, until

from sluice_redis import Limit, Limits, NotLoadedError, OutcomeUnknownError, UnavailableError, _manifest, aio
from sluice_redis._core import Caller

MINUTE, SHORT = timedelta(minutes=1), timedelta(milliseconds=300)
SCRIPT = _manifest.scripts()["list_log_v1"]


def test_password_of_hello():
    """Redis 5 repeats the words of a command that it does not know. Before 5.0 redis-py does not send it."""
    if int(redis.__version__.split(".")[0]) < 5:
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    words = connection.recv(1000).split()[2::2]
                    text = b"-ERR unknown command `HELLO`, with args beginning with: "
                    connection.sendall(text + b" ".join(words) + b"\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        rdb = redis.Redis(port=listener.getsockname()[1], protocol=3, username="ada", password="s3cret")
        with pytest.raises(UnavailableError, match="unknown command `HELLO`") as raised:
            Limits(rdb, timeout=SHORT).list_log("codes", 3, MINUTE).allow("ada")
        assert "s3cret" not in str(raised.value)


def test_restart_between_calls(monkeypatch):
    """Connections of before are found closed before anything is sent, and the script is loaded again."""
    monkeypatch.setattr("sluice_redis._threads.FRESH", 0)  # a server is back sooner
    server = Server()
    codes = Limits(redis.Redis(port=server.port)).list_log("codes", 3, MINUTE)
    codes.allow("ada")
    port = server.port
    server.stop()
    with Server(port=port):
        assert codes.allow("ada").remaining == 2


def test_noscript(server, both):
    codes = both.limits(server.port).list_log("codes", 9, MINUTE)
    for remaining in (8, 7):
        server.client.script_flush()
        assert codes.allow("ada").remaining == remaining
    assert server.client.script_exists(SCRIPT.sha1) == [True]
    assert "eval" not in server.client.info("commandstats"), "never EVAL"


def test_preloaded(server, both):
    limits = both.limits(server.port, preloaded=True)
    with pytest.raises(NotLoadedError) as missing:
        limits.list_log("codes", 3, MINUTE).allow("ada")
    for cure in ("sluice load", "redis-cli -x SCRIPT LOAD < list_log_v1.lua", SCRIPT.sha1):
        assert cure in str(missing.value)
    assert server.client.script_exists(SCRIPT.sha1) == [False]
    server.client.script_load(SCRIPT.source())
    assert limits.list_log("codes", 3, MINUTE).allow("ada").granted


def test_smallest_user(server, acl):
    """With the rights of sluice-use alone all limiters work, preloaded; without preloaded the error names the cure."""
    server.client.execute_command(*acl["use"])
    client = redis.Redis(port=server.port, username="sluice-use", password="secret")
    with pytest.raises(NotLoadedError, match="this user may not load it"):
        Limits(client).list_log("codes", 3, MINUTE).allow("ada")
    for script in _manifest.scripts().values():
        server.client.script_load(script.source())
    limits = Limits(client, preloaded=True)
    for kind in ("list_log", "zset_log"):
        codes = getattr(limits, kind)("codes", 3, MINUTE)
        assert codes.give_back("ada", codes.allow("ada")) == 1
        codes.reset("ada")
    ring = limits.slice_ring("ring", [Limit(3, MINUTE)])
    assert ring.give_back("ada", ring.allow("ada")) == 1
    assert limits.gcra("rate", 3, MINUTE).allow("ada").granted
    sms, tokens = limits.token_bucket("sms", 3, MINUTE), limits.budget("tokens", [Limit(9, MINUTE)])
    assert sms.allow("ada").granted
    sms.set_rate("ada", Limit(4, MINUTE))
    tokens.reserve("ada", "r1", 3)
    tokens.settle("ada", "r1", 0)
    with limits.concurrency("slots", 1, MINUTE).acquire("ada") as slot:
        assert slot.decision.granted
    other = Limits(client, prefix="other", preloaded=True).list_log("codes", 3, MINUTE)
    with pytest.raises((UnavailableError, OutcomeUnknownError), match="NOPERM|permission"):
        other.allow("ada")


def test_loading_and_read_only(server):
    server.client.config_set("repl-diskless-sync-delay", 0)
    with Server("--replicaof", f"127.0.0.1 {server.port}") as replica:
        until(lambda: replica.client.info("replication")["master_link_status"] == "up")
        codes = Limits(redis.Redis(port=replica.port), timeout=SHORT).list_log("codes", 3, MINUTE)
        with pytest.raises(UnavailableError, match="READONLY|read only replica"):
            codes.allow("ada")
        assert codes.peek("ada").remaining == 3, "a look writes nothing"


@pytest.mark.parametrize(
    "error", ["READONLY x", "MASTERDOWN x", "LOADING x", "NOAUTH x", "WRONGPASS x", "MOVED 0 ", "silence"]
)
def test_connections_to_the_wrong_place_are_closed(error, both):
    """After a failover by DNS only new connections lead to the master: all idle ones are closed at the first error.
    So they are at the first silence: a firewall has forgotten them."""
    idle, failed = threading.Barrier(6), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = listener.getsockname()
        error += f"{here[0]}:{here[1]}" if error.startswith("MOVED") else ""

        def serve(connection, old):
            with contextlib.suppress(OSError, threading.BrokenBarrierError):
                while words := connection.recv(1000):
                    if b"PING" in words and old and not failed.is_set():
                        idle.wait(20)
                    reply = b"-" + error.encode() if old and failed.is_set() else b"+PONG"
                    if reply != b"-silence":
                        connection.sendall((reply + b"\r\n") * words.count(b"*"))

        def accept():
            with contextlib.suppress(OSError):
                for number in range(20):
                    threading.Thread(target=serve, args=(listener.accept()[0], number < 6), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        no_hello = {"protocol": 2} if int(redis.__version__.split(".")[0]) >= 5 else {}
        caller = Caller([here] if error.startswith("MOVED") else (), lambda address: address, False)
        caller.slots = dict.fromkeys(range(16384), here)
        driver = both.limits(both.client(here[1], **no_hello))._driver

        def ping():
            command = caller.command(_manifest.packed((b"PING",)), ["x"], 1.0, repeatable=False)
            return both.call(driver.drive, command)

        in_threads(6, ping)
        failed.set()
        if error == "silence":
            with pytest.raises(OutcomeUnknownError):
                ping()
        assert ping() in (b"PONG", "PONG")


def secure(folder):
    """The options of a server that speaks TLS on a port of its own."""
    key, cert, port = folder / "key.pem", folder / "cert.pem", free_port()
    name = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(["openssl", "req", *name, "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    files = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert]
    return port, ["--tls-port", port, *files, "--tls-auth-clients", "no"]


def test_errors_say_the_cure(cluster, tmp_path):
    port, options = secure(tmp_path)
    with Server(*options) as server:
        for text, client in [
            ("if the port speaks no TLS", redis.Redis(port=server.port, ssl=True)),
            ("if the port speaks TLS", redis.Redis(port=port, db=1)),
            ("give Limits a RedisCluster", redis.Redis(port=cluster.port)),
        ]:
            codes = Limits(client).list_log("codes", 3, MINUTE)
            with pytest.raises(UnavailableError, match=text):
                [codes.allow(f"user-{i}") for i in range(9)]

        async def cluster_client_of_a_server():
            client = redis.asyncio.RedisCluster(host="127.0.0.1", port=server.port)
            await aio.Limits(client).list_log("codes", 3, MINUTE).allow("ada")

        with pytest.raises(UnavailableError, match="give Limits a Redis, not a RedisCluster"):
            asyncio.run(cluster_client_of_a_server())
    redis_4 = "Error running script (call to f_9): @user_script:1: @user_script: 1: "
    steps = Caller((), lambda address: address, False).call(SCRIPT, ["log"], (b"1",), 1)
    next(steps)
    with pytest.raises(UnavailableError, match="want Redis 5.0 or later"):
        steps.send([redis.ResponseError(redis_4 + "Write commands not allowed after non deterministic commands.")])


def test_refused_inside_a_script(server):
    """A script takes back what it wrote before Redis refuses a command: nothing was charged, and that is known."""
    server.client.execute_command("ACL SETUSER half on >secret ~* +@all -rpush -lpush")
    half = Limits(redis.Redis(port=server.port, username="half", password="secret"))
    codes = Limits(redis.Redis(port=server.port)).list_log("codes", 3, MINUTE)
    with pytest.raises(UnavailableError, match="sluice acl"):
        half.list_log("codes", 3, MINUTE).allow("ada")
    server.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(UnavailableError, match="raise maxmemory"):
            codes.allow("ada")
    finally:
        server.client.config_set("maxmemory", 0)
    assert codes.peek("ada").remaining == 3


@pytest.mark.parametrize("kind", ["Valkey", "ValkeyCluster"])
def test_valkey(server, cluster, both, kind):
    valkey = pytest.importorskip("valkey.asyncio" if both.is_async else "valkey")
    port = server.port if kind == "Valkey" else cluster.port
    codes = both.limits(both.call(getattr(valkey, kind), host="127.0.0.1", port=port)).list_log("codes", 3, MINUTE)
    assert [codes.allow(f"user-{i}").remaining for i in range(9)] == [2] * 9


def test_clients_settings_are_kept(tmp_path):
    """Database, name, decode_responses and a Unix socket are those of the client."""
    with Server("--unixsocket", tmp_path / "redis.sock") as server:
        for where in ({"port": server.port}, {"unix_socket_path": str(tmp_path / "redis.sock")}):
            client = redis.Redis(db=3, decode_responses=True, client_name="web", **where)
            limits = Limits(client, prefix="mine")  # its connections stay as long as it
            assert limits.list_log("codes", 3, MINUTE).allow("ada").granted
            assert client.keys() == ["mine:codes:{ada}:ll1"] and server.client.dbsize() == 0
            assert sum(one["name"] == "web" and one["db"] == "3" for one in server.client.client_list()) >= 2


def test_sentinel(server, both):
    sentinel_port = free_port()
    path = os.path.join(server.folder.name, "sentinel.conf")
    with open(path, "w") as conf:
        conf.write(f"port {sentinel_port}\nsentinel monitor main 127.0.0.1 {server.port} 1\n")
    process = subprocess.Popen(["redis-server", path, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        sentinel = Sentinel([("127.0.0.1", sentinel_port)], socket_timeout=5)
        until(lambda: sentinel.discover_master("main")[1] == server.port)
        kind = redis.asyncio.sentinel.Sentinel if both.is_async else Sentinel
        client = both.call(lambda: kind([("127.0.0.1", sentinel_port)], socket_timeout=5).master_for("main"))
        assert both.limits(client).list_log("codes", 3, MINUTE).allow("ada").remaining == 2
        assert server.client.llen("sluice:codes:{ada}:ll1") == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
