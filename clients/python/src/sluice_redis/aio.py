"""The limiters for asyncio: the same names as in sluice_redis, with async methods.

    from sluice_redis.aio import Limits
    limits = Limits(redis.asyncio.Redis())
    codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
    decision = await codes.allow("ada@example.com")
"""

import asyncio
import functools
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Generator, Optional, Tuple, Union

from redis.asyncio import Redis, RedisCluster

from . import _algorithms, _budget, _limiters, _quota, _slots
from ._core import Steps
from ._factory import C, Factory, LimiterFace, LimitsFace, ReservationFace, ReservedFace, SlotFace, T, make, named
from ._slots import OnLost
from ._tasks import Driver
from ._types import Decision

__all__ = [
    "GCRA", "Budget", "Concurrency", "Limiter", "Limits", "ListLog", "Quota", "Reservation", "Reserved", "Reserver",
    "Returner", "SliceRing", "Slot", "TokenBucket", "ZSetLog",
]  # fmt: skip

if TYPE_CHECKING:
    from ._factory import Concatenate, P
_AWAIT = "there is no answer yet: await it first"


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


def _run(method: "Callable[Concatenate[Any, P], Steps[T]]") -> "Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]":
    """The method that drives the steps of another one."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _Pending(self._driver.drive(method(self._core, *args, **kwargs)))

    return named(call, method)  # type: ignore[no-any-return]


class _Peekable(LimiterFace[C]):
    peek = _run(_limiters.Limiter.peek)
    reset = _run(_limiters.Limiter.reset)


class Limiter(_Peekable[Any]):
    allow = _run(_limiters.Limiter.allow)
    allow_n = _run(_limiters.Limiter.allow_n)
    wait = _run(_limiters.Limiter.wait)


class Reservation(ReservationFace):
    wait = _run(_limiters.Reservation.wait)
    cancel = _run(_limiters.Reservation.cancel)


class Reserver(Limiter):
    @_pending
    async def reserve(self, subject: str, n: int = 1, max_wait: timedelta = timedelta(minutes=1)) -> Reservation:
        return Reservation(self._driver, await self._driver.drive(self._core.reserve(subject, n, max_wait)))


class Returner(Limiter):
    give_back = _run(_limiters.Returner.give_back)


class ListLog(Reserver, Returner): ...


class ZSetLog(Reserver, Returner):  # written out: mypy before 2 takes the types of the base
    @_pending
    async def allow(self, subject: str, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow(subject, id))  # type: ignore[no-any-return]

    @_pending
    async def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Decision:
        return await self._driver.drive(self._core.allow_n(subject, n, id))  # type: ignore[no-any-return]


class GCRA(Reserver): ...


class SliceRing(Returner): ...


class Quota(Returner):
    report = _run(_quota.Quota.report)


class TokenBucket(Reserver):
    set_rate = _run(_algorithms.TokenBucket.set_rate)


class Reserved(ReservedFace):
    async def __aenter__(self) -> "Reserved":
        await self._driver.drive(self._core.reserve())
        return self

    async def __aexit__(self, *error: object) -> None:
        """A task that is cancelled, once or at each await, does not wait for it; it goes on all the same."""
        task = self._core.end()
        if task:
            await asyncio.wait({task}, timeout=self._core.budget.timeout)


class Budget(_Peekable[_budget.Budget]):
    reserved = make(Reserved, _budget.Budget.reserved)
    reserve = _run(_budget.Budget.reserve)
    settle = _run(_budget.Budget.settle)
    charge = _run(_budget.Budget.charge)


class Slot(SlotFace):
    """A slot of a concurrency, held until release: `async with slot: ...`. It renews itself in a task until it is
    released or lost. Leaving the block releases it, and raises SlotLostError if it was lost."""

    def __init__(self, driver: Driver, core: _slots.Lease) -> None:
        super().__init__(driver, core)
        self._renewals = driver.background(driver.drive(core.renewals()), driver.renewals)

    async def release(self) -> None:
        await self._end(self._core.release())

    async def _end(self, steps: Steps[None]) -> None:
        try:
            await self._driver.drive(steps)
        finally:
            self._renewals.cancel()

    async def __aenter__(self) -> "Slot":
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        await self._end(self._core.leave(error))


class _PendingSlot(_Pending[Slot]):
    """A slot to be awaited, or to be entered at once: `async with render.acquire(subject) as slot: ...`."""

    async def __aenter__(self) -> Slot:
        self._slot = await self
        return self._slot

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        await self._slot.__aexit__(kind, error, trace)


class Concurrency(_Peekable[_slots.Concurrency]):
    @_pending
    async def try_acquire(self, subject: str, on_lost: OnLost = None) -> Tuple[Optional[Slot], Decision]:
        lease, decision = await self._driver.drive(self._core.try_acquire(subject, on_lost))
        return lease and Slot(self._driver, lease), decision

    def acquire(self, subject: str, max_wait: Optional[timedelta] = None, on_lost: OnLost = None) -> _PendingSlot:
        return _PendingSlot(self._acquire(subject, max_wait, on_lost))

    async def _acquire(self, subject: str, max_wait: Optional[timedelta], on_lost: OnLost) -> Slot:
        return Slot(self._driver, await self._driver.drive(self._core.acquire(subject, max_wait, on_lost)))


class Limits(LimitsFace["Union[Redis, RedisCluster]"]):
    """Makes limiters on one Redis, for asyncio: `Limits(redis.asyncio.Redis())`, or a redis.asyncio.RedisCluster.

    All else is as in sluice_redis.Limits. Each event loop has connections of its own.
    """

    _new_driver, _is_async = Driver, True

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
            for connection in pool.drained() if key[0] is loop else ():
                await self._driver.quietly(connection.disconnect())
