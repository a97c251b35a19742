"""Asks a limiter for many callers at once, as bench/packages.go says: packages.py CLIENT WHO HOST PORT CALLERS."""

import asyncio
import itertools
import pathlib
import sys
import threading
import time
from datetime import timedelta

import limits
import redis
import redis.asyncio

repository = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(repository / "clients/python/src"))
import sluice_redis  # noqa: E402
import sluice_redis.aio  # noqa: E402

client, who, host, port, callers = sys.argv[1:]
PERMITS, WINDOW = 1000, timedelta(seconds=1)
ASYNC = client == "asyncio"
module = redis.asyncio if ASYNC else redis


def package():
    owner = sluice_redis.aio if ASYNC else sluice_redis
    return owner.Limits(module.Redis(host=host, port=int(port))).list_log("bench", PERMITS, WINDOW).allow


def bare():
    source = (repository / "scripts/list_log_v1.lua").read_text()
    sha1 = redis.Redis(host, int(port)).script_load(source)
    evalsha = module.Redis(host=host, port=int(port)).evalsha
    return lambda subject: evalsha(sha1, 1, f"sluice:bench:{{{subject}}}:ll1", PERMITS, 1000000, 1, 0)


def peer():
    """The moving window of limits, over the same client."""
    item = limits.RateLimitItemPerSecond(PERMITS)
    if ASYNC:
        storage = limits.aio.storage.RedisStorage(f"async+redis://{host}:{port}", implementation="redispy")
        hit = limits.aio.strategies.MovingWindowRateLimiter(storage).hit
    else:
        hit = limits.strategies.MovingWindowRateLimiter(limits.storage.RedisStorage(f"redis://{host}:{port}")).hit
    return lambda subject: hit(item, subject)


def check(decision):
    if not (decision[0] if isinstance(decision, list) else decision):
        raise SystemExit("denied far from the limit")


async def load_asyncio(take, seconds):
    started, asked = time.monotonic(), itertools.count()

    async def caller():
        while time.monotonic() - started < seconds:
            check(await take(f"user-{next(asked) % 1000}"))

    await asyncio.gather(*(caller() for _ in range(int(callers))))
    return next(asked) / (time.monotonic() - started)


def load_threads(take, seconds):
    started, asked = time.monotonic(), itertools.count()

    def caller():
        while time.monotonic() - started < seconds:
            check(take(f"user-{next(asked) % 1000}"))

    threads = [threading.Thread(target=caller) for _ in range(int(callers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(asked) / (time.monotonic() - started)


def main():
    take, loop = None, asyncio.new_event_loop()

    async def make():
        return {"package": package, "bare": bare, "peer": peer}[who]()

    def load(seconds):
        work = load_asyncio(take, seconds) if ASYNC else None
        return loop.run_until_complete(work) if work else load_threads(take, seconds)

    take = loop.run_until_complete(make())
    load(0.1)
    print("ready", flush=True)
    for line in sys.stdin:
        print(load(int(line) / 1000), flush=True)


main()
