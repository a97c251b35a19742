"""The limiters for asyncio: the same names as in sluice_redis, with async methods.

    from sluice_redis.aio import Limits
    limits = Limits(redis.asyncio.Redis())
    codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
    decision = await codes.allow("ada@example.com")
"""

import asyncio
import functools
import selectors
import time
from datetime import timedelta
from types import TracebackType
from typing import (
    TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Dict, Generator, Optional, Set, Tuple, Type, TypeVar,
    Union,
)  # fmt: skip
from weakref import WeakKeyDictionary

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from . import _limiters, _quota, _slots
from ._breaker import Breaker
from ._connect import FRESH, Gate, Own, Pool, is_full, own_of
from ._core import Address, Caller, Clock, NotSent, Send, Sleep, Steps, is_misled
from ._errors import SlotLostError, SluiceError
from ._factory import Factory, LimiterFace, ReservationFace, ReservedFace, SlotFace, make, named
from ._limiters import OnFailure
from ._slots import OnLost
from ._types import Decision

__all__ = [
    "GCRA", "Budget", "Concurrency", "Limiter", "Limits", "ListLog", "Quota", "Reservation", "Reserved", "Reserver",
    "Returner", "SliceRing", "Slot", "TokenBucket", "ZSetLog",
]  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")
_AWAIT = "there is no answer yet: await it first"
_TICK = 0.005  # seconds between two looks at the calls, or a 20th of the time of one


class Driver:
    """Does what steps yield, on connections of its own."""

    def __init__(self, own: Own) -> None:
        self.own = own
        self.pools: Dict[Tuple[asyncio.AbstractEventLoop, Optional[Address], float], Pool] = {}
        self.tasks: Set["asyncio.Task[Any]"] = set()  # that end soon
        self.rest: Set["asyncio.Task[Any]"] = set()  # of the background
        self.watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]" = WeakKeyDictionary()
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
        try:
            await work
        except (SluiceError, exceptions.RedisError, OSError):
            pass

    async def close_idle(self, pool: Pool) -> None:
        while pool.idle:
            await self.quietly(pool.idle.pop()[0].disconnect())

    async def send(self, op: Send) -> Any:
        """Sends and reads, in the task of the caller."""
        pool = self.pool(op.node, op.timeout)
        await self.enter(pool.gate, op.clock)
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
                task.cancel()
                self.keep(self.closed(connection, task), self.tasks)

    async def closed(self, connection: Any, task: "asyncio.Task[Any]") -> None:
        await asyncio.wait({task})
        task.cancelled() or task.exception()  # nobody waits for it any more
        await self.quietly(connection.disconnect())

    async def exchange(self, connection: Any, pool: Pool, watched: "_Watched") -> Any:
        """Sends and reads. What ends it in time is that its connection is lost."""
        clean, op = False, watched.op
        try:
            self.watch(watched, functools.partial(_lose, connection))
            for words in op.commands:
                await connection.send_command(*words)
            for _ in op.commands[1:]:
                await connection.read_response()
            reply = await connection.read_response()
            clean = True
            return reply
        except (exceptions.RedisError, OSError) as error:
            clean = isinstance(error, exceptions.ResponseError) and len(op.commands) == 1  # it was read
            if watched.why and not clean:
                raise exceptions.TimeoutError(watched.why) from error
            if is_misled(error, op.node, self.own.remap):
                clean = False
                await self.close_idle(pool)
            raise
        finally:
            watched.end = None
            pool.gate.replies += clean
            if clean:
                pool.idle.append((connection, time.monotonic()))
            else:
                self.background(connection.disconnect(), self.tasks)

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

    async def enter(self, gate: Gate, clock: Clock) -> None:
        waiter, patience = gate.enter(clock), clock.patience(self.own.patience)
        if waiter:
            try:
                await asyncio.wait({waiter}, timeout=patience)
            except BaseException:
                gate.interrupted(waiter, clock)
                raise
            gate.waited(waiter, clock, patience)

    def pool(self, node: Optional[Address], timeout: float) -> Pool:
        """The connections to a node whose timeout is this one, of this event loop."""
        loop = asyncio.get_running_loop()
        pool = self.pools.get((loop, node, timeout))
        if pool is None:
            for old in list(self.pools):
                if old[0].is_closed():
                    self.pools.pop(old, None)
            kwargs = self.own.settings(Retry(NoBackoff(), 0), None)  # _Watch is stricter, and knows a busy loop
            if node:
                kwargs["host"], kwargs["port"] = node
            maker = self.own.make_pool(ConnectionPool, SentinelConnectionPool, kwargs)
            pool = self.pools[loop, node, timeout] = Pool(maker, Gate(self.own, loop.create_future), [])
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


