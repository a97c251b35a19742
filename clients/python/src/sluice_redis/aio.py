"""The limiters for asyncio: the same names as in sluice_redis, with async methods.

    from sluice_redis.aio import Limits
    limits = Limits(redis.asyncio.Redis())
    codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
    decision = await codes.allow("ada@example.com")
"""

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import (
    TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Dict, List, Optional, Set, Tuple, Type, TypeVar, Union,
)  # fmt: skip

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from . import _limiters, _slots
from ._connect import Own, own_of
from ._core import Address, Caller, NotSent, Send, Sleep, Steps
from ._errors import SluiceError
from ._factory import Face, Factory, ReservationFace, SlotFace, make, named
from ._slots import OnLost
from ._types import Decision

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")
CONNECTIONS = 16  # to a node, at most


class Driver:
    """Does what steps yield, on connections of its own."""

    def __init__(self, own: Own) -> None:
        self.own = own
        self.pools: Dict[Tuple[Optional[Address], float], Pool] = {}
        self.tasks: Set["asyncio.Task[None]"] = set()  # that end soon
        self.renewals: Set["asyncio.Task[None]"] = set()  # that end with their slots

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

    def later(self, steps: Steps[Any]) -> None:
        """Runs steps in the background. Nobody learns of their errors."""
        self.background(self.drive(steps), self.tasks)

    def background(self, work: Awaitable[Any], tasks: Set["asyncio.Task[None]"]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._quietly(work))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def _quietly(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except (SluiceError, exceptions.RedisError, OSError):
            pass

    async def send(self, op: Send) -> Any:
        exchange = _Exchange(self, self.pool(op.node, op.timeout))
        try:
            return await asyncio.wait_for(exchange.run(op), op.left)
        except asyncio.TimeoutError:
            problem = f"no reply in {op.left:.3f} s"
            raise (exceptions.TimeoutError if exchange.sent else NotSent)(problem) from None

    def pool(self, node: Optional[Address], timeout: float) -> "Pool":
        """The connections to a node whose timeout is this one."""
        pool = self.pools.get((node, timeout))
        if pool is None:
            kwargs = self.own.settings(Retry(NoBackoff(), 0), timeout)
            if node:
                kwargs["host"], kwargs["port"] = node
            maker = self.own.make_pool(ConnectionPool, SentinelConnectionPool, kwargs)
            pool = self.pools[node, timeout] = Pool(maker, min(self.own.max_connections, CONNECTIONS))
        return pool


class Pool:
    """Connections that wait for no reply. redis-py's pool only makes them: in some versions it takes those back on
    which a cancelled task was waiting for one."""

    def __init__(self, maker: Any, most: int) -> None:
        self.maker = maker
        self.idle: List[Any] = []
        self.gate = asyncio.Semaphore(most)  # a decision takes less time than to connect


class _Exchange:
    """One command and its reply."""

    def __init__(self, driver: Driver, pool: Pool) -> None:
        self.driver, self.pool, self.sent = driver, pool, False

    async def run(self, op: Send) -> Any:
        async with self.pool.gate:
            try:
                connection = self.pool.idle.pop() if self.pool.idle else self.pool.maker.make_connection()
            except exceptions.RedisError as error:
                raise NotSent(str(error)) from error
            clean = False
            try:
                await self.connect(connection)
                self.sent = True
                for words in op.commands:
                    await connection.send_command(*words)
                for _ in op.commands[1:]:
                    await connection.read_response()
                reply = await connection.read_response()
                clean = True
                return reply
            except exceptions.ResponseError:
                clean = len(op.commands) == 1  # an error reply was read
                raise
            finally:
                if clean:
                    self.pool.idle.append(connection)
                else:  # in a task of its own: this one may be cancelled
                    self.driver.background(self.drop(connection), self.driver.tasks)

    async def connect(self, connection: Any) -> None:
        """Connects, also where the server has closed the connection meanwhile."""
        try:
            await connection.connect()
            can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
            try:
                closed = await can_read()
            except (exceptions.RedisError, OSError):
                closed = True
            if closed:
                await connection.disconnect()
                await connection.connect()
        except (exceptions.RedisError, OSError) as error:
            raise NotSent(str(error)) from error

    async def drop(self, connection: Any) -> None:
        try:
            await connection.disconnect()
        finally:
            if not connection.is_connected:  # it connects anew
                self.pool.idle.append(connection)


def _run(
    method: "Callable[Concatenate[Any, P], Steps[T]]",
) -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]":
    """The method that drives the steps of another one."""

    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._driver.drive(method(self._core, *args, **kwargs))

    return named(call, method)  # type: ignore[no-any-return]


