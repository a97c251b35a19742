"""Clusters: the scripts on each node, moved slots, nodes that do not answer."""

import time
from datetime import timedelta

import pytest
import redis
from servers import until

from sluice_redis import Limits, OutcomeUnknownError, UnavailableError, _manifest

MINUTE, SHORT = timedelta(minutes=1), timedelta(milliseconds=300)
SCRIPT = _manifest.scripts()["list_log_v1"]


def cluster_client(cluster, **options):
    return redis.RedisCluster(host="127.0.0.1", port=cluster.port, **options)


@pytest.mark.parametrize("retries", ["default", "given"])
def test_cluster(cluster, both, row, retries):
    """In a cluster: loading on each node, and a lost reply."""
    options = both.retries() if retries == "given" and not both.is_async else {}
    client = both.client(cluster.port, "RedisCluster", **options)
    codes = both.limits(client).list_log("codes", 3, MINUTE)
    subjects = [f"user-{i}" for i in range(12)]
    assert [codes.allow(subject).remaining for subject in subjects] == [2] * 12
    for node in cluster.nodes:
        assert node.client.dbsize() > 0 and node.client.script_exists(SCRIPT.sha1) == [True]
    cluster.nodes[0].client.script_flush()
    assert [codes.allow(subject).remaining for subject in subjects] == [1] * 12
    key = "sluice:codes:{user-0}:ll1"
    server, proxy = cluster.node_of(key)
    proxy.mode = "close"
    with pytest.raises(OutcomeUnknownError):
        codes.allow("user-0")
    assert server.client.llen(key) == 3, "charged exactly once"
    if retries == "default" and not both.is_async:
        proxy.mode = "close"
        client.evalsha(SCRIPT.sha1, 1, key, 9, 60000000, 1, 0)
        assert server.client.llen(key) == 5, "this test is about a client that sends again"
        row["traps"].append("RedisCluster resends")


def test_cluster_smallest_user(cluster, acl):
    """A cluster's user needs +cluster|slots as well, and redis-py itself +info and +command."""
    for node in cluster.nodes:
        node.client.execute_command(*acl["use"], "+cluster|slots", "+info", "+command")
        node.client.script_load(SCRIPT.source())
    client = cluster_client(cluster, username="sluice-use", password="secret")
    codes = Limits(client, preloaded=True).list_log("codes", 3, MINUTE)
    assert all(codes.allow(f"user-{i}").granted for i in range(9))


def test_cluster_moves_a_slot(cluster):
    """MOVED and ASK are followed."""
    limits = Limits(cluster_client(cluster))
    codes, key = limits.list_log("codes", 9, MINUTE), "sluice:codes:{mover}:ll1"
    codes.allow("mover")
    source, _ = cluster.node_of(key)
    target = next(node for node in cluster.nodes if node is not source)
    slot = source.client.execute_command("CLUSTER", "KEYSLOT", key)
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
    source.client.execute_command("MIGRATE", "127.0.0.1", target.port, key, 0, 5000)
    try:
        assert codes.allow("mover").remaining == 7, "ASK"
        cluster.move(slot, source, target)
        assert codes.allow("mover").remaining == 6, "MOVED"
        assert codes.allow("mover").remaining == 5
    finally:
        target.client.flushall()
        cluster.move(slot, target, source)


def test_cluster_without_a_node(cluster):
    """Who cannot reach a node asks the others which has its slots now."""
    orders, key = Limits(cluster_client(cluster)).zset_log("orders", 9, MINUTE), "sluice:orders:{acme}:zl1"
    orders.allow("acme")
    source, proxy = cluster.node_of(key)
    target = next(node for node in cluster.nodes if node is not source)
    slot = source.client.execute_command("CLUSTER", "KEYSLOT", key)
    source.client.flushall()
    cluster.move(slot, source, target)
    proxy.cut()
    try:
        assert orders.allow("acme").remaining == 8
        assert target.client.zcard(key) == 1
    finally:
        proxy.down = False
        target.client.flushall()
        cluster.move(slot, target, source)


def test_cluster_with_a_frozen_node(cluster):
    client = cluster_client(cluster)
    codes, patient = (Limits(client, timeout=t).list_log("codes", 9, MINUTE) for t in (SHORT, 10 * MINUTE))
    keys = {subject: cluster.node_of(f"sluice:codes:{{{subject}}}:ll1")[0] for subject in map(str, range(20))}
    assert all(patient.allow(subject).granted for subject in keys)
    codes.peek("0")
    frozen = cluster.nodes[1]
    with frozen.frozen():
        began = time.monotonic()
        with pytest.raises((OutcomeUnknownError, UnavailableError)):
            codes.allow(next(subject for subject in keys if keys[subject] is frozen))
        assert time.monotonic() - began < 5
    until(lambda: all(patient.peek(subject).remaining for subject in keys))
