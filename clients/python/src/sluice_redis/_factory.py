"""What Limits makes, and what its limiters are for threads and for asyncio: written once for both."""

import functools
import inspect
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Optional, Sequence, Type, TypeVar

from . import _algorithms, _budget, _limiters, _quota, _slots
from ._algorithms import GCRA, ListLog, SliceRing, TokenBucket, ZSetLog
from ._all import Part, all_of
from ._breaker import Breaker
from ._budget import Budget
from ._connect import Own, own_of
from ._core import Caller, Steps
from ._errors import SlotLostError
from ._limiters import OnFailure, Setup, Windows
from ._quota import Period, Quota
from ._slots import Concurrency
from ._types import NEVER, Decision, Limit

if TYPE_CHECKING:
    from typing_extensions import Concatenate as Concatenate, ParamSpec

    P = ParamSpec("P")
C = TypeVar("C")
Client = TypeVar("Client")
F = TypeVar("F", bound="Face[Any]")
T = TypeVar("T")


class Factory(Setup):
    """The methods of Limits. They send nothing; a wrong name, limit or option is an ArgumentError at once.

    on_failure is what happens while Redis does not decide: "error" (the default), "open", "deny" or Local(share).
    """

    def list_log(self, name: str, permits: int, window: timedelta, on_failure: Optional[OnFailure] = None) -> ListLog:
        """An exact limit: no interval of one window ever holds more. Take it if you are not sure."""
        return ListLog(self, name, [Limit(permits, window)], on_failure)

    def zset_log(self, name: str, permits: int, window: timedelta, on_failure: Optional[OnFailure] = None) -> ZSetLog:
        """An exact limit with request ids: a retry is not charged twice."""
        return ZSetLog(self, name, [Limit(permits, window)], on_failure)

    def gcra(
        self, name: str, permits: int, window: timedelta, burst: int = 0, on_failure: Optional[OnFailure] = None
    ) -> GCRA:
        """An even rate with a burst (0: as many as permits), in a few bytes: the refilling token bucket."""
        return GCRA(self, name, [Limit(permits, window, burst)], on_failure)

    def slice_ring(
        self, name: str, windows: Windows, slice: Optional[timedelta] = None, on_failure: Optional[OnFailure] = None
    ) -> SliceRing:
        """One to eight windows at once, as Limit(permits, window), all or nothing. A window is counted by 200
        slices, or by slices of this length (1 ms to 24 h). A window that is new to a subject begins empty."""
        return SliceRing(self, name, windows, on_failure, slice)

    def token_bucket(
        self, name: str, permits: int, window: timedelta, per_client: bool = False, client_id: Optional[str] = None,
        on_failure: Optional[OnFailure] = None,
    ) -> TokenBucket:
        """A limit that an operator changes in Redis, for all processes at once. With per_client each client_id (random
        for each Limits, if it is not given) has it to itself."""
        return TokenBucket(self, name, [Limit(permits, window)], on_failure, per_client, client_id)

    def budget(
        self, name: str, windows: Windows, slice: Optional[timedelta] = None,
        settle_within: timedelta = timedelta(minutes=15), on_failure: Optional[OnFailure] = None,
    ) -> Budget:
        """A cost that is known only afterwards. settle_within (1 ms to 366 days) is how long Redis knows an id: the
        longest time that a request may take. windows and slice are as of slice_ring."""
        return Budget(self, name, windows, on_failure, slice, settle_within)

    def concurrency(self, name: str, slots: int, ttl: timedelta, on_failure: Optional[OnFailure] = None) -> Concurrency:
        """How many run at once: 0 to 10000 slots, under leases of ttl (1 ms to 366 days) that renew themselves."""
        return Concurrency(self, name, slots, ttl, on_failure)

    def quota(
        self, name: str, permits: int, period: Period, zone: Optional[str] = None,
        on_failure: Optional[OnFailure] = None,
    ) -> Quota:
        """What a "day", "week" (from Monday), "month" or "year" of a zone ("Europe/Berlin"; UTC without one) may hold,
        or a period of your own, (begin, end): make the limiter for the call, with the period of the customer's bill.
        on_failure is not Local."""
        return Quota(self, name, permits, period, zone, on_failure)

    def all(self, parts: Sequence[Part]) -> Steps[Decision]:
        """Asks several limiters, all or none: limits.all([(per_user, "ada"), (per_team, "acme", 5)]). Each part is a
        limiter that can give back (list_log, zset_log, slice_ring, quota), a subject and a number (1 if left out).

        All are asked in one round trip, in a cluster in one to each node. If one denies or fails, or the caller is
        interrupted, what the others granted is given back in the background; until then others may be denied. The
        decision is the denial with the longest wait, or the grant with the fewest permits left, and parts has all
        grants. After a lost reply only a zset_log can give back: the others stay charged."""
        return (yield from all_of(self, parts))