class Limiter(Face[Any]):
    """What all limiters have."""

    @property
    def name(self) -> str:
        return str(self._core.name)

    allow = _run(_limiters.Limiter.allow)
    allow_n = _run(_limiters.Limiter.allow_n)
    wait = _run(_limiters.Limiter.wait)
    peek = _run(_limiters.Limiter.peek)
    reset = _run(_limiters.Limiter.reset)


class Reservation(ReservationFace):
    __doc__ = _limiters.Reservation.__doc__
    wait = _run(_limiters.Reservation.wait)
    cancel = _run(_limiters.Reservation.cancel)


class Booker(Limiter):
    async def reserve(self, subject: str, n: int = 1, max_wait: timedelta = timedelta(minutes=1)) -> Reservation:
        return Reservation(self._driver, await self._driver.drive(self._core.reserve(subject, n, max_wait)))

    reserve.__doc__ = _limiters.Booker.reserve.__doc__


class Returner(Limiter):
    give_back = _run(_limiters.Returner.give_back)


class ListLog(Booker, Returner):
    __doc__ = _limiters.ListLog.__doc__


class ZSetLog(Booker, Returner):
    __doc__ = _limiters.ZSetLog.__doc__

    async def allow(self, subject: str, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow(subject, id))  # type: ignore[no-any-return]

    async def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow_n(subject, n, id))  # type: ignore[no-any-return]

    allow.__doc__, allow_n.__doc__ = _limiters.ZSetLog.allow.__doc__, _limiters.ZSetLog.allow_n.__doc__


class GCRA(Booker):
    __doc__ = _limiters.GCRA.__doc__


class SliceRing(Returner):
    __doc__ = _limiters.SliceRing.__doc__


class TokenBucket(Booker):
    __doc__ = _limiters.TokenBucket.__doc__
    set_rate = _run(_limiters.TokenBucket.set_rate)


class Budget(Face[_limiters.Budget]):
    __doc__ = _limiters.Budget.__doc__
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
        except SluiceError:
            if error is None:
                raise


class Concurrency(Face[_slots.Concurrency]):
    __doc__ = _slots.Concurrency.__doc__

    async def try_acquire(self, subject: str, on_lost: OnLost = None) -> Optional[Slot]:
        lease = await self._driver.drive(self._core.try_acquire(subject, on_lost))
        return lease and Slot(self._driver, lease)

    async def acquire(self, subject: str, max_wait: Optional[timedelta] = None, on_lost: OnLost = None) -> Slot:
        return Slot(self._driver, await self._driver.drive(self._core.acquire(subject, max_wait, on_lost)))

    try_acquire.__doc__ = _slots.Concurrency.try_acquire.__doc__
    acquire.__doc__ = _slots.Concurrency.acquire.__doc__
    peek = _run(_slots.Concurrency.peek)
    reset = _run(_slots.Concurrency.reset)


class Limits:
    """Makes limiters on one Redis, for asyncio: `Limits(redis.asyncio.Redis())`, or a redis.asyncio.RedisCluster.

    All else is as in sluice_redis.Limits. The limiters of one Limits belong to one event loop.
    """

    def __init__(
        self, client: "Union[Redis, RedisCluster]", prefix: str = "sluice", preloaded: bool = False,
        timeout: Optional[timedelta] = None, on_failure: str = "error",
    ) -> None:
        own = own_of(client, asynchronous=True)
        self._driver = Driver(own)
        self._setup = Factory(Caller(own.nodes, own.remap, preloaded), self._driver.later, prefix, timeout, on_failure)
        self._core = self._setup

    list_log = make(ListLog, Factory.list_log)
    zset_log = make(ZSetLog, Factory.zset_log)
    gcra = make(GCRA, Factory.gcra)
    slice_ring = make(SliceRing, Factory.slice_ring)
    token_bucket = make(TokenBucket, Factory.token_bucket)
    budget = make(Budget, Factory.budget)
    concurrency = make(Concurrency, Factory.concurrency)
    call = _run(Factory.call)

    async def close(self) -> None:
        """Closes the connections of the limiters, after what they still send in the background. The client stays
        open."""
        while self._driver.tasks:
            await asyncio.wait(set(self._driver.tasks))
        for pool in self._driver.pools.values():
            for connection in pool.idle:
                await connection.disconnect()
