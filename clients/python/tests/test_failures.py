"""Lost replies, servers that do not answer, missing scripts, rights."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis
import redis.asyncio.sentinel
from redis.backoff import ConstantBackoff
from redis.exceptions import TimeoutError
from redis.sentinel import Sentinel
from servers import ROOT, Server, free_port, until

from sluice_redis import (
    ArgumentError, Breaker, BusyError, Limit, Limits, Local, NotLoadedError, OutcomeUnknownError, SluiceError,
    UnavailableError, WaitError, _core, _log, _manifest, _threads, aio,
)  # fmt: skip
from sluice_redis._connect import Gate, Pool
from sluice_redis._core import Caller, Clock, Send

MINUTE, SHORT = timedelta(minutes=1), timedelta(milliseconds=300)
BY_DEFAULT = int(redis.__version__.split(".")[0]) >= 6  # the client sends again
SCRIPT = _manifest.scripts()["list_log_v1"]
BUSY = "list_log_v1: NoConnection: none of 1 came free in 1 s: .*max_connections"


@pytest.mark.parametrize("retries", ["default", "given"])
def test_lost_reply(proxy, server, both, row, retries):
    """The trap: the client sends again by itself, and charges twice. The limiter's path does not."""
    client = both.client(proxy.port, **(both.retries() if retries == "given" else {}))
    if BY_DEFAULT or (retries == "given" and not both.is_async):
        both.call(client.script_load, SCRIPT.source())
        proxy.mode = "close"
        both.call(client.evalsha, SCRIPT.sha1, 1, "trap", 3, 60000000, 1, 0)
        assert server.client.llen("trap") == 2, "this test is about a client that sends again"
        trap = {"default": "resends by default", "given": "resends if given retries"}[retries]
        row["traps"].append("asyncio resends by default" if both.is_async else trap)
    codes = both.limits(client).list_log("codes", 3, MINUTE)
    codes.peek("ada")
    proxy.mode, eaten = "close", proxy.eaten
    with pytest.raises(OutcomeUnknownError) as lost:
        codes.allow("ada")
    assert proxy.eaten == eaten + 1 and lost.value.keys == ("sluice:codes:{ada}:ll1",)
    assert codes.peek("ada").remaining == 2, "charged exactly once"


