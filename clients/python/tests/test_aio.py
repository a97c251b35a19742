"""The limiters for asyncio."""

import asyncio
import functools
import gc
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis.asyncio
from both import in_a_loop, run
from servers import until

from sluice_redis import Limit, UnavailableError, _manifest
from sluice_redis._connect import Gate, Pool
from sluice_redis._core import Clock, NotSent, Send
from sluice_redis.aio import Limits

SECOND, MINUTE, SHORT = timedelta(seconds=1), timedelta(minutes=1), timedelta(milliseconds=300)
SCRIPT = _manifest.scripts()["list_log_v1"]


def client_of(port, **options):
    return redis.asyncio.Redis(port=port, **options)


async def made(port):
    """Old versions of redis-py need a running loop to make a client."""
    return Limits(client_of(port))


async def cancelled(task, when):
    """Cancels a task as soon as something has happened."""
    await when
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_a_loop
async def test_answers_are_awaited():
    """Without await there is no answer, though a coroutine would be as good as a grant."""
    limits = Limits(client_of(1))
    render, zset = limits.concurrency("render", 3, MINUTE), limits.zset_log("zset", 3, MINUTE)
    for call in [zset.allow, zset.reserve, limits.gcra("rate", 3, MINUTE).allow, render.try_acquire]:
        with pytest.raises(TypeError, match="await"):
            bool(call("ada"))
        with pytest.raises(UnavailableError):
            await asyncio.create_task(call("ada"))
    pending = zset.allow("ada")
    with pytest.raises(AttributeError, match="there is no answer yet: await it first"):
        pending.granted
    assert not hasattr(pending, "granted") and asyncio.iscoroutine(pending)
    with pytest.raises(UnavailableError):
        await pending


@pytest.mark.parametrize("timeout, blocked, cancels", [(0.3, 3.6, False), (0.3, 2.3, True)])
@in_a_loop
async def test_blocked_event_loop(server, timeout, blocked, cancels):
    """Redis is healthy: that the loop does not get to read its replies says nothing about it."""
    limits = Limits(client_of(server.port), timeout=timeout * SECOND, on_failure="open")
    codes = limits.list_log("codes", 5, MINUTE)
    tasks = [asyncio.ensure_future(codes.allow("ada")) for _ in range(500)]
    for _ in "ab":
        await asyncio.sleep(0)  # they are about to connect
    if cancels:
        tasks.pop(0).cancel()
    time.sleep(blocked)
    decisions = await asyncio.gather(*tasks)
    assert sum(d.granted for d in decisions) <= 5 and not any(d.degraded for d in decisions)
    await limits.close()


@in_a_loop
async def test_time_to_connect_does_not_count(proxy, server):
    """The reply to the password and the one to the command may each take most of the timeout."""
    server.client.execute_command("ACL SETUSER web on >secret ~* +@all")
    server.client.script_load(SCRIPT.source())
    limits = Limits(client_of(proxy.port, username="web", password="secret"), timeout=SECOND)
    proxy.trigger, proxy.mode = b"AUTH", "hold"
    task = asyncio.ensure_future(limits.list_log("codes", 9, MINUTE).allow("ada"))

    async def silent():
        """Until the server has been silent to the call for 0.6 s more."""
        ((call,),) = (watch.calls for watch in limits._driver.watches.values())
        before = call.spent
        await asyncio.to_thread(until, lambda: call.spent >= before + 0.6)

    await proxy.until(lambda: proxy.eaten == 1)
    await silent()
    proxy.trigger, proxy.mode = b"EVALSHA", "hold"
    proxy.release()
    proxy.held.clear()
    await proxy.until(lambda: proxy.eaten == 2)
    await silent()
    proxy.release()
    assert (await task).remaining == 8
    await limits.close()


@in_a_loop
async def test_cancelled_task_leaves_no_reply_behind(proxy, row):
    """The reply to a cancelled call is never read by another one."""
    codes = Limits(client_of(proxy.port)).list_log("codes", 9, MINUTE)
    await codes.allow_n("bob", 5)
    for _ in range(3):
        proxy.mode = "hold"
        proxy.held.clear()
        eaten = proxy.eaten
        task = asyncio.ensure_future(codes.peek("bob"))
        await cancelled(task, proxy.until(lambda: proxy.eaten > eaten))
        others = asyncio.gather(*(codes.peek(f"other-{i}") for i in range(5)))
        proxy.release()
        assert [d.remaining for d in await others] == [9] * 5
    row["traps"].append("a cancelled task leaves a reply")


