"""Lost replies, servers that do not answer, bursts."""

import asyncio
import contextlib
import os
import re
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import Mock

import pytest
import redis.asyncio
from both import in_a_loop, in_threads
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError, TimeoutError
from servers import Server, free_port, until

from sluice_redis import (
    ArgumentError, Breaker, BusyError, Limit, Limits, Local, OutcomeUnknownError, SluiceError, StateError,
    UnavailableError, WaitError, _core, _errors, _manifest, _threads, aio,
)  # fmt: skip
from sluice_redis._connect import Gate, Pool
from sluice_redis._core import Caller, Clock, NotSent, Send

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
            while True:
                next(steps)
                steps.send([answer])
        except StopIteration:
            return "answered"
        except SluiceError as error:
            return "refused" if "breaker is open: Redis has not answered for 1" in str(error) else "failed"

    silence, answer, locked_out = TimeoutError("no reply"), [1, 0, 0, 0, 0], NotSent("no")
    locked_out.__cause__ = AuthenticationError("no")
    for at, reply, want in [
        (0, silence, "failed"), (0.5, silence, "failed"), (0.9, silence, "failed"), (1, answer, "refused"),
        (1.1, answer, "refused"), (1.2, silence, "failed"), (1.3, answer, "refused"), (1.46, answer, "answered"),
        (1.47, silence, "failed"), (1.48, silence, "failed"), (1.49, answer, "answered"),
        (1.5, locked_out, "failed"), (1.6, locked_out, "failed"), (2.5, locked_out, "failed"),
        (2.51, locked_out, "failed"),
    ]:  # fmt: skip
        now = at
        assert ask(reply) == want, at
    with pytest.raises(ArgumentError):
        Limits(redis.Redis(), breaker=Breaker(0, 1))


@in_a_loop
async def test_nodes_that_have_left():
    """They are not asked which slots they have, and nothing of them is kept."""
    caller = Caller([("seed", 1)], lambda address: address, False, Breaker())
    for host in ("left", "here"):
        caller.slots = {}
        for _ in range(2):
            steps = caller.command(b"GET", ["log"], 1)
            with contextlib.suppress(StopIteration):
                next(steps)
                while True:
                    steps.send([[[0, 16383, [host, 1]]]])
    assert set(caller.nodes) == {("seed", 1), ("here", 1)} and [n for _, n in caller.states] == [("here", 1)]
    for driver in (Limits(redis.Redis())._driver, aio.Limits(redis.asyncio.Redis())._driver):
        connection = Mock(**{"disconnect.return_value": asyncio.gather()})
        driver.pool(("left", 1), 1.0).idle.append((connection, time.monotonic() - 61))
        driver.pool(("here", 1), 1.0)
        connection.disconnect.assert_called_once_with()


def test_breaker_in_an_outage(server, both):
    """A frozen server costs callers a timeout, then nothing, and decides again soon after it is back."""
    codes = both.limits(server.port, timeout=SHORT, on_failure="open").list_log("outage", 1000, MINUTE)
    assert not codes.allow("ada").degraded
    with server.frozen():
        causes = [str(codes.allow("ada").cause) for _ in range(50)]
    assert sum("breaker is open" not in cause for cause in causes) < 10
    until(lambda: not codes.allow("ada").degraded)


# The limiter, the call whose reply is lost (sent once it is an OutcomeUnknownError), and what remains.
LOST = {
    "gcra": (lambda l: l.gcra("r", 3, MINUTE), lambda r: r.allow("ada"), False, 2),
    "slice_ring": (lambda l: l.slice_ring("r", [Limit(3, MINUTE)]), lambda r: r.allow("ada"), False, 2),
    "token_bucket": (lambda l: l.token_bucket("r", 3, MINUTE), lambda r: r.allow("ada"), False, 2),
    "quota": (lambda l: l.quota("r", 3, "day", on_failure="open"), lambda r: r.report("ada", 1), False, 2),
    "a give back": (lambda l: l.list_log("r", 3, MINUTE), lambda r, d: r.give_back("ada", d, 1), False, 1),
    "a look": (lambda l: l.list_log("r", 3, MINUTE), lambda r: r.peek("ada"), True, 3),
    "zset_log": (lambda l: l.zset_log("r", 3, MINUTE), lambda r: r.allow("ada"), True, 2),
    "a give back of an id": (lambda l: l.zset_log("r", 3, MINUTE), lambda r, d: r.give_back("ada", d), True, 3),
    "budget": (lambda l: l.budget("r", [Limit(3, MINUTE)]), lambda r: r.reserve("ada", "r1", 2), True, 1),
    "settle": (lambda l: l.budget("r", [Limit(3, MINUTE)]), lambda r: r.charge("ada", "r1", 2), True, 1),
}


