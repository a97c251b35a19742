"""Sends at most 3 login codes a minute to an address, whoever asks and wherever this runs.

    python3 send_code.py redis://localhost:6379
"""

import pathlib
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
MINUTE = 60_000_000  # every time is in microseconds

# No retries: if a reply is lost, the permit may be charged, and a retry would charge another one. Some versions of
# redis-py retry by default.
client = redis.Redis.from_url(
    sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379",
    retry=Retry(NoBackoff(), 0),
)
# EVALSHA, and where the server does not know the script yet SCRIPT LOAD and EVALSHA again.
list_log = client.register_script((SCRIPTS / "list_log_v1.lua").read_bytes())


def escape(subject):
    """The subject stands between braces, so that Redis Cluster keeps its keys together."""
    return subject.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def send_code(address):
    key = f"sluice:send-code:{{{escape(address)}}}:ll1"
    granted, remaining, wait, _reset_after, _now = list_log(keys=[key], args=[3, MINUTE, 1, 0])
    if not granted:
        return f"too many codes: try again in {-(-wait // 1_000_000)} s"
    return f"code sent, {remaining} more this minute"


for _ in range(4):
    print(send_code("ada@example.com"))
print(send_code("bob@example.com"))
