"""Connections like the client's own, without its retries: what a decision is sent on is sent once."""

import contextlib
import functools
import inspect
import re
import threading
import time
from collections import OrderedDict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Sized, Tuple

import redis.asyncio.connection
from redis.exceptions import TimeoutError

from ._core import Address, Clock, NoConnection, NotSent, Send, is_misled
from ._errors import ArgumentError, type_of, warn

# What redis-py has put among the settings of its own connections, and what would make it send again.
_LEFT_OUT = {
    "maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler", "orig_host_address",
    "orig_socket_timeout", "orig_socket_connect_timeout", "connection_pool", "response_callbacks", "retry_on_timeout",
    "retry_on_error",
}  # fmt: skip
_NOT_SHARED = {"parser_class", "encoder_class", "lib_name", "lib_version"}  # settings of valkey-py with its own values
_DEFAULTS = (100, 2**31)  # of max_connections, in the versions of redis-py
_CONNECTIONS = 16  # by default: a decision takes less time than to connect
_BACKGROUND = 1000  # calls in the background
FRESH = 0.01  # seconds without a reply: the server may have closed the connection
_PATIENCE = 10.0  # seconds that a call waits for a connection; a BlockingConnectionPool's own goes first


class Own(NamedTuple):
    """What the client's own connections are made of."""

    connection_class: Any
    kwargs: Dict[str, Any]
    max_connections: int  # to a node, at once
    patience: float  # seconds that a call waits for one of them
    nodes: Tuple[Address, ...]  # of a cluster, known so far
    remap: Callable[[Address], Address]
    sentinels: Any  # the pool, if it finds its server through Sentinel

    def make_pool(
        self, pool: Any, sentinel_pool: Any, no_retry: object, node: Optional[Address], timeout: Optional[float],
        future: Callable[[], Any],
    ) -> "Pool":
        """A pool of connections to a node with a timeout (in seconds) and without retries. How many there are is the
        Gate's, whose futures are these."""
        kwargs = {name: value for name, value in self.kwargs.items() if name not in _LEFT_OUT}
        config = kwargs.get("maint_notifications_config")
        if config is not None:  # a server that announces its maintenance would lengthen the timeouts
            kwargs["maint_notifications_config"] = type(config)(enabled=False)
        kwargs.update(retry=no_retry, socket_timeout=timeout, decode_responses=False, health_check_interval=0)
        if "path" not in kwargs:  # a Unix socket
            kwargs["socket_connect_timeout"] = timeout
        kwargs.update(zip(("host", "port"), node or ()), connection_class=self.connection_class, max_connections=2**31)
        found = self.sentinels
        if found is not None:
            pool = functools.partial(sentinel_pool, found.service_name, found.sentinel_manager)
            kwargs.update(is_master=found.is_master, check_connection=found.check_connection)
        return Pool(pool(**kwargs), Gate(self, future), [])

    def why(self, text: str) -> str:
        """Why there is no connection. A plain port may be silent when it is spoken to by TLS."""
        silent = "SSL" in self.connection_class.__name__ and re.match("Timeout|no reply|$", text)
        return f"{text} (no answer to TLS)" if silent else text


def own_of(client: Any, asynchronous: bool) -> Own:
    """What a client's connections are made of. A client of the other kind, or none, is an ArgumentError."""
    modules = [kind.__module__ for kind in type(client).__mro__]
    is_async = any(module.startswith(("redis.asyncio.", "valkey.asyncio.")) for module in modules)
    if is_async != asynchronous or not (hasattr(client, "connection_pool") or hasattr(client, "nodes_manager")):
        module, other = ("redis.asyncio", "sluice_redis") if asynchronous else ("redis", "sluice_redis.aio")
        want = f"{module}.Redis or {module}.RedisCluster ({other}.Limits takes the others)"
        raise ArgumentError("", "client", type_of(client), want)
    if hasattr(client, "nodes_manager"):
        own = _own_of_cluster(client, asynchronous)
    else:
        pool = client.connection_pool
        sentinels = pool if hasattr(pool, "sentinel_manager") else None
        own = Own(pool.connection_class, pool.connection_kwargs, *_bounds(pool), (), _same, sentinels)
    is_valkey = own.connection_class.__module__.startswith("valkey.")
    return _by_redis_py(own, redis.asyncio.connection if asynchronous else redis.connection) if is_valkey else own


def _by_redis_py(own: Own, module: Any) -> Own:
    """What a client of valkey-py has, for connections of redis-py: it is a fork with the same settings."""
    kind = getattr(module, own.connection_class.__name__, None)
    if kind is None or own.sentinels:
        raise ArgumentError("", "client", type_of(own.connection_class), "for Sentinel the client of redis-py")
    known = {name for base in kind.__mro__ for name in inspect.signature(base.__init__).parameters} - _NOT_SHARED
    return own._replace(connection_class=kind, kwargs={n: value for n, value in own.kwargs.items() if n in known})


