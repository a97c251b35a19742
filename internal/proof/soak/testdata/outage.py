"""8 callers without a pause: outage.py threads|asyncio PORT with|without. Each line of stdin is answered with what there
was since the last one: calls, p99 in us, those Redis did not decide, those a breaker refused, when the last such, in ms."""

import asyncio, redis, redis.asyncio, sys, threading, time
from datetime import timedelta
from sluice_redis import Breaker, Limits, aio

kind, port, breaker = sys.argv[1], int(sys.argv[2]), Breaker() if sys.argv[3] == "with" else None
options, limit = {"on_failure": "open", "breaker": breaker}, ("x", 10**6, timedelta(seconds=1))
took, degraded, refused, last = [], 0, 0, 0

def count(since, decision):
    global degraded, refused, last
    took.append(time.perf_counter() - since)
    if decision.degraded:
        degraded, last = degraded + 1, time.time()
        refused += "breaker is open" in str(decision.cause)

def call_for_ever(limiter, subject):
    while True:
        count(time.perf_counter(), limiter.allow(subject))

async def call_in_task(limiter, subject):
    while True:
        count(time.perf_counter(), await limiter.allow(subject))
        await asyncio.sleep(0)

async def call_in_tasks():
    limiter = aio.Limits(redis.asyncio.Redis(port=port), **options).gcra(*limit)
    await asyncio.gather(*(call_in_task(limiter, str(i)) for i in range(8)))

limiter = Limits(redis.Redis(port=port), **options).gcra(*limit)
for i in range(8 if kind == "threads" else 0):
    threading.Thread(target=call_for_ever, args=(limiter, str(i)), daemon=True).start()
if kind == "asyncio":
    threading.Thread(target=asyncio.run, args=(call_in_tasks(),), daemon=True).start()
for _ in sys.stdin:
    took, times, tally = [], sorted(took), (degraded, refused, int(last * 1e3))
    degraded = refused = 0
    print(len(times), int(times[len(times) * 99 // 100] * 1e6) if times else 0, *tally, flush=True)
