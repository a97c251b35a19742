"""Asks one limiter, as bench/drivers.go says."""

import asyncio
import importlib
import itertools
import pathlib
import sys
import threading
import time
from datetime import timedelta

import limits
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

name, host, port, permits, seconds, client, *rest = sys.argv[1:]
port, permits, seconds = int(port), int(permits), int(seconds)
repository = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(repository / "clients/python/src"))
ASYNC = client == "asyncio"
module = redis.asyncio if ASYNC else redis


def moving_window(scheme="redis"):
    item = limits.RateLimitItemPerSecond(permits, seconds)
    if ASYNC:
        storage = limits.aio.storage.RedisStorage(f"async+redis://{host}:{port}", implementation="redispy")
        hit = limits.aio.strategies.MovingWindowRateLimiter(storage).hit
    else:
        storage = limits.storage.storage_from_string(f"{scheme}://{host}:{port}")
        hit = limits.strategies.MovingWindowRateLimiter(storage).hit
    return lambda subject: hit(item, subject)


def our_moving_window():
    importlib.import_module("sluice_redis.limits")
    return moving_window("sluice+redis")


def counter():
    """The counter of tutorials: one for each window of the clock."""
    client = redis.Redis(host, port)

    def take(subject):
        key = f"counter:{subject}:{int(time.time()) // seconds}"
        calls, _ = client.pipeline().incr(key).expire(key, seconds).execute()
        return calls <= permits

    return take


def sorted_set():
    """The log of tutorials: every call is added, and counts if fewer than the limit were there before it."""
    client = redis.Redis(host, port)

    def take(subject):
        key, now = f"log:{subject}", time.time()
        pipe = client.pipeline().zremrangebyscore(key, 0, now - seconds).zcard(key)
        _, calls, _, _ = pipe.zadd(key, {str(now): now}).expire(key, seconds).execute()
        return calls < permits

    return take


def sluice():
    """Our package."""
    owner = importlib.import_module("sluice_redis.aio" if ASYNC else "sluice_redis")
    return owner.Limits(module.Redis(host=host, port=port)).list_log("bench", permits, timedelta(seconds=seconds)).allow


def bare(script, suffix, *args):
    """A script of ours, by plain EVALSHA."""
    sha1 = redis.Redis(host, port).script_load((repository / f"scripts/{script}.lua").read_text())
    options = {} if ASYNC else {"retry": Retry(NoBackoff(), 0)}
    evalsha = module.Redis(host=host, port=port, **options).evalsha
    return lambda subject: evalsha(sha1, 1, f"sluice:bench:{{{subject}}}:{suffix}", *args)


def granted(decision):
    return decision[0] == 1 if isinstance(decision, list) else bool(decision)


def load(callers, ms):
    """Decisions a second of so many callers."""
    started, asked = time.monotonic(), itertools.count()

    def subjects():
        while time.monotonic() - started < ms / 1000:
            yield f"user-{next(asked) % 1000}"

    def check(decision):
        if not granted(decision):
            raise SystemExit("denied far from the limit")

    async def coroutine():
        for subject in subjects():
            check(await take(subject))

    def thread():
        for subject in subjects():
            check(take(subject))

    async def gather():
        await asyncio.gather(*(coroutine() for _ in range(callers)))

    if ASYNC:
        loop.run_until_complete(gather())
    else:
        threads = [threading.Thread(target=thread) for _ in range(callers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return next(asked) / (time.monotonic() - started)


async def make():
    limiters = {"limits": moving_window, "sluice_redis.limits": our_moving_window, "INCR, EXPIRE": counter,
                "sorted set": sorted_set, "sluice": sluice}
    return limiters.get(name, bare)(*rest)


def answer(command, words):
    if command == "take":
        return int(granted(take(words)))
    return load(*map(int, words.split())) if command == "load" else time.time_ns() // 10**6


loop = asyncio.new_event_loop()
take = loop.run_until_complete(make())
print("ready", flush=True)
for line in sys.stdin:
    command, _, words = line.strip().partition(" ")
    try:
        print(answer(command, words), flush=True)
    except redis.RedisError as error:
        print(f"!{error!r}", flush=True)