@pytest.mark.parametrize("make, call, is_repeated, left", LOST.values(), ids=LOST)
def test_lost_replies(proxy, both, make, call, is_repeated, left):
    """What is charged once in any case is sent again."""
    limiter = make(both.limits(both.client(proxy.port, **both.retries())))
    limiter.peek("ada")
    granted = [limiter.allow_n("ada", 3)] if call.__code__.co_argcount == 2 else []
    if granted:  # its script is loaded, and one permit is back
        limiter.give_back("bob", limiter.allow("bob"))
    proxy.mode = "close"
    with contextlib.nullcontext() if is_repeated else pytest.raises(OutcomeUnknownError):
        call(limiter, *granted)
    assert limiter.peek("ada").remaining == left and proxy.eaten == 1


def test_wait_whose_reply_is_lost_gives_back(proxy, server, both):
    codes = both.limits(proxy.port, timeout=SHORT).zset_log("codes", 1, MINUTE)
    codes.peek("ada")
    proxy.mode = "keep"
    with pytest.raises(OutcomeUnknownError):
        codes.wait("ada")
    assert proxy.eaten == 1
    until(lambda: not server.client.zcard("sluice:codes:{ada}:zl1"))


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


def test_no_time_is_left_after_connecting():
    """The command is not sent, and the connection is for the next call."""
    driver, recorder = Limits(redis.Redis())._driver, Recorder()
    pool = driver.pools[os.getpid(), None, 1.0] = Pool(recorder, Gate(driver.own, Future), [])
    with pytest.raises(NotSent):
        driver.send(Send(None, (b"EVALSHA",), timeout=1.0, clock=Clock(1.0, -1.0)))
    assert recorder.done == ["make_connection", "connect"] and pool.idle[0][0] is recorder


def test_interrupted_while_it_queues():
    """Before and after it was its turn: nobody else loses the connection."""
    own = Limits(redis.Redis(max_connections=1))._driver.own
    for turn in (False, True):
        gate, clock = Gate(own, Future), Clock(1)
        assert gate.enter(clock) is None
        waiter = gate.enter(clock)
        if turn:
            gate.leave(gate.replies, False)
        gate.interrupted(waiter)
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
    with server.frozen():
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


def test_wait_rides_out_an_outage():
    port = free_port(10000)
    codes = Limits(redis.Redis(port=port), timeout=SHORT).list_log("codes", 3, MINUTE)
    with pytest.raises(UnavailableError):
        codes.wait("ada")  # without max_wait the first failure is the answer
    waited = []
    thread = threading.Thread(target=lambda: waited.append(codes.wait("ada", max_wait=timedelta(seconds=30))))
    thread.start()
    with Server(port=port):
        thread.join(30)
        assert waited[0].granted


def test_reserved_outlives_an_outage(proxy, server, both, caplog):
    """What Redis does not answer at the end of the block is settled as soon as it does; flush waits for it."""
    windows, short = [Limit(1000, MINUTE)], timedelta(milliseconds=100)
    _errors.logged.clear()
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
    with server.frozen():
        began = time.monotonic()
        assert all(d.degraded for d in in_threads(60, lambda: codes.allow("ada")))
        assert time.monotonic() - began < 10


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
    for about, (last, left_out) in list(_errors.logged.items()):
        _errors.logged[about] = last - 60, left_out
    assert codes.allow("ada") and len(degraded()) == 2
    left_out = re.search(r" \((\d+) more like it before\)$", degraded()[1])
    assert int(left_out.group(1)) >= 2
    Limits(client, timeout=SHORT).gcra("other", 3, MINUTE, on_failure="deny").allow("ada")
    assert degraded()[-1].startswith("other: on_failure='deny' decides: gcra_v1: NotSent: Error ")
    _errors.warn("other", "slot lost", str(StateError("s", ["x:{ada}:cc1"], "BADSTATE", "text")))
    assert caplog.messages[-1] == "other: slot lost: s: BADSTATE text"
