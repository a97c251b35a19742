"""Storages for the package limits 5, and so for Flask-Limiter and slowapi, with the strategy "moving-window":

    import sluice_redis.limits  # registers the storages
    limiter = Limiter(key, storage_uri="sluice+redis://localhost:6379", strategy="moving-window")

The schemes are sluice+redis, sluice+rediss, sluice+redis+unix and sluice+redis+cluster, behind async+ for limits.aio.
It needs `pip install sluice-redis[limits]`. What is different from limits' own storages:

- Redis's clock decides. An entry is never sent twice, and an answer comes within a second: see the errors of Limits.
- The other strategies are refused: they let up to twice a limit through, or estimate.
- A limit of up to 1000 is a list_log, of up to 1000000 a token_bucket, in which an entry of any cost takes 26 bytes.
  Both are exact. One above is a slice_ring: its entries count for up to half a per cent longer.
- reset_time is when the next entry leaves if nothing is left, otherwise when the last one does.
- Keys are new, so limits begin full.
"""

import functools
import time
from datetime import timedelta
from typing import Any, NoReturn, Optional, Tuple, Type

import limits.aio.storage
import limits.storage
import redis.asyncio
from limits.limits import GRANULARITIES

from . import Limits, aio
from ._errors import SluiceError
from ._limiters import OnFailure
from ._types import Decision, Limit

__all__ = ["AsyncStorage", "Storage"]
_NAME = "limits"  # of all limiters


class _Shared:
    """What is the same for threads and for asyncio."""

    _kind: Any
    _redis: Any

    def __init__(
        self, uri: str, wrap_exceptions: bool = False, key_prefix: str = "sluice", on_failure: OnFailure = "error",
        **options: Any,
    ) -> None:
        super().__init__(uri, wrap_exceptions)  # type: ignore[call-arg]
        options.pop("implementation", None)  # which client limits' own async storages take
        scheme, _, address = uri.partition("sluice+")[2].partition("://")
        kind = self._redis.RedisCluster if scheme == "redis+cluster" else self._redis.Redis
        plain = {"redis+cluster": "redis", "redis+unix": "unix"}.get(scheme, scheme)
        self.client = options.pop("client", None) or kind.from_url(f"{plain}://{address}", **options)
        self.limits = self._kind(self.client, prefix=key_prefix, on_failure=on_failure)
        self.limiter = functools.lru_cache(1000)(self._make)
        self.pattern = f"{key_prefix}:{_NAME}:*"

    def _make(self, amount: int, expiry: int) -> Any:
        window = timedelta(seconds=expiry)
        if amount <= 1000:  # as many as one call of a list_log takes
            return self.limits.list_log(_NAME, amount, window)
        if amount <= 1000000:
            return self.limits.token_bucket(_NAME, amount, window)
        return self.limits.slice_ring(_NAME, [Limit(amount, window)])

    def of_key(self, key: str) -> Any:
        """The limiter of a key that RateLimitItem.key_for made: it ends in amount/multiples/granularity."""
        amount, multiples, granularity = key.rsplit("/", 3)[1:]
        return self.limiter(int(amount), int(multiples) * GRANULARITIES[granularity].GRANULARITY.seconds)

    @property
    def base_exceptions(self) -> Tuple[Type[Exception], ...]:
        return SluiceError, redis.RedisError

    def incr(self, key: str, expiry: int, amount: int = 1) -> NoReturn:
        raise NotImplementedError('the storages sluice+redis have no fixed windows: take the strategy "moving-window"')

    def get(self, key: str) -> NoReturn:
        self.incr(key, 0)

    get_expiry = get

    def clear(self, key: str) -> Any:
        return self.of_key(key).reset(key)


def _window(decision: Decision, limit: int, expiry: int) -> Tuple[float, int]:
    """The time that limits adds expiry to, and how many entries count."""
    until = decision.reset_after if decision.remaining else decision.wait
    return time.time() + until.total_seconds() - expiry, limit - decision.remaining


class Storage(_Shared, limits.storage.Storage, limits.storage.MovingWindowSupport):
    """For threads. key_prefix is the beginning of every key, on_failure what happens while Redis does not decide: see
    Limits. client is any client that Limits takes, one of Sentinel's master_for, say: then only the scheme of the uri
    counts. All other options are those of redis.Redis."""

    STORAGE_SCHEME = ["sluice+redis", "sluice+rediss", "sluice+redis+unix", "sluice+redis+cluster"]

    _kind, _redis = Limits, redis

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return amount <= limit and bool(amount == 0 or self.limiter(limit, expiry).allow_n(key, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        return _window(self.limiter(limit, expiry).peek(key), limit, expiry)

    def check(self) -> bool:
        try:
            return bool(self.client.ping())
        except self.base_exceptions:
            return False

    def reset(self) -> Optional[int]:
        """Removes all limits of the prefix, and returns how many keys it removed. It scans the whole database."""
        return sum(int(self.client.unlink(key)) for key in self.client.scan_iter(self.pattern, 1000))


class AsyncStorage(_Shared, limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport):
    """For asyncio, with the options of Storage."""

    STORAGE_SCHEME = [f"async+{scheme}" for scheme in Storage.STORAGE_SCHEME]

    _kind, _redis = aio.Limits, redis.asyncio

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return amount <= limit and bool(amount == 0 or await self.limiter(limit, expiry).allow_n(key, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        return _window(await self.limiter(limit, expiry).peek(key), limit, expiry)

    async def check(self) -> bool:
        try:
            return bool(await self.client.ping())
        except self.base_exceptions:
            return False

    async def reset(self) -> Optional[int]:
        """Removes all limits of the prefix, and returns how many keys it removed. It scans the whole database."""
        return sum([int(await self.client.unlink(key)) async for key in self.client.scan_iter(self.pattern, 1000)])
