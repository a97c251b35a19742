"""What limits' own tests do not ask of sluice_redis.limits."""

import asyncio

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
