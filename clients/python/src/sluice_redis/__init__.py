"""Distributed rate limits on Redis: exact, bounded in cost, and the same as in other languages.

    limits = Limits(redis.Redis())
    codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
    decision = codes.allow("ada@example.com")  # one permit now, or a denial

A subject is what a limit applies to: a user, an address, a route. Limiters of one name and algorithm share their state
in all processes. For asyncio take sluice_redis.aio, for WSGI and ASGI applications sluice_redis.http.
"""

from ._breaker import Breaker
from ._errors import (
    ArgumentError, BusyError, ExceedsLimitError, NotLoadedError, NotReservedError, OutcomeUnknownError, SlotLostError,
    SluiceError, StateError, UnavailableError, WaitError,
)  # fmt: skip
from ._local import Local
from ._sync import (
    GCRA, Budget, Concurrency, Limiter, Limits, ListLog, Quota, Reservation, Reserved, Reserver, Returner, SliceRing,
    Slot, TokenBucket, ZSetLog,
)  # fmt: skip
from ._types import NEVER, Decision, Limit, WindowState, redis_key

__version__ = "0.1.0.dev0"
__all__ = [
    "GCRA", "NEVER", "ArgumentError", "Breaker", "Budget", "BusyError", "Concurrency", "Decision", "ExceedsLimitError",
    "Limit", "Limiter", "Limits", "ListLog", "Local", "NotLoadedError", "NotReservedError", "OutcomeUnknownError",
    "Quota", "Reservation", "Reserved", "Reserver", "Returner", "SliceRing", "Slot", "SlotLostError", "SluiceError",
    "StateError", "TokenBucket", "UnavailableError", "WaitError", "WindowState", "ZSetLog", "redis_key",
]  # fmt: skip