def test_breaker(monkeypatch):
    """It opens when a server has answered nobody for as long as a call may take, and lets one call through."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    caller = Caller((), lambda address: address, False, Breaker(2, 0.25))

    def ask(answer):
        steps = caller.call(SCRIPT, ["log"], (b"1",), 1)
        try:
            next(steps)
            steps.send([answer])
        except StopIteration:
            return "answered"
        except SluiceError as error:
            return "refused" if "breaker is open: Redis has not answered for 1" in str(error) else "failed"

    silence, answer = TimeoutError("no reply"), [1, 0, 0, 0, 0]
    for at, reply, want in [
        (0, silence, "failed"), (0.5, silence, "failed"), (0.9, silence, "failed"), (1, answer, "refused"),
        (1.1, answer, "refused"), (1.2, silence, "failed"), (1.3, answer, "refused"), (1.46, answer, "answered"),
        (1.47, silence, "failed"), (1.48, silence, "failed"), (1.49, answer, "answered"),
    ]:  # fmt: skip
        now = at
        assert ask(reply) == want, at
    with pytest.raises(ArgumentError):
        Limits(redis.Redis(), breaker=Breaker(0, 1))


def test_breaker_in_an_outage(server, both):
    """A frozen server costs callers a timeout, then nothing, and decides again soon after it is back."""
    codes = both.limits(server.port, timeout=SHORT, on_failure="open").list_log("outage", 1000, MINUTE)
    assert not codes.allow("ada").degraded
    server.freeze()
    try:
        causes = [str(codes.allow("ada").cause) for _ in range(50)]
    finally:
        server.thaw()
    assert sum("breaker is open" not in cause for cause in causes) < 10
    until(lambda: not codes.allow("ada").degraded)


@pytest.mark.parametrize("kind", ["gcra", "slice_ring", "token_bucket"])
def test_lost_reply_of_others(proxy, kind, both):
    limits = both.limits(both.client(proxy.port, **both.retries()))
    how = ([Limit(3, MINUTE)],) if kind == "slice_ring" else (3, MINUTE)
    limiter = getattr(limits, kind)("r", *how)
    limiter.peek("ada")
    proxy.mode = "close"
    with pytest.raises(OutcomeUnknownError):
        limiter.allow("ada")
    assert limiter.peek("ada").remaining == 2


def test_lost_reply_of_a_give_back(proxy, both):
    codes = both.limits(both.client(proxy.port, **both.retries())).list_log("codes", 3, MINUTE)
    d = codes.allow_n("ada", 3)
    codes.give_back("ada", d, 1)
    proxy.mode = "close"
    with pytest.raises(OutcomeUnknownError):
        codes.give_back("ada", d, 1)
    assert codes.peek("ada").remaining == 2, "given back once"


def test_calls_with_an_id_are_repeated(proxy, both):
    limits = both.limits(proxy.port)
    codes, tokens = limits.zset_log("codes", 3, MINUTE), limits.budget("tokens", [Limit(10, MINUTE)])
    codes.peek("ada"), tokens.peek("ada")
    proxy.mode = "close"
    d = codes.allow("ada")
    assert d.granted and d.remaining == 2 and proxy.eaten == 1
    proxy.mode = "close"
    assert codes.give_back("ada", d) in (0, 1) and codes.peek("ada").remaining == 3
    proxy.mode = "close"
    assert tokens.reserve("ada", "r1", 4).remaining == 6
    proxy.mode = "close"
    tokens.settle("ada", "r1", 1)
    assert tokens.peek("ada").remaining == 9 and proxy.eaten == 4


def test_wait_whose_reply_is_lost_gives_back(proxy, server, both):
    codes = both.limits(proxy.port, timeout=SHORT).zset_log("codes", 1, MINUTE)
    codes.peek("ada")
    proxy.mode = "keep"
    with pytest.raises(OutcomeUnknownError):
        codes.wait("ada")
    assert proxy.eaten == 1
    until(lambda: not server.client.zcard("sluice:codes:{ada}:zl1"))


def test_look_is_repeated(proxy, both):
    codes = both.limits(proxy.port).list_log("codes", 3, MINUTE)
    codes.allow("ada")
    proxy.mode = "close"
    assert codes.peek("ada").remaining == 2 and proxy.eaten == 1


def test_reply_that_comes_too_late_is_nobody_elses(proxy, both):
    codes = both.limits(proxy.port, timeout=SHORT).list_log("codes", 3, MINUTE)
    codes.peek("ada")
    proxy.mode = "hold"
    with pytest.raises(OutcomeUnknownError):
        codes.allow_n("ada", 3)
    proxy.release()
    assert [codes.allow("bob").remaining for _ in range(3)] == [2, 1, 0]


class Recorder:
    """A pool with one connection, whose replies never come. done is what is done with it."""

    socket_timeout = 1.0

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        def record(*args):
            self.done.append(name)
            return self if name == "make_connection" else False

        return record


def test_connection_with_a_reply_to_come_is_closed():
    """Also where less time is left than the socket's timeout."""
    driver, recorder = Limits(redis.Redis())._driver, Recorder()
    driver.pools[os.getpid(), None, 1.0] = Pool(recorder, Gate(driver.own, Future), [])
    (outcome,) = driver.send(Send(None, (b"EVALSHA",), timeout=1.0, clock=Clock(0.5)))
    assert isinstance(outcome, TimeoutError)
    assert recorder.done == ["make_connection", "connect", "send_packed_command", "can_read", "disconnect"]


def test_interrupted_while_it_queues():
    """Before and after it was its turn: nobody else loses the connection."""
    own = Limits(redis.Redis(max_connections=1))._driver.own
    for turn in (False, True):
        gate, clock = Gate(own, Future), Clock(1)
        assert gate.enter(clock) is None
        waiter = gate.enter(clock)
        if turn:
            gate.leave(gate.replies, False)
        gate.interrupted(waiter, clock)
        if not turn:
            gate.leave(gate.replies, False)
        assert gate.enter(clock) is None and gate.enter(clock) is not None


