"""One process of the audit: asks for permits until the time is up, and prints when each was granted for.

    worker.py PORT LIMITER SECONDS
"""

import json
import sys
import time
from datetime import datetime, timedelta, timezone

import redis

from sluice_redis import Limit, Limits

port, kind, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
limits = Limits(redis.Redis(port=port))
window = timedelta(milliseconds=500)
how = (100, window) if kind == "list_log" else ([Limit(100, window)],)
limiter = getattr(limits, kind)("audit", *how)
epoch, times, denied, end = datetime(1970, 1, 1, tzinfo=timezone.utc), [], 0, time.monotonic() + seconds
while time.monotonic() < end:
    ahead = kind == "list_log" and len(times) % 10 == 9  # some book
    d = limiter.reserve("x", max_wait=timedelta(milliseconds=5)).decision if ahead else limiter.allow("x")
    if d.granted:
        times.append((d.now + d.wait - epoch) // timedelta(microseconds=1))
    denied += not d.granted
print(json.dumps({"times": times, "denied": denied}))
