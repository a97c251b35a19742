"""Connections like the client's own, without its retries: what a decision is sent on is sent once."""

from typing import Any, Callable, Dict, NamedTuple, Tuple

import redis
import redis.asyncio

from ._core import Address
from ._errors import ArgumentError

# What redis-py has put among the settings of its own connections, and what would make it send again.
_LEFT_OUT = {
    "maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler", "orig_host_address",
    "orig_socket_timeout", "orig_socket_connect_timeout", "connection_pool", "response_callbacks", "retry_on_timeout",
    "retry_on_error",
}  # fmt: skip
# From 5.3 on, get_connection takes no command.
CHECKOUT: Tuple[str, ...] = () if tuple(map(int, redis.__version__.split(".")[:2])) >= (5, 3) else ("EVALSHA",)


class Own(NamedTuple):
    """What the client's own connections are made of."""

    connection_class: Any
    kwargs: Dict[str, Any]
    max_connections: int
    nodes: Tuple[Address, ...]  # of a cluster, known so far
    remap: Callable[[Address], Address]
    sentinels: Any  # the pool, if it finds its server through Sentinel

    def settings(self, no_retry: object, timeout: float) -> Dict[str, Any]:
        """The settings of connections with a timeout (in seconds) and without retries."""
        kwargs = {name: value for name, value in self.kwargs.items() if name not in _LEFT_OUT}
        config = kwargs.get("maint_notifications_config")
        if config is not None:  # a server that announces its maintenance would lengthen the timeouts
            kwargs["maint_notifications_config"] = type(config)(enabled=False)
        kwargs.update(retry=no_retry, socket_timeout=timeout, decode_responses=False, health_check_interval=0)
        if "path" not in kwargs:  # that of a Unix socket
            kwargs["socket_connect_timeout"] = timeout
        return kwargs

    def make_pool(self, pool: Any, sentinel_pool: Any, kwargs: Dict[str, Any]) -> Any:
        """A pool of connections, in which the client's max_connections holds, too."""
        kwargs.update(connection_class=self.connection_class, max_connections=self.max_connections)
        if self.sentinels is None:
            return pool(**kwargs)
        return sentinel_pool(
            self.sentinels.service_name, self.sentinels.sentinel_manager, is_master=self.sentinels.is_master,
            check_connection=self.sentinels.check_connection, **kwargs,
        )  # fmt: skip


def own_of(client: Any, asynchronous: bool) -> Own:
    """What a client's connections are made of. A client of the other kind, or none, is an ArgumentError."""
    is_async = isinstance(client, (redis.asyncio.Redis, redis.asyncio.RedisCluster))
    if is_async != asynchronous or not (hasattr(client, "connection_pool") or hasattr(client, "nodes_manager")):
        want = "redis.Redis or redis.RedisCluster"
        want = want.replace("redis.", "redis.asyncio.") if asynchronous else want
        other = "sluice_redis.Limits" if asynchronous else "sluice_redis.aio.Limits"
        raise ArgumentError("", "client", repr(client), f"{want} ({other} takes the others)")
    if hasattr(client, "nodes_manager"):
        return _own_of_cluster(client, asynchronous)
    pool = client.connection_pool
    sentinels = pool if hasattr(pool, "sentinel_manager") else None
    return Own(pool.connection_class, pool.connection_kwargs, pool.max_connections, (), _same, sentinels)


def _own_of_cluster(client: Any, asynchronous: bool) -> Own:
    manager = client.nodes_manager
    nodes = {node.name: node for node in [*manager.startup_nodes.values(), *manager.nodes_cache.values()]}
    node = next(iter(nodes.values()))
    if asynchronous:
        made_of, kwargs = node, {**client.connection_kwargs, **node.connection_kwargs}
    else:
        made_of = client.get_redis_connection(client.get_default_node()).connection_pool
        kwargs = made_of.connection_kwargs
    addresses = tuple((str(node.host), int(node.port)) for node in nodes.values())
    remap = getattr(manager, "address_remap", None) or _same
    return Own(made_of.connection_class, kwargs, made_of.max_connections, addresses, remap, None)


def _same(address: Address) -> Address:
    return address
