"""Asks one limiter, as bench/drivers.go says."""

import importlib
import pathlib
import sys
import time

import limits
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

name, host, port, permits, seconds, *rest = sys.argv[1:]
permits, seconds = int(permits), int(seconds)


def moving_window(scheme="redis"):
    storage = limits.storage.storage_from_string(f"{scheme}://{host}:{port}")
    limiter = limits.strategies.MovingWindowRateLimiter(storage)
    item = limits.RateLimitItemPerSecond(permits, seconds)
    return lambda subject: limiter.hit(item, subject)


def counter():
    """The counter of tutorials: one for each window of the clock."""
    client = redis.Redis(host, int(port))

    def take(subject):
        key = f"counter:{subject}:{int(time.time()) // seconds}"
        calls, _ = client.pipeline().incr(key).expire(key, seconds).execute()
        return calls <= permits

    return take


def sorted_set():
    """The log of tutorials: every call is added, and counts if fewer than the limit were there before it."""
    client = redis.Redis(host, int(port))

    def take(subject):
        key, now = f"log:{subject}", time.time()
        pipe = client.pipeline().zremrangebyscore(key, 0, now - seconds).zcard(key)
        _, calls, _, _ = pipe.zadd(key, {str(now): now}).expire(key, seconds).execute()
        return calls < permits

    return take


def sluice(folder, script, suffix, *args):
    client = redis.Redis(host, int(port), retry=Retry(NoBackoff(), 0))
    call = client.register_script((pathlib.Path(folder) / f"{script}.lua").read_bytes())
    return lambda subject: call([f"sluice:bench:{{{subject}}}:{suffix}"], args)[0] == 1


def our_moving_window():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients/python/src"))
    importlib.import_module("sluice_redis.limits")
    return moving_window("sluice+redis")


limiters = {"limits": moving_window, "sluice_redis.limits": our_moving_window, "INCR, EXPIRE": counter, "sorted set": sorted_set}
take = limiters.get(name, sluice)(*rest)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(time.time_ns() // 10**6 if line == "clock\n" else int(take(line[len("take ") : -1])), flush=True)
    except redis.RedisError as error:
        print(f"!{error!r}", flush=True)