class Recorder:
    """A pool with one connection, whose replies never come. done is what is done with it."""

    def __init__(self):
        self.done, self.sending = [], asyncio.Event()

    def make_connection(self):
        return self

    async def connect(self):
        self.done.append("connect")

    async def can_read(self):
        return False

    async def send_packed_command(self, *words):
        self.sending.set()

    async def read_response(self):
        await asyncio.sleep(60)

    async def disconnect(self):
        self.done.append("disconnect")


@in_a_loop
async def test_connection_with_a_reply_to_come_is_closed(server):
    """Whether redis-py closes it by itself (some versions do not) or not."""
    limits = Limits(client_of(server.port))
    loop, recorder = asyncio.get_running_loop(), Recorder()
    gate = Gate(limits._driver.own, loop.create_future)
    limits._driver.pools[loop, None, 1.0] = Pool(recorder, gate, [])
    task = asyncio.ensure_future(limits.list_log("codes", 3, MINUTE).allow("ada"))
    await cancelled(task, recorder.sending.wait())
    assert await limits.flush() and recorder.done == ["connect", "disconnect"]


@in_a_loop
async def test_cancelled_while_connecting(proxy, server):
    """The reply to the password of a cancelled call is not taken for one to a command."""
    server.client.execute_command("ACL SETUSER web on >secret ~* +@all")
    codes = Limits(client_of(proxy.port, username="web", password="secret")).list_log("codes", 9, MINUTE)
    proxy.trigger, proxy.mode = b"AUTH", "hold"
    task = asyncio.ensure_future(codes.peek("ada"))
    await cancelled(task, proxy.until(lambda: proxy.eaten))
    seen = proxy.requests
    others = [asyncio.ensure_future(codes.allow(f"other-{i}")) for i in range(3)]
    await proxy.until(lambda: proxy.requests > seen)
    proxy.release()
    assert [(await other).remaining for other in others] == [8] * 3


@in_a_loop
async def test_cancelled_at_any_moment(server):
    """Wherever it is interrupted, those that come after get their own answers, and the pool loses no connection."""
    limits = Limits(client_of(server.port, max_connections=1))
    codes = limits.list_log("codes", 1000, MINUTE)
    await codes.allow("x")
    for i in range(120):
        tasks = [asyncio.ensure_future(codes.allow_n("busy", 2)) for _ in range(3)]  # two of them queue
        for _ in range(i % 30):
            await asyncio.sleep(0)
        for task in tasks[i % 2 : 1 + i % 3]:
            task.cancel()
        await asyncio.gather(*tasks[1 + i % 3 :])
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await codes.peek(f"idle-{i}")).remaining == 1000
    await limits.close()


class Deaf(Recorder):
    """As a redis-py that loses cancellations. error is what it raises then."""

    error = None

    async def connect(self):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if self.error:
                raise self.error


@in_a_loop
async def test_a_late_connection_is_for_the_next_call():
    """Where it takes longer to connect than a call may take, no call would ever be answered."""
    driver, loop, recorder = Limits(client_of(1))._driver, asyncio.get_running_loop(), Recorder()
    recorder.connect = functools.partial(asyncio.sleep, 0.05)
    pool = driver.pools[loop, None, 0.01] = Pool(recorder, Gate(driver.own, loop.create_future), [])
    with pytest.raises(NotSent):
        await driver.send(Send(None, (b"EVALSHA",), 0.01, Clock(0.01)))
    await asyncio.wait(driver.tasks)
    assert pool.idle[0][0] is recorder and not recorder.done