def test_late_thread(monkeypatch):
    """A thread that is late to read a reply has time for what the reply asks for."""

    class Clocks:
        now = 0.0

        def monotonic(self):
            return self.now

    class Late(Recorder):
        def read_response(self):
            clocks.now += 5

    clocks = Clocks()
    monkeypatch.setattr(_core, "time", clocks)
    monkeypatch.setattr(_threads, "time", clocks)
    driver, clock = Limits(redis.Redis())._driver, Clock(1.0)
    driver.pools[os.getpid(), None, 1.0] = Pool(Late(), Gate(driver.own, Future), [])
    driver.send(Send(None, (b"EVALSHA",), timeout=1.0, clock=clock))
    assert clocks.now == 5 and clock.left() == 0.75


def test_frozen_server(server, both):
    limits = both.limits(server.port, timeout=SHORT)
    codes, fresh = limits.list_log("codes", 3, MINUTE), both.limits(server.port, timeout=SHORT)
    opened, denied = limits.gcra("o", 7, MINUTE, on_failure="open"), limits.gcra("d", 7, MINUTE, on_failure="deny")
    codes.peek("ada")
    server.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            codes.allow("ada")
        with pytest.raises((UnavailableError, OutcomeUnknownError)):  # newer clients send HELLO first
            fresh.list_log("codes", 3, MINUTE).allow("ada")
        d = opened.allow_n("ada", 2)
        assert (d.granted, d.degraded, d.permits, d.remaining, d.key) == (True, True, 2, 7, "")
        assert isinstance(d.cause, (OutcomeUnknownError, UnavailableError))
        assert opened.wait("ada").degraded and opened.reserve("ada").ok
        d = denied.allow("ada")
        assert (d.granted, d.degraded, d.retry_after_seconds) == (False, True, 1)
        with pytest.raises(WaitError):
            denied.wait("ada")
        assert time.monotonic() - began < 15, "seven calls of 0.3 s"
    finally:
        server.thaw()
    until(lambda: not codes.allow("ada").degraded)


def test_local_limit():
    """A share of each window: half of 10 a minute and of 100 an hour."""
    limits = Limits(redis.Redis(port=1), on_failure=Local(0.5))
    ring = limits.slice_ring("ring", [Limit(10, MINUTE), Limit(100, 60 * MINUTE)])
    d = ring.allow_n("ada", 4)
    assert (d.granted, d.degraded, d.remaining, [w.remaining for w in d.windows]) == (True, True, 1, [1, 46])
    d = ring.allow_n("ada", 5)
    assert not d.granted and timedelta(seconds=47) < d.wait <= timedelta(seconds=48) and ring.peek("ada").remaining == 1
    with pytest.raises(UnavailableError):
        ring.allow_n("ada", 6)  # more than the share holds
    assert limits.gcra("rate", 1, MINUTE, burst=8).allow_n("ada", 4).granted
    codes = limits.list_log("codes", 2, timedelta(seconds=1))
    assert [codes.reserve("ada").delay > timedelta() for _ in "ab"] == [False, True]
    assert codes.wait("ada", max_wait=MINUTE).granted
    with pytest.raises(WaitError, match="would exceed"):
        codes.wait("ada", max_wait=timedelta(milliseconds=1))


def test_nobody_listens(both):
    """It fails at once, whatever the client's retries are."""
    client = both.client(free_port(), **both.retries(ConstantBackoff(2)))
    limits, began = both.limits(client, timeout=SHORT), time.monotonic()
    with pytest.raises(UnavailableError, match="list_log_v1: NotSent"):
        limits.list_log("codes", 3, MINUTE).allow("ada")
    assert time.monotonic() - began < 2
    assert limits.list_log("codes", 3, MINUTE, on_failure="open").peek("ada").remaining == 3


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


def test_restart_between_calls():
    """Connections of before are found closed before anything is sent, and the script is loaded again."""
    server = Server()
    codes = Limits(redis.Redis(port=server.port)).list_log("codes", 3, MINUTE)
    codes.allow("ada")
    port = server.port
    server.stop()
    again = Server(port=port)
    try:
        assert codes.allow("ada").remaining == 2
    finally:
        again.stop()


