"""What limits' own tests do not ask of sluice_redis.limits."""

import asyncio
import time

import limits
import pytest
from limits import strategies
from limits.aio import strategies as aio_strategies
from limits.storage import storage_from_string

import sluice_redis.limits

LIMITS = [limits.parse(text) for text in ("1000/minute", "1001/minute", "1000000/minute", "1000001/minute")]  # a limiter each


def done(result):
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


@pytest.fixture(params=["", "async+"])
def make(request, server):
    """Makes a storage, and its strategy."""

    def made(uri=f"sluice+redis://localhost:{server.port}", **options):
        storage = storage_from_string(request.param + uri, **options)
        return storage, (aio_strategies if request.param else strategies).MovingWindowRateLimiter(storage)

    return made


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_each_limiter(make, server, limit):
    _, limiter = make(key_prefix="shop")

    costs = (limit.amount + 1, limit.amount, 0, 1)
    assert [done(limiter.hit(limit, "ada", cost=cost)) for cost in costs] == [False, True, True, False]
    assert done(limiter.get_window_stats(limit, "ada")).remaining == 0
    assert all(key.startswith(b"shop:limits:{LIMITER/ada/") for key in server.client.keys())
    done(limiter.clear(limit, "ada"))
    assert done(limiter.get_window_stats(limit, "ada")).remaining == limit.amount


def test_other_strategies_are_refused(make):
    storage = make()[0]
    ways = aio_strategies if isinstance(storage, sluice_redis.limits.AsyncStorage) else strategies
    with pytest.raises(NotImplementedError, match='take the strategy "moving-window"'):
        done(ways.FixedWindowRateLimiter(storage).hit(LIMITS[0]))
    with pytest.raises(NotImplementedError):
        ways.SlidingWindowCounterRateLimiter(storage)


def test_reset(make, server):
    storage, limiter = make()
    server.client.set("other", 1)
    for user in ("ada", "bob"):
        done(limiter.hit(LIMITS[0], user))
    assert done(storage.reset()) == 2
    assert server.client.keys() == [b"other"]


def test_while_redis_does_not_answer(make):
    nobody = "sluice+redis://localhost:1"
    storage, limiter = make(nobody, wrap_exceptions=True)
    assert done(storage.check()) is False
    with pytest.raises(limits.errors.StorageError):
        done(limiter.hit(LIMITS[0]))
    with pytest.raises(sluice_redis.UnavailableError):
        done(make(nobody)[1].hit(LIMITS[0]))
    assert done(make(nobody, on_failure="open")[1].hit(LIMITS[0]))


def test_clients(make, cluster, tmp_path):
    assert done(make(f"sluice+redis+cluster://localhost:{cluster.port}")[1].hit(LIMITS[1]))
    client = make(f"sluice+redis+unix://{tmp_path}/socket")[0].client
    assert client.connection_pool.connection_kwargs["path"] == f"{tmp_path}/socket"
    assert make("sluice+redis://", client=client)[0].client is client
    assert "SSL" in make("sluice+rediss://localhost")[0].client.connection_pool.connection_class.__name__


SERVICE = """
from flask import Flask
from flask_limiter import Limiter

app = Flask(__name__)
limiter = Limiter(lambda: "all", app=app, storage_uri="redis://localhost:6379")


@app.get("/")
@limiter.limit("100 per second")
def index():
    return "hello"
"""
MOVED = SERVICE.replace("import Flask\n", "import Flask\nimport sluice_redis.limits\n").replace(
    'storage_uri="redis:', 'strategy="moving-window", storage_uri="sluice+redis:'
)


def audit(text, server):
    """The most requests in any second that a service lets through: one opens the window, and the others come when 0.9
    of it has passed."""
    names, granted = {"__name__": __name__}, []
    exec(text.replace("6379", str(server.port)), names)
    client, begin, sent = names["app"].test_client(), time.monotonic(), 0
    while sent < begin + 1.5:
        sent = time.monotonic()
        if not granted or sent > begin + 0.9:
            allowed = client.get("/").status_code == 200
            granted += [(sent, time.monotonic())] * allowed
    return max(sum(first <= sent and end < first + 1 for sent, end in granted) for first, _ in granted)


def test_service_moved(server):
    """Flask-Limiter counts by fixed windows. Two lines are changed."""
    changed = [line for line in MOVED.splitlines() if line not in SERVICE.splitlines()]
    before, after = audit(SERVICE, server), audit(MOVED, server)
    print(f"Flask-Limiter: {len(changed)} lines changed, {before} of 100 before, {after} of 100 after")
    assert len(changed) == 2 and before > 100 >= after