@pytest.mark.parametrize("error", [None, redis.ConnectionError()])
def test_cancelled_call_that_goes_on(caplog, error):
    """It sends nothing, and its error is nobody's."""

    async def work():
        limits, loop, recorder = Limits(client_of(1)), asyncio.get_running_loop(), Deaf()
        recorder.error = error
        gate = Gate(limits._driver.own, loop.create_future)
        limits._driver.pools[loop, None, 1.0] = Pool(recorder, gate, [])
        for steps in range(12):
            task = asyncio.ensure_future(limits.list_log("codes", 1000, MINUTE).allow("ada"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
        await limits.close()
        assert "disconnect" in recorder.done and not recorder.sending.is_set()

    run(work())
    gc.collect()
    assert "NotSent" not in caplog.text


@in_a_loop
async def test_cancellation_is_never_lost(server):
    """Also where a reply comes at the same moment: a task that goes on would ask for ever."""
    limits = Limits(client_of(server.port))
    codes = limits.list_log("codes", 1000, MINUTE)

    async def ask():
        while True:
            await codes.peek("busy")

    await codes.peek("x")
    for i in range(300):
        task = asyncio.ensure_future(ask())
        for _ in range(i % 60):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()
    await limits.close()


@in_a_loop
async def test_what_a_streamed_response_took_is_settled(server):
    """Starlette cancels a response at each await when its client has left."""
    anyio = pytest.importorskip("anyio")

    limits = Limits(client_of(server.port))
    tokens, render = limits.budget("tokens", [Limit(1000, MINUTE)]), limits.concurrency("render", 100, MINUTE)

    async def stream(i):
        async with render.acquire("acme"), tokens.reserved("acme", f"r{i}", 9) as r:
            r.used = 1
            await asyncio.sleep(60)

    for i in range(50):
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(stream, i)
                await asyncio.sleep(0.001 * (i % 10))
                scope.cancel()
    assert await limits.flush()
    assert (await render.peek("acme")).remaining == 100 and (await tokens.peek("acme")).remaining >= 950
    await limits.close()


@in_a_loop
async def test_closed_connection_is_noticed_by_a_busy_loop(server):
    """Nothing is sent over a connection that the server has closed, although the loop did not get to read that."""
    codes = Limits(client_of(server.port)).list_log("codes", 3, MINUTE)
    await codes.allow("ada")
    server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    time.sleep(0.1)
    assert (await codes.allow("ada")).remaining == 1


def test_second_event_loop(server):
    """Each loop has connections of its own."""
    limits = run(made(server.port))
    codes = limits.list_log("codes", 200, MINUTE)

    async def ask():
        decisions = await asyncio.gather(*(codes.allow("ada") for _ in range(40)))
        await limits.close()
        return min(decision.remaining for decision in decisions)

    assert [run(ask()) for _ in range(3)] == [160, 120, 80]
    with ThreadPoolExecutor(2) as threads:
        assert 0 in list(threads.map(lambda _: asyncio.run(ask()), range(2)))


def test_closed_event_loops_leave_nothing(server):
    limits = run(made(server.port))
    codes = limits.list_log("codes", 9, MINUTE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # these loops end without limits.close()
        for remaining in range(8, 3, -1):
            assert asyncio.run(codes.allow("ada")).remaining == remaining
        gc.collect()
    assert len(limits._driver.pools) == 1


@in_a_loop
async def test_cancelled_wait_gives_back(server):
    limits = Limits(client_of(server.port))
    codes = limits.list_log("codes", 1, MINUTE)
    await codes.allow("ada")
    task, booked = asyncio.ensure_future(codes.wait("ada")), lambda: server.client.llen("sluice:codes:{ada}:ll1")
    (pool,) = limits._driver.pools.values()  # it has its connection back when the task has read the reply
    await cancelled(task, asyncio.to_thread(until, lambda: booked() == 2 and pool.idle))
    assert await limits.flush() and booked() == 1


@in_a_loop
async def test_cancelled_acquire_leaves_no_slot(proxy, server):
    limits = Limits(client_of(proxy.port))
    render = limits.concurrency("render", 1, MINUTE)
    await render.peek("acme")
    proxy.mode = "hold"
    task = asyncio.ensure_future(render.acquire("acme"))
    await cancelled(task, proxy.until(lambda: proxy.eaten))
    assert await limits.flush() and not server.client.exists("sluice:render:{acme}:cc1")
