"""Types, as a user has them: checked by mypy --strict."""

import asyncio
from datetime import datetime, timedelta, timezone
from typing import List, Optional, Tuple

import redis
import redis.asyncio

from sluice_redis import Decision, Limit, Limiter, Limits, Local, SlotLostError, WindowState, aio, http

limits = Limits(redis.Redis(), prefix="sluice", timeout=timedelta(seconds=1))
codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
decision: Decision = codes.allow("ada")
windows: Tuple[WindowState, ...] = limits.slice_ring("api", [Limit(1, timedelta(1))]).peek("ada").windows
returned: int = codes.give_back("ada", decision, 1)
delay: timedelta = codes.reserve("ada", max_wait=timedelta(seconds=1)).delay
both: Tuple[Decision, ...] = limits.all([(codes, "ada"), (codes, "bob", 2)]).parts
limits.gcra("rate", 5, timedelta(1), on_failure=Local(0.5))
limits.zset_log("z", 1, timedelta(1)).allow("ada", id="order-17")
month: Optional[datetime] = limits.quota("exports", 10000, "month", zone="Europe/Berlin").report("acme", 5).period_end
limits.all([(limits.quota("bill", 10000, (datetime.now(timezone.utc), month or datetime.now(timezone.utc))), "acme")])
with limits.concurrency("render", 2, timedelta(seconds=10)).acquire("acme", on_lost=print) as slot:
    lost: Optional[SlotLostError] = slot.lost
free, denied = limits.concurrency("render", slots=2, ttl=timedelta(seconds=10)).try_acquire("acme")
if free:
    free.release()
headers: http.Headers = http.headers_of(codes, denied)


async def work() -> None:
    limits = aio.Limits(redis.asyncio.Redis())
    codes = limits.list_log("send-code", permits=3, window=timedelta(minutes=1))
    decision: Decision = await codes.allow("ada")
    await codes.give_back("ada", decision)
    task = asyncio.create_task(codes.wait("ada", max_wait=timedelta(seconds=1)))
    print((await task).granted)
    async with await limits.concurrency("render", 2, timedelta(seconds=10)).acquire("acme") as slot:
        print(slot.lost)


async def app(scope: object, receive: object, send: object) -> None:
    pass


key: http.Key = http.key_by_ip(["10.0.0.0/8"])
http.ASGI(app, aio.Limits(redis.asyncio.Redis()).gcra("api", 5, timedelta(1)), key=key)
http.WSGI(lambda environ, start_response: [b""], codes, key=key)


def charges(request: http.Request) -> List[http.Charge[Limiter]]:
    return [(codes, request.header("X-Key")), (codes, (request.peer, "a"), 2)]


async def async_charges(request: http.Request) -> List[http.Charge[aio.Limiter]]:
    return []


def refuse(request: http.Request, result: http.Result) -> Optional[http.Refusal]:
    return (429, {"Retry-After": str(result.retry_after_seconds)}, b"") if result.decisions else None


http.WSGI(lambda environ, start: [b""], charges, count=lambda status: status >= 400, refuse=refuse, shadow=True)
http.ASGI(app, async_charges, observe=lambda request, result: print(result.status), max_wait=timedelta(seconds=2))
http.fastapi_limit(async_charges, count=lambda status: status == 401, refuse=refuse)
