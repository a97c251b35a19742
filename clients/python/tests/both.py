"""The limiters for threads and for asyncio behind one face, so that one test is for both."""

import asyncio
import functools
import inspect
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, TimeoutError
from redis.retry import Retry

from sluice_redis import Limits, SluiceError, aio

VERSION = tuple(map(int, redis.__version__.split(".")[:2]))


class Both:
    """Makes clients and Limits of one kind: "threads" or "asyncio"."""

    def __init__(self, kind):
        self.kind, self.is_async, self.made = kind, kind == "asyncio", []
        self.module, self.loop = redis.asyncio if self.is_async else redis, None
        if self.is_async:
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def retries(self, backoff=ExponentialBackoff(0.01, 0.01)):
        """Ten retries by the client itself, as each version takes them."""
        if not self.is_async:
            return {"retry": Retry(backoff, 10), "retry_on_error": [ConnectionError, TimeoutError]}
        retries = {"retry": AsyncRetry(backoff, 10)}
        return retries if VERSION >= (6, 0) else {**retries, "retry_on_timeout": True}

    def call(self, function, *args, **kwargs):
        """Calls a function; for asyncio in the loop, up to its answer."""
        if not self.is_async:
            return function(*args, **kwargs)

        async def work():
            answer = function(*args, **kwargs)
            return await answer if inspect.isawaitable(answer) else answer

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(60)

    def client(self, port, kind="Redis", **options):
        return self.call(getattr(self.module, kind), host="127.0.0.1", port=port, **options)

    def limits(self, client, **options):
        """Limits on a client, or on a port."""
        client = self.client(client) if isinstance(client, int) else client
        self.made.append(self.face(self.call(aio.Limits if self.is_async else Limits, client, **options)))
        return self.made[-1]

    def face(self, value):
        """A limiter, a slot or the like without await; what is none stays."""
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(map(self.face, value))
        is_face = self.is_async and type(value).__module__ == "sluice_redis.aio"
        return Awaited(self, value) if is_face else value

    def plain(self, value):
        if type(value) in (list, tuple):
            return type(value)(map(self.plain, value))
        return value._inner if isinstance(value, Awaited) else value

    def stop(self):
        for limits in self.made:
            limits.close()
        if self.loop:
            self.loop.call_soon_threadsafe(self.loop.stop)


class Awaited:
    """What is for asyncio: its methods return when their answers have come."""

    def __init__(self, both, inner):
        self.__dict__.update(_both=both, _inner=inner)

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if not inspect.ismethod(value):
            return value
        return lambda *args, **kwargs: self._both.face(self._both.call(value, *self._both.plain(args), **kwargs))

    def __setattr__(self, name, value):
        setattr(self._inner, name, value)

    def __bool__(self):
        return bool(self._inner)

    def __enter__(self):
        return self._both.face(self._both.call(self._inner.__aenter__))

    def __exit__(self, *error):
        return self._both.call(self._inner.__aexit__, *error)


def in_threads(count, call):
    """What a call returns, or raises, in as many threads at once."""
    barrier = threading.Barrier(count)

    def work(_):
        barrier.wait(20)
        try:
            return call()
        except SluiceError as error:
            return error

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


def run(work):
    """Runs what is asynchronous, with errors for what is left behind."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return asyncio.run(asyncio.wait_for(work, 50))


def in_a_loop(test):
    """An asynchronous test."""
    return functools.wraps(test)(lambda *args, **kwargs: run(test(*args, **kwargs)))