_BEHIND: Dict[str, Any] = {"Slot": _slots.Lease}  # faces by their names; the others have those of what is behind them
for _module in (_limiters, _algorithms, _budget, _quota, _slots):
    _BEHIND.update(vars(_module))


class Face(Generic[C]):
    """A limiter, a reservation or a slot, as its caller sees it."""

    def __init__(self, driver: Any, core: C) -> None:
        self._driver, self._core = driver, core

    def __init_subclass__(cls) -> None:
        """A face has the docs of what is behind it."""
        core = _BEHIND.get(cls.__name__)
        cls.__doc__ = cls.__doc__ or (core.__doc__ if core else None)
        for name, method in vars(cls).items():
            if inspect.isfunction(method) and not method.__doc__:
                method.__doc__ = getattr(getattr(core, name, None), "__doc__", None)


class DecidedFace(Face[C]):
    @property
    def decision(self) -> Decision:
        """The answer of the script. If it is no grant, its wait says when there may be one."""
        return self._core.decision  # type: ignore[attr-defined,no-any-return]


class LimiterFace(Face[C]):
    @property
    def name(self) -> str:
        """The limiter's name, as in keys and headers."""
        return str(self._core.name)  # type: ignore[attr-defined]


class ReservationFace(DecidedFace[_limiters.Reservation]):
    """A booking. Ask ok first."""

    @property
    def ok(self) -> bool:
        """Whether the permits were booked: `if limiter.reserve(subject):` asks for it."""
        return self._core.decision.granted

    def __bool__(self) -> bool:
        return self.ok

    @property
    def delay(self) -> timedelta:
        """The time from now until the permits may be used; NEVER if the reservation is not ok."""
        return timedelta(seconds=max(self._core.at - time.monotonic(), 0)) if self.ok else NEVER


class ReservedFace(DecidedFace[_budget.Hold]):
    """An estimate for the block of a with statement, settled with used when the block ends, whatever happens."""

    @property
    def granted(self) -> bool:
        return self._core.decision.granted

    @property
    def used(self) -> Optional[int]:
        """The actual cost. None, as long as it is not set: the estimate stays charged."""
        return self._core.used

    @used.setter
    def used(self, actual: int) -> None:
        self._core.use(actual)


class SlotFace(DecidedFace[_slots.Lease]):
    """A slot of a concurrency. It renews itself until release, or until it is lost. If its decision is degraded, it
    has no lease."""

    @property
    def lost(self) -> Optional[SlotLostError]:
        """Why the slot was lost: another holder may have it, and its work has to stop. None while it is held."""
        return self._core.why_lost()


class LimitsFace(Generic[Client]):
    _new_driver: Callable[[Own], Any]
    _is_async: bool

    def __init__(
        self, client: Client, prefix: str = "sluice", preloaded: bool = False, timeout: Optional[timedelta] = None,
        on_failure: OnFailure = "error", breaker: Optional[Breaker] = Breaker(),
    ) -> None:
        own = own_of(client, self._is_async)
        self._driver = type(self)._new_driver(own)
        caller = Caller(own.nodes, own.remap, preloaded, breaker)
        self._core = Factory(caller, self._driver.later, prefix, timeout, on_failure)


def make(face: Type[F], method: "Callable[Concatenate[Any, P], Any]") -> "Callable[Concatenate[Any, P], F]":
    """A method that makes what another one makes, with this face."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> F:
        return face(self._driver, method(self._core, *args, **kwargs))

    return _signed(call, face)  # type: ignore[no-any-return]


def named(call: Any, method: Any) -> Any:
    """A method that drives the steps of another one: with its name, doc and signature, and the result of the steps."""
    result = getattr(inspect.signature(method).return_annotation, "__args__", (None, None, None))[2]
    return _signed(functools.wraps(method)(call), result)


def _signed(call: Any, result: object) -> Any:
    call.__signature__ = inspect.signature(call).replace(return_annotation=result)
    return call
