"""What drives steps for asyncio."""

import asyncio
import contextlib
import functools
import selectors
import time
from typing import Any, Awaitable, Callable, Coroutine, Dict, List, Optional, Set, Tuple, TypeVar

from redis import exceptions
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from ._connect import FRESH, Gate, Own, Pool, is_full
from ._core import Address, Clock, NotSent, Send, Sleep, Steps
from ._errors import SluiceError

T = TypeVar("T")
_LATE = 1.0  # seconds that a connection may take longer than its call
_TICK = 0.005  # seconds between two looks at the calls, or a 20th of the time of one


class Driver:
    """Does what steps yield, on connections of its own."""

    def __init__(self, own: Own) -> None:
        self.own = own
        self.pools: Dict[Tuple[asyncio.AbstractEventLoop, Optional[Address], float], Pool] = {}
        self.tasks: Set["asyncio.Task[Any]"] = set()  # that end soon
        self.rest: Set["asyncio.Task[Any]"] = set()  # of the background
        self.watches: Dict[asyncio.AbstractEventLoop, "_Watch"] = {}
        self.renewals: Set["asyncio.Task[Any]"] = set()  # that end with their slots

    async def drive(self, steps: Steps[T]) -> T:
        answer: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = steps.throw(error) if error else steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = error = None
            try:
                answer = await (asyncio.sleep(step.seconds) if isinstance(step, Sleep) else self.send(step))
            except BaseException as raised:
                error = raised

    def later(self, steps: Steps[Any]) -> "Optional[asyncio.Task[Any]]":
        """Runs steps in the background. Nobody learns of their errors."""
        return None if is_full(self.rest) else self.background(self.drive(steps), self.rest)

    def background(self, work: Awaitable[Any], tasks: Set["asyncio.Task[Any]"]) -> "asyncio.Task[Any]":
        return self.keep(self.quietly(work), tasks)

    def keep(self, work: Coroutine[Any, Any, Any], tasks: Set["asyncio.Task[Any]"]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def quietly(self, work: Awaitable[Any]) -> None:
        with contextlib.suppress(SluiceError, exceptions.RedisError, OSError):
            await work

    async def send(self, op: Send) -> List[Any]:
        """Sends and reads, in the task of the caller."""
        pool = self.pool(op.node, op.timeout)
        waiter = pool.gate.enter(op.clock)
        if waiter:
            await self.queue(waiter, pool.gate, op.clock)
        replies, watched = pool.gate.replies, _Watched(op)
        try:
            connection = await self.idle(pool) or await self.connected(pool, watched)
            return await self.exchange(connection, pool, watched)
        finally:
            op.clock.spend(watched.spent)
            pool.gate.leave(replies, watched.spent >= 0.9 * op.timeout)

    async def idle(self, pool: Pool) -> Any:
        """A connection that the server has not closed, or None."""
        if not pool.idle:
            return None
        connection, used = pool.idle.pop()
        is_open = time.monotonic() - used < FRESH
        try:
            is_open = is_open or not await self.is_closed(connection)
        finally:
            if not is_open:
                self.background(connection.disconnect(), self.tasks)
        return connection if is_open else None

    async def connected(self, pool: Pool, watched: "_Watched") -> Any:
        """A new connection. It connects in a task of its own, because some versions of redis-py lose a cancellation."""
        connection, over = pool.maker.make_connection(), asyncio.get_running_loop().create_future()
        task, is_done = self.keep(connection.connect(), self.tasks), False
        try:
            self.watch(watched, over.cancel)
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NotSent(self.own.why(watched.why))
            task.result()
            is_done = True
            return connection
        except (exceptions.RedisError, OSError) as error:
            raise NotSent(str(error)) from error
        finally:
            watched.end = None
            if not is_done:
                self.keep(self.late(pool, connection, task), self.tasks)

    async def late(self, pool: Pool, connection: Any, task: "asyncio.Task[Any]") -> None:
        """A connection that is too late for its call is for the next one: otherwise none would ever be in time."""
        done, late = await asyncio.wait({task}, timeout=_LATE)
        if late:
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled() or task.exception() or late or len(pool.idle) >= pool.gate.free:
            return await self.quietly(connection.disconnect())
        pool.idle.append((connection, time.monotonic()))

    async def exchange(self, connection: Any, pool: Pool, watched: "_Watched") -> List[Any]:
        """Sends and reads. What ends it in time is that its connection is lost."""
        outcomes: List[Any] = []
        clean, op = False, watched.op
        try:
            self.watch(watched, functools.partial(_lose, connection))
            await connection.send_packed_command(b"".join(op.commands))
            while len(outcomes) < len(op.commands):
                try:
                    outcomes.append(await connection.read_response())
                except exceptions.ResponseError as error:
                    outcomes.append(error)
            clean = True
        except (exceptions.RedisError, OSError) as error:
            lost: Exception = error
            if watched.why:
                lost = exceptions.TimeoutError(watched.why)
                lost.__cause__ = error
            outcomes += [lost] * (len(op.commands) - len(outcomes))
        finally:
            watched.end = None
            for closed in pool.take_back(connection, op, outcomes, clean):
                self.background(closed.disconnect(), self.tasks)
        return outcomes

    def watch(self, watched: "_Watched", end: Callable[[], object]) -> None:
        """Calls end if the server is silent for too long, as long as watched.end is it."""
        loop = asyncio.get_running_loop()
        watch = self.watches.get(loop) or self.watches.setdefault(loop, _Watch())
        watched.since, watched.spent, watched.end = time.monotonic(), 0.0, end
        watch.calls.add(watched)
        if not watch.runs:
            watch.start()

    async def is_closed(self, connection: Any) -> bool:
        """Reports whether something has come, or the end: also what a busy loop has not read."""
        writer = getattr(connection, "_writer", None)
        found = writer and writer.get_extra_info("socket")
        with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
            if found and selector.register(found.fileno(), selectors.EVENT_READ) and selector.select(0):
                return True
        try:
            return bool(await (getattr(connection, "can_read", None) or connection.can_read_destructive)())
        except (exceptions.RedisError, OSError):
            return True

    async def queue(self, waiter: Any, gate: Gate, clock: Clock) -> None:
        patience = clock.patience(self.own.patience)
        timer = asyncio.get_running_loop().call_later(patience, gate.expire, waiter, patience)
        try:
            await waiter
        except BaseException:
            gate.interrupted(waiter)
            raise
        finally:
            timer.cancel()
        gate.waited(waiter, clock)

    def pool(self, node: Optional[Address], timeout: float) -> Pool:
        """The connections to a node whose timeout is this one, of this event loop."""
        loop = asyncio.get_running_loop()
        pool = self.pools.get((loop, node, timeout))
        if pool is None:
            for old, other in list(self.pools.items()):
                if old[0].is_closed():
                    self.pools.pop(old, None)
                    self.watches.pop(old[0], None)
                for unused in other.drained(60) if old[0] is loop else ():  # of nodes that left
                    self.background(unused.disconnect(), self.tasks)
            # _Watch is stricter than a timeout of the socket, and knows a busy loop.
            no_retry, future = Retry(NoBackoff(), 0), loop.create_future
            pool = self.own.make_pool(ConnectionPool, SentinelConnectionPool, no_retry, node, None, future)
            self.pools[loop, node, timeout] = pool
        return pool


def _lose(connection: Any) -> None:
    """Who waits for a reply finds that the connection is lost."""
    writer = getattr(connection, "_writer", None)
    if writer:
        writer.transport.abort()


class _Watched:
    """What waits for a server: a connection, or a command for its reply."""

    def __init__(self, op: Send) -> None:
        self.op, self.left = op, op.clock.left()
        self.since = self.spent = 0.0  # since when, by time.monotonic; seconds of Redis's time
        self.end: Optional[Callable[[], object]] = None
        self.why = ""  # it was ended


class _Watch:
    """Ends calls in time, all of an event loop by one timer. What counts is the time in which this process is idle and
    the server silent: while the loop is blocked, a reply may be there that nobody has read."""

    def __init__(self) -> None:
        self.calls: Set[_Watched] = set()
        self.runs = False

    def start(self) -> None:
        self.tick = min(_TICK, min(call.left for call in self.calls) / 20)
        self.runs, self.since, self.cpu = True, time.monotonic(), time.thread_time()
        asyncio.get_running_loop().call_later(self.tick, self.look)

    def look(self) -> None:
        now = time.monotonic()
        passed = now - self.since
        idle = min(passed - (time.thread_time() - self.cpu), 2 * self.tick)  # more, if another call blocks the loop
        self.runs, self.calls = False, {call for call in self.calls if call.end}
        for call in self.calls:
            call.spent += max(idle, min(passed / 20, self.tick)) if call.since <= self.since else 0.0
            if call.end and min(call.left - call.spent, call.op.clock.until - now) <= 0.01 * call.left:
                call.why = f"no reply in {call.left:.3f} s"
                call.end()
        if self.calls:
            self.start()