def _own_of_cluster(client: Any, asynchronous: bool) -> Own:
    manager = client.nodes_manager
    nodes = {node.name: node for node in [*manager.startup_nodes.values(), *manager.nodes_cache.values()]}
    node = next(iter(nodes.values()))
    if asynchronous:
        made_of, kwargs = node, {**client.connection_kwargs, **node.connection_kwargs}
    else:
        connect = getattr(client, "get_redis_connection", None) or client.get_valkey_connection
        made_of = connect(client.get_default_node()).connection_pool
        kwargs = made_of.connection_kwargs
    addresses = tuple((str(node.host), int(node.port)) for node in nodes.values())
    remap = getattr(manager, "address_remap", None) or _same
    return Own(made_of.connection_class, kwargs, *_bounds(made_of), addresses, remap, None)


def _bounds(pool: Any) -> Tuple[int, float]:
    most = _CONNECTIONS if pool.max_connections in _DEFAULTS else pool.max_connections
    return most, getattr(pool, "timeout", None) or _PATIENCE


def _same(address: Address) -> Address:
    return address


def is_full(background: Sized) -> bool:
    if len(background) >= _BACKGROUND:
        warn("background", "left out", f"{_BACKGROUND} calls wait for Redis")
    return len(background) >= _BACKGROUND


class Pool(NamedTuple):
    """Connections that wait for no reply. redis-py's pool only makes them: in some versions it takes those back on
    which a cancelled task was waiting for one."""

    maker: Any
    gate: "Gate"
    idle: List[Tuple[Any, float]]  # since when, by time.monotonic

    def take_back(self, connection: Any, op: Send, outcomes: Sequence[Any], clean: bool) -> List[Any]:
        """Takes a connection back, or returns what is to be closed: one that may still get a reply, and all if one
        led to the wrong place or was silent, as where a firewall has forgotten them."""
        self.gate.replies += clean
        errors = [one for one in outcomes if isinstance(one, Exception)]
        if any(isinstance(one, TimeoutError) or is_misled(one, op.node, self.gate.remap) for one in errors):
            return [connection, *self.drained()]
        if not clean:
            return [connection]
        self.idle.append((connection, time.monotonic()))
        return []

    def drained(self, seconds: float = 0) -> List[Any]:
        """Takes all out that have been idle for so long."""
        connections = []
        with contextlib.suppress(IndexError):  # other threads take some, too
            while time.monotonic() - self.idle[0][1] >= seconds:
                connections.append(self.idle.pop(0)[0])
        return connections


class Gate:
    """Lets as many calls in at once as there are connections. The others queue, first come, first served, each with a
    future that ends with why nobody gets in, or with None: then it is in."""

    def __init__(self, own: Own, future: Callable[[], Any]) -> None:
        self.most = self.free = own.max_connections
        self.future, self.lock, self.remap = future, threading.Lock(), own.remap
        self.queue: "OrderedDict[Any, None]" = OrderedDict()
        self.replies = 0  # that came so far

    def enter(self, clock: Clock) -> Any:
        """None, or the future to wait for."""
        again, clock.waited = clock.waited, True
        with self.lock:
            if self.free:
                self.free -= 1
                return None
            waiter = self.future()
            self.queue[waiter] = None
            if again:
                self.queue.move_to_end(waiter, last=False)
            return waiter

    def expire(self, waiter: Any, patience: float) -> None:
        """The waiter does not queue any longer."""
        with self.lock:
            if self.queue.pop(waiter, self) is None and not waiter.done():
                cure = "Redis answers, but not to so many calls at once: give the client more (max_connections)"
                waiter.set_exception(NoConnection(f"none of {self.most} came free in {patience:g} s: {cure}"))

    def waited(self, waiter: Any, clock: Clock) -> None:
        """Raises if the waiter is not in."""
        if waiter.result():
            clock.spend(clock.left())
            raise NotSent(waiter.result())

    def interrupted(self, waiter: Any) -> None:
        """The waiter does not want to get in any more."""
        self.expire(waiter, 0)
        if not (waiter.cancelled() or waiter.exception() or waiter.result()):
            self.leave(self.replies, False)

    def leave(self, replies: int, silent: bool) -> None:
        """Lets the next one in. If the server was silent for the whole timeout of this call, and no call has had a
        reply since there were so many, nobody has to wait for another one to find that out."""
        with self.lock:
            why = "the server answers no other call" if silent and replies == self.replies else None
            while self.queue:
                if not (waiter := self.queue.popitem(last=False)[0]).done():  # its task may be cancelled
                    waiter.set_result(why)
                    if not why:
                        return
            self.free += 1
