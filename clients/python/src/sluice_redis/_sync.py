"""The limiters for threads."""

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, Union

from redis import Redis, RedisCluster

from . import _algorithms, _budget, _limiters, _quota, _slots
from ._core import Steps
from ._factory import C, Factory, LimiterFace, LimitsFace, ReservationFace, ReservedFace, SlotFace, T, make, named
from ._slots import OnLost
from ._threads import Driver
from ._types import Decision

if TYPE_CHECKING:
    from ._factory import Concatenate, P


def _run(method: "Callable[Concatenate[Any, P], Steps[T]]") -> "Callable[Concatenate[Any, P], T]":
    """The method that drives the steps of another one."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._driver.drive(method(self._core, *args, **kwargs))

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
    def reserve(self, subject: str, n: int = 1, max_wait: timedelta = timedelta(minutes=1)) -> Reservation:
        return Reservation(self._driver, self._driver.drive(self._core.reserve(subject, n, max_wait)))


class Returner(Limiter):
    give_back = _run(_limiters.Returner.give_back)


class ListLog(Reserver, Returner): ...


class ZSetLog(Reserver, Returner):  # written out: mypy before 2 takes the types of the base
    def allow(self, subject: str, id: Optional[str] = None) -> Decision:
        return self._driver.drive(self._core.allow(subject, id))  # type: ignore[no-any-return]

    def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Decision:
        return self._driver.drive(self._core.allow_n(subject, n, id))  # type: ignore[no-any-return]


class GCRA(Reserver): ...


class SliceRing(Returner): ...


class Quota(Returner):
    report = _run(_quota.Quota.report)


class TokenBucket(Reserver):
    set_rate = _run(_algorithms.TokenBucket.set_rate)


class Reserved(ReservedFace):
    def __enter__(self) -> "Reserved":
        self._driver.drive(self._core.reserve())
        return self

    def __exit__(self, *error: object) -> None:
        thread = self._core.end()
        if thread:
            thread.join(self._core.budget.timeout)


class Budget(_Peekable[_budget.Budget]):
    reserved = make(Reserved, _budget.Budget.reserved)
    reserve = _run(_budget.Budget.reserve)
    settle = _run(_budget.Budget.settle)
    charge = _run(_budget.Budget.charge)


class Slot(SlotFace):
    """A slot of a concurrency, held until release: `with slot: ...`. It renews itself in a thread until it is released
    or lost. Leaving the block releases it, and raises SlotLostError if it was lost."""

    def __init__(self, driver: Any, core: _slots.Lease) -> None:
        super().__init__(driver, core)
        self._done = threading.Event()
        threading.Thread(target=driver.drive, args=(core.renewals(), self._done.wait), daemon=True).start()

    def release(self) -> None:
        self._end(self._core.release())

    def _end(self, steps: Steps[None]) -> None:
        try:
            self._driver.drive(steps)
        finally:
            self._done.set()

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self._end(self._core.leave(error))


class Concurrency(_Peekable[_slots.Concurrency]):
    def try_acquire(self, subject: str, on_lost: OnLost = None) -> Tuple[Optional[Slot], Decision]:
        lease, decision = self._driver.drive(self._core.try_acquire(subject, on_lost))
        return lease and Slot(self._driver, lease), decision

    def acquire(self, subject: str, max_wait: Optional[timedelta] = None, on_lost: OnLost = None) -> Slot:
        return Slot(self._driver, self._driver.drive(self._core.acquire(subject, max_wait, on_lost)))


class Limits(LimitsFace["Union[Redis, RedisCluster]"]):
    """Makes limiters on one Redis, for threads: `Limits(redis.Redis())`. It sends nothing until a limiter is asked.

    client is a redis.Redis (also one of Sentinel's master_for) or a redis.RedisCluster. Decisions go over connections
    of their own, made with the client's settings but without its retries and timeouts; close() closes them.
    prefix is the beginning of every key: letters, digits, dot, underscore and dash. A limiter's name may have "/", too.
    With preloaded=True scripts are never loaded: a missing one is a NotLoadedError. timeout (1 ms to 24 h) is the time
    that Redis has for a call, 1 s by default, 100 ms with a policy (twice as long for one that has to connect first).
    on_failure is what happens while Redis does not decide: "error" raises, "open" grants, "deny" denies, Local(share)
    limits in this process; these decisions are marked degraded, and logged by the logger "sluice_redis". breaker is
    when a server that does not answer is not asked any more: see Breaker.
    """

    _new_driver, _is_async = Driver, False

    list_log = make(ListLog, Factory.list_log)
    zset_log = make(ZSetLog, Factory.zset_log)
    gcra = make(GCRA, Factory.gcra)
    slice_ring = make(SliceRing, Factory.slice_ring)
    token_bucket = make(TokenBucket, Factory.token_bucket)
    budget = make(Budget, Factory.budget)
    concurrency = make(Concurrency, Factory.concurrency)
    quota = make(Quota, Factory.quota)
    all = _run(Factory.all)

    def flush(self, within: timedelta = timedelta(seconds=10)) -> bool:
        """Waits for what is settled, released and given back in the background. Returns whether all of it is done."""
        return bool(self._driver.flush(within.total_seconds()))

    def close(self, within: timedelta = timedelta(seconds=10)) -> None:
        """flush, and closes the connections of the limiters. The client stays open."""
        self.flush(within)
        for connection in [one for pool in list(self._driver.pools.values()) for one in pool.drained()]:
            connection.disconnect()