class _Pending(Coroutine[Any, Any, T]):
    """A coroutine that is neither true nor false: `if limiter.allow(subject):` without await would grant everything."""

    def __init__(self, inner: Coroutine[Any, Any, T]) -> None:
        self._inner = inner

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __bool__(self) -> bool:
        self.close()
        raise TypeError(_AWAIT)

    if not TYPE_CHECKING:  # mypy knows what it has

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_AWAIT)


def _pending(method: "Callable[P, Coroutine[Any, Any, T]]") -> "Callable[P, Coroutine[Any, Any, T]]":
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _Pending(method(*args, **kwargs))

    return call


def _run(
    method: "Callable[Concatenate[Any, P], Steps[T]]",
) -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]":
    """The method that drives the steps of another one."""

    @_pending
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._driver.drive(method(self._core, *args, **kwargs))

    return named(call, method)  # type: ignore[no-any-return]


class Limiter(LimiterFace[Any]):
    """What all limiters have that grant permits. A subject is a text of 1 to 65536 bytes, n a whole number. A wrong
    argument is an ArgumentError; if Redis does not decide, it is an UnavailableError or an OutcomeUnknownError."""

    allow = _run(_limiters.Limiter.allow)
    allow_n = _run(_limiters.Limiter.allow_n)
    wait = _run(_limiters.Limiter.wait)
    peek = _run(_limiters.Limiter.peek)
    reset = _run(_limiters.Limiter.reset)


class Reservation(ReservationFace):
    __doc__ = _limiters.Reservation.__doc__
    wait = _run(_limiters.Reservation.wait)
    cancel = _run(_limiters.Reservation.cancel)


class Reserver(Limiter):
    __doc__ = _limiters.Reserver.__doc__

    @_pending
    async def reserve(self, subject: str, n: int = 1, max_wait: timedelta = timedelta(minutes=1)) -> Reservation:
        return Reservation(self._driver, await self._driver.drive(self._core.reserve(subject, n, max_wait)))

    reserve.__doc__ = _limiters.Reserver.reserve.__doc__


class Returner(Limiter):
    __doc__ = _limiters.Returner.__doc__

    give_back = _run(_limiters.Returner.give_back)


class ListLog(Reserver, Returner):
    __doc__ = _limiters.ListLog.__doc__


class ZSetLog(Reserver, Returner):
    __doc__ = _limiters.ZSetLog.__doc__

    @_pending
    async def allow(self, subject: str, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow(subject, id))  # type: ignore[no-any-return]

    @_pending
    async def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow_n(subject, n, id))  # type: ignore[no-any-return]

    allow.__doc__, allow_n.__doc__ = _limiters.ZSetLog.allow.__doc__, _limiters.ZSetLog.allow_n.__doc__


class GCRA(Reserver):
    __doc__ = _limiters.GCRA.__doc__


class SliceRing(Returner):
    __doc__ = _limiters.SliceRing.__doc__


class Quota(Returner):
    __doc__ = _quota.Quota.__doc__
    report = _run(_quota.Quota.report)


class TokenBucket(Reserver):
    __doc__ = _limiters.TokenBucket.__doc__
    set_rate = _run(_limiters.TokenBucket.set_rate)


class Reserved(ReservedFace):
    __doc__ = ReservedFace.__doc__

    async def __aenter__(self) -> "Reserved":
        await self._driver.drive(self._core.reserve())
        return self

    async def __aexit__(self, *error: object) -> None:
        """A task that is cancelled, once or at each await, does not wait for it; it goes on all the same."""
        task = self._core.end()
        if task:
            await asyncio.wait({task}, timeout=self._core.budget.timeout)


class Budget(LimiterFace[_limiters.Budget]):
    __doc__ = _limiters.Budget.__doc__

    def reserved(self, subject: str, id: str, estimate: int) -> Reserved:
        return Reserved(self._driver, self._core.reserved(subject, id, estimate))

    reserved.__doc__ = _limiters.Budget.reserved.__doc__
    reserve = _run(_limiters.Budget.reserve)
    settle = _run(_limiters.Budget.settle)
    charge = _run(_limiters.Budget.charge)
    peek = _run(_limiters.Budget.peek)
    reset = _run(_limiters.Budget.reset)