def test_wait_rides_out_an_outage():
    port = free_port(10000)
    codes = Limits(redis.Redis(port=port), timeout=SHORT).list_log("codes", 3, MINUTE)
    with pytest.raises(UnavailableError):
        codes.wait("ada")  # without max_wait the first failure is the answer
    waited = []
    thread = threading.Thread(target=lambda: waited.append(codes.wait("ada", max_wait=timedelta(seconds=30))))
    thread.start()
    server = Server(port=port)
    try:
        thread.join(30)
        assert waited[0].granted
    finally:
        server.stop()


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


@pytest.fixture(scope="session")
def acl():
    """The users that `sluice acl` makes, by the end of their names."""
    command = ["go", "run", "./cmd/sluice", "acl"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    lines = [line.split() for line in out.decode().splitlines() if line.startswith("ACL SETUSER")]
    return {line[2].rsplit("-")[-1]: [">secret" if word.startswith("#") else word for word in line] for line in lines}


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
    replica = Server("--replicaof", f"127.0.0.1 {server.port}")
    try:
        until(lambda: replica.client.info("replication")["master_link_status"] == "up")
        codes = Limits(redis.Redis(port=replica.port), timeout=SHORT).list_log("codes", 3, MINUTE)
        with pytest.raises(UnavailableError, match="READONLY|read only replica"):
            codes.allow("ada")
        assert codes.peek("ada").remaining == 3, "a look writes nothing"
    finally:
        replica.stop()


@pytest.mark.parametrize("error", ["READONLY x", "MASTERDOWN x", "LOADING x", "NOAUTH x", "WRONGPASS x", "MOVED 0 "])
def test_connections_to_the_wrong_place_are_closed(error, both):
    """After a failover by DNS only new connections lead to the master: all idle ones are closed at the first error."""
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
    server = Server(*options)
    try:
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
    finally:
        server.stop()
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


def test_reserved_outlives_an_outage(proxy, server, both, caplog):
    """What Redis does not answer at the end of the block is settled as soon as it does; flush waits for it."""
    windows, short = [Limit(1000, MINUTE)], timedelta(milliseconds=100)
    _log.logged.clear()
    limits = both.limits(proxy.port, timeout=short)
    with limits.budget("tokens", windows).reserved("ada", "r1", 900) as r:
        r.used = 10
        proxy.cut()
    assert r.granted and not limits.flush(short)
    proxy.down = False
    assert limits.flush()
    assert Limits(server.client).budget("tokens", windows).peek("ada").remaining == 990
    assert caplog.messages[0].startswith("tokens: a cost is not settled: ")


def test_reserved(proxy, server, both):
    """Not set: the estimate stays. Denied: nothing. A lost reply: withdrawn. An error of the block goes on."""
    limits = both.limits(proxy.port, timeout=SHORT)
    tokens = limits.budget("tokens", [Limit(10, MINUTE)])
    with tokens.reserved("ada", "r1", 4):
        pass
    with tokens.reserved("ada", "r2", 7) as r:
        assert not r.granted and r.decision.wait and r.used is None
    with pytest.raises(ZeroDivisionError), tokens.reserved("ada", "r3", 6) as r:
        r.used = 1
        raise ZeroDivisionError
    assert tokens.peek("ada").remaining == 5
    with pytest.raises(ArgumentError, match="used -1: want 0 to"), tokens.reserved("ada", "r4", 1) as r:
        r.used = -1
    proxy.cut()
    with pytest.raises((UnavailableError, OutcomeUnknownError)), tokens.reserved("ada", "r5", 4):
        pass
    proxy.down = False
    assert limits.flush() and tokens.peek("ada").remaining == 4


def test_clients_settings_are_kept(server):
    """Database, name, decode_responses, password and a Unix socket are those of the client."""
    client = redis.Redis(port=server.port, db=3, decode_responses=True, client_name="web")
    codes = Limits(client, prefix="mine").list_log("codes", 3, MINUTE)
    assert codes.allow("ada").granted
    assert client.keys() == ["mine:codes:{ada}:ll1"] and server.client.dbsize() == 0
    assert sum(one["name"] == "web" and one["db"] == "3" for one in server.client.client_list()) >= 2


def test_unix_socket(tmp_path):
    server = Server("--unixsocket", tmp_path / "redis.sock")
    try:
        client = redis.Redis(unix_socket_path=str(tmp_path / "redis.sock"))
        assert Limits(client).list_log("codes", 3, MINUTE).allow("ada").granted
    finally:
        server.stop()


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


def cluster_client(cluster, **options):
    return redis.RedisCluster(host="127.0.0.1", port=cluster.port, **options)


@pytest.mark.parametrize("retries", ["default", "given"])
def test_cluster(cluster, both, row, retries):
    """In a cluster: loading on each node, and a lost reply."""
    options = both.retries() if retries == "given" and not both.is_async else {}
    client = both.client(cluster.port, "RedisCluster", **options)
    codes = both.limits(client).list_log("codes", 3, MINUTE)
    subjects = [f"user-{i}" for i in range(12)]
    assert [codes.allow(subject).remaining for subject in subjects] == [2] * 12
    for node in cluster.nodes:
        assert node.client.dbsize() > 0 and node.client.script_exists(SCRIPT.sha1) == [True]
    cluster.nodes[0].client.script_flush()
    assert [codes.allow(subject).remaining for subject in subjects] == [1] * 12
    key = "sluice:codes:{user-0}:ll1"
    server, proxy = cluster.node_of(key)
    proxy.mode = "close"
    with pytest.raises(OutcomeUnknownError):
        codes.allow("user-0")
    assert server.client.llen(key) == 3, "charged exactly once"
    if retries == "default" and not both.is_async:
        proxy.mode = "close"
        client.evalsha(SCRIPT.sha1, 1, key, 9, 60000000, 1, 0)
        assert server.client.llen(key) == 5, "this test is about a client that sends again"
        row["traps"].append("RedisCluster resends")


def test_cluster_smallest_user(cluster, acl):
    """A cluster's user needs +cluster|slots as well, and redis-py itself +info and +command."""
    for node in cluster.nodes:
        node.client.execute_command(*acl["use"], "+cluster|slots", "+info", "+command")
        node.client.script_load(SCRIPT.source())
    client = cluster_client(cluster, username="sluice-use", password="secret")
    codes = Limits(client, preloaded=True).list_log("codes", 3, MINUTE)
    assert all(codes.allow(f"user-{i}").granted for i in range(9))


def test_cluster_moves_a_slot(cluster):
    """MOVED and ASK are followed."""
    limits = Limits(cluster_client(cluster))
    codes, key = limits.list_log("codes", 9, MINUTE), "sluice:codes:{mover}:ll1"
    codes.allow("mover")
    source, _ = cluster.node_of(key)
    target = next(node for node in cluster.nodes if node is not source)
    slot = source.client.execute_command("CLUSTER", "KEYSLOT", key)
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
    source.client.execute_command("MIGRATE", "127.0.0.1", target.port, key, 0, 5000)
    try:
        assert codes.allow("mover").remaining == 7, "ASK"
        cluster.move(slot, source, target)
        assert codes.allow("mover").remaining == 6, "MOVED"
        assert codes.allow("mover").remaining == 5
    finally:
        target.client.flushall()
        cluster.move(slot, target, source)


def test_cluster_without_a_node(cluster):
    """Who cannot reach a node asks the others which has its slots now."""
    orders, key = Limits(cluster_client(cluster)).zset_log("orders", 9, MINUTE), "sluice:orders:{acme}:zl1"
    orders.allow("acme")
    source, proxy = cluster.node_of(key)
    target = next(node for node in cluster.nodes if node is not source)
    slot = source.client.execute_command("CLUSTER", "KEYSLOT", key)
    source.client.flushall()
    cluster.move(slot, source, target)
    proxy.cut()
    try:
        assert orders.allow("acme").remaining == 8
        assert target.client.zcard(key) == 1
    finally:
        proxy.down = False
        target.client.flushall()
        cluster.move(slot, target, source)


def test_cluster_with_a_frozen_node(cluster):
    client = cluster_client(cluster)
    codes, patient = (Limits(client, timeout=t).list_log("codes", 9, MINUTE) for t in (SHORT, 10 * MINUTE))
    keys = {subject: cluster.node_of(f"sluice:codes:{{{subject}}}:ll1")[0] for subject in map(str, range(20))}
    assert all(patient.allow(subject).granted for subject in keys)
    codes.peek("0")
    frozen = cluster.nodes[1]
    frozen.freeze()
    try:
        began = time.monotonic()
        with pytest.raises((OutcomeUnknownError, UnavailableError)):
            codes.allow(next(subject for subject in keys if keys[subject] is frozen))
        assert time.monotonic() - began < 5
    finally:
        frozen.thaw()
    until(lambda: all(patient.peek(subject).remaining for subject in keys))


def in_threads(count, call):
    """What a call returns, or raises, in as many threads at once."""
    barrier = threading.Barrier(count)

    def work(_):
        barrier.wait(20)
        try:
            return call()
        except SluiceError as error:
            return error

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


@pytest.mark.parametrize("options", [{}, {"max_connections": 2}])
def test_burst(server, options, both):
    """What waits for a connection waits for this process, not for Redis: the policy is not asked."""
    limits = both.limits(both.client(server.port, **options), timeout=SHORT, on_failure="open")
    server.client.config_resetstat()
    decisions = in_threads(500, lambda: limits.list_log("codes", 30, MINUTE).allow("ada"))
    assert not any(d.degraded for d in decisions) and sum(d.granted for d in decisions) == 30
    loads = server.client.info("commandstats")["cmdstat_script|load"]["calls"]
    assert loads <= 100, "who loads the script goes before those who queue for the first time"


def test_burst_during_an_outage(server, both):
    """Those who queue learn from those before them that the server does not answer."""
    limits = both.limits(both.client(server.port, max_connections=1), timeout=SHORT, on_failure="open")
    codes = limits.list_log("codes", 3, MINUTE)
    codes.peek("ada")
    server.freeze()
    try:
        began = time.monotonic()
        assert all(d.degraded for d in in_threads(60, lambda: codes.allow("ada")))
        assert time.monotonic() - began < 10
    finally:
        server.thaw()


@pytest.mark.parametrize("policy", ["error", "open", "deny"])
def test_no_connection_comes_free(proxy, policy, both):
    pool = both.call(both.module.BlockingConnectionPool, port=proxy.port, max_connections=1, timeout=1)
    client = both.call(both.module.Redis, connection_pool=pool)
    limits = both.limits(client, timeout=timedelta(seconds=20), on_failure=policy)
    codes = limits.list_log("codes", 3, MINUTE)
    codes.peek("ada")
    proxy.mode = "hold"
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(codes.allow, "ada")
        until(lambda: proxy.eaten)
        with pytest.raises(BusyError, match=BUSY):
            codes.allow("bob")
        waiting = threads.submit(codes.allow, "bob")
        proxy.release()
        assert first.result(20).remaining == 2 and waiting.result(20).remaining == 2


def test_degraded_decisions_are_logged(caplog):
    """Once a minute at most; the next line has how many were left out. Subjects are not logged."""
    client = redis.Redis(port=free_port())
    codes = Limits(client, timeout=SHORT).list_log("logged", 3, MINUTE, on_failure="open")

    def degraded():  # without what other tests left behind, which is settled in the background
        return [message for message in caplog.messages if "on_failure=" in message]

    assert all(codes.allow("ada").granted for _ in range(3)) and len(degraded()) == 1
    assert {(record.name, record.levelname) for record in caplog.records} == {("sluice_redis", "WARNING")}
    assert degraded()[0].startswith("logged: on_failure='open' decides: list_log_v1: NotSent: Error ")
    assert "ada" not in caplog.text
    for about, (last, left_out) in list(_log.logged.items()):
        _log.logged[about] = last - 60, left_out
    assert codes.allow("ada") and len(degraded()) == 2
    left_out = re.search(r" \((\d+) more like it before\)$", degraded()[1])
    assert int(left_out.group(1)) >= 2
    Limits(client, timeout=SHORT).gcra("other", 3, MINUTE, on_failure="deny").allow("ada")
    assert degraded()[-1].startswith("other: on_failure='deny' decides: gcra_v1: NotSent: Error ")


def test_argument_errors_have_no_policy(server):
    with pytest.raises(ArgumentError):
        Limits(server.client, on_failure="open").list_log("codes", 3, MINUTE).allow_n("ada", 4)