class Slot(SlotFace):
    """A slot of a concurrency, held until release: `async with slot: ...`. It renews itself in a task until it is
    released or lost. Leaving the block releases it, and raises SlotLostError if it was lost."""

    def __init__(self, driver: Driver, core: _slots.Lease) -> None:
        super().__init__(driver, core)
        self._renewals = driver.background(driver.drive(core.renewals()), driver.renewals)

    async def release(self) -> None:
        release = self._driver.drive(self._core.release())
        try:
            await release
        finally:
            self._renewals.cancel()

    release.__doc__ = _slots.Lease.release.__doc__

    async def __aenter__(self) -> "Slot":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            await self.release()
        except SlotLostError:
            if error is None:
                raise
        except SluiceError:
            pass  # it is logged, and tried again


class _PendingSlot(_Pending[Slot]):
    """A slot to be awaited, or to be entered at once: `async with render.acquire(subject) as slot: ...`."""

    async def __aenter__(self) -> Slot:
        self._slot = await self
        return self._slot

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._slot.__aexit__(kind, error, trace)


class Concurrency(LimiterFace[_slots.Concurrency]):
    __doc__ = _slots.Concurrency.__doc__

    @_pending
    async def try_acquire(self, subject: str, on_lost: OnLost = None) -> Tuple[Optional[Slot], Decision]:
        lease, decision = await self._driver.drive(self._core.try_acquire(subject, on_lost))
        return lease and Slot(self._driver, lease), decision

    def acquire(self, subject: str, max_wait: Optional[timedelta] = None, on_lost: OnLost = None) -> _PendingSlot:
        return _PendingSlot(self._acquire(subject, max_wait, on_lost))

    async def _acquire(self, subject: str, max_wait: Optional[timedelta], on_lost: OnLost) -> Slot:
        return Slot(self._driver, await self._driver.drive(self._core.acquire(subject, max_wait, on_lost)))

    try_acquire.__doc__ = _slots.Concurrency.try_acquire.__doc__
    acquire.__doc__ = _slots.Concurrency.acquire.__doc__
    peek = _run(_slots.Concurrency.peek)
    reset = _run(_slots.Concurrency.reset)


class Limits:
    """Makes limiters on one Redis, for asyncio: `Limits(redis.asyncio.Redis())`, or a redis.asyncio.RedisCluster.

    All else is as in sluice_redis.Limits. Each event loop has connections of its own.
    """

    def __init__(
        self, client: "Union[Redis, RedisCluster]", prefix: str = "sluice", preloaded: bool = False,
        timeout: Optional[timedelta] = None, on_failure: OnFailure = "error", breaker: Optional[Breaker] = Breaker(),
    ) -> None:
        own = own_of(client, asynchronous=True)
        self._driver = Driver(own)
        caller = Caller(own.nodes, own.remap, preloaded, breaker)
        self._setup = Factory(caller, self._driver.later, prefix, timeout, on_failure)
        self._core = self._setup

    list_log = make(ListLog, Factory.list_log)
    zset_log = make(ZSetLog, Factory.zset_log)
    gcra = make(GCRA, Factory.gcra)
    slice_ring = make(SliceRing, Factory.slice_ring)
    token_bucket = make(TokenBucket, Factory.token_bucket)
    budget = make(Budget, Factory.budget)
    concurrency = make(Concurrency, Factory.concurrency)
    quota = make(Quota, Factory.quota)
    all = _run(Factory.all)

    async def flush(self, within: timedelta = timedelta(seconds=10)) -> bool:
        """Waits for what is settled, released and given back in the background. Returns whether all of it is done."""
        loop, end = asyncio.get_running_loop(), time.monotonic() + within.total_seconds()
        while own := {task for task in [*self._driver.tasks, *self._driver.rest] if task.get_loop() is loop}:
            if not (await asyncio.wait(own, timeout=max(end - time.monotonic(), 0)))[0]:
                return False
        return True

    async def close(self, within: timedelta = timedelta(seconds=10)) -> None:
        """flush, and closes the connections of the limiters. The client stays open."""
        await self.flush(within)
        loop = asyncio.get_running_loop()
        for key, pool in list(self._driver.pools.items()):
            if key[0] is loop:
                await self._driver.close_idle(pool)
