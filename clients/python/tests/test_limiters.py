"""What each limiter does, against a server."""

import asyncio
import pickle
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
import redis
from servers import until

from sluice_redis import (
    NEVER, ArgumentError, Decision, ExceedsLimitError, Limit, Limits, Local, NotReservedError, OutcomeUnknownError,
    StateError, UnavailableError, WaitError, _manifest, aio, http, redis_key,
)  # fmt: skip

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=s) for s in (1, 60, 3600, 86400))


@pytest.fixture
def limits(server, both):
    return both.limits(server.port)


def test_allow_and_peek_and_reset(limits):
    codes = limits.list_log("send-code", permits=3, window=MINUTE)
    decisions = [codes.allow("ada") for _ in range(4)]
    assert [d.granted for d in decisions] == [True, True, True, False]
    assert [d.remaining for d in decisions] == [2, 1, 0, 0]
    denied = decisions[3]
    assert MINUTE - 10 * SECOND < denied.wait <= MINUTE and denied.retry_after_seconds in range(50, 61)
    assert abs(denied.now - datetime.now(timezone.utc)) < 10 * SECOND
    assert (denied.limit, denied.key, denied.permits) == (Limit(3, MINUTE), "", 0)
    assert not codes.peek("ada").granted and codes.peek("bob").remaining == 3
    assert codes.peek("ada").retry_after_seconds in range(50, 61) and codes.peek("bob").retry_after_seconds == 0
    codes.reset("ada")
    assert codes.allow_n("ada", 3).granted
    with pytest.raises(AttributeError):
        denied.granted = True


def test_limit_of_zero_is_a_denial_without_redis():
    limits = Limits(redis.Redis(port=1))
    d = limits.gcra("export", 0, MINUTE).allow("ada")
    assert (d.granted, d.wait, d.retry_after_seconds) == (False, NEVER, 366 * 86400)
    with pytest.raises(WaitError, match="would never end"):
        limits.list_log("export", 0, MINUTE).wait("ada")


def test_give_back(limits):
    for codes in (limits.list_log("ll", 3, MINUTE), limits.zset_log("zl", 3, MINUTE),
                  limits.slice_ring("sr", [Limit(3, MINUTE)])):  # fmt: skip
        d = codes.allow_n("ada", 3)
        assert codes.give_back("ada", d, 2) == 2
        assert codes.peek("ada").remaining == 2
        with pytest.raises(ArgumentError, match="n 4: want up to 3, as many as were granted"):
            codes.give_back("ada", d, 4)
        with pytest.raises(ArgumentError, match="want one of this limiter about this subject") as wrong:
            codes.give_back("bob", d)
        assert codes.give_back("ada", codes.allow_n("ada", 3)) == 0, "a denial has nothing to give back"
        error = pickle.loads(pickle.dumps(wrong.value))  # as it comes from another process
        assert (type(error), str(error), error.want) == (ArgumentError, str(wrong.value), wrong.value.want)


def test_a_window_is_a_ring_of_its_own(limits):
    first, later = (limits.slice_ring("plan", [Limit(5, MINUTE), Limit(5, window)]) for window in (HOUR, DAY))
    left = lambda ring: [state.remaining for state in sorted(ring.peek("ada").windows, key=lambda s: s.limit.window)]
    granted = first.allow_n("ada", 3)
    assert later.allow_n("ada", 2) and (left(first), left(later)) == ([0, 2], [0, 3])
    assert pickle.loads(pickle.dumps(granted)) == granted != replace(granted, rings=())
    assert later.give_back("ada", pickle.loads(pickle.dumps(granted)), 2) == 2
    assert (left(first), left(later)) == ([2, 4], [2, 3])
    with pytest.raises(ArgumentError, match="want one of this limiter about this subject"):
        limits.list_log("plan", 5, MINUTE).give_back("ada", granted)
    first.reset("ada")
    assert (left(first), left(later)) == ([5, 5], [5, 3])


def test_wait_books_in_order(limits):
    work = limits.list_log("work", permits=2, window=timedelta(milliseconds=200))
    granted = [work.wait("acme") for _ in range(6)]
    times = [d.now + d.wait for d in granted]
    assert all(late - early >= timedelta(milliseconds=200) for early, late in zip(times, times[2:]))
    slow = limits.list_log("slow", permits=2, window=MINUTE)
    slow.wait("acme", 2)
    with pytest.raises(WaitError, match=r"slow: wait\(n=2\) of .* would exceed max_wait 1s"):
        slow.wait("acme", 2, max_wait=SECOND)


def test_wait_without_booking(limits):
    ring = limits.slice_ring("ring", [Limit(1, timedelta(milliseconds=60))])
    first, second = ring.wait("acme"), ring.wait("acme", max_wait=5 * SECOND)
    assert second.now - first.now >= timedelta(milliseconds=60)


def test_reservation(limits):
    codes = limits.list_log("codes", permits=1, window=MINUTE)
    assert codes.reserve("ada").delay == timedelta()
    booked = codes.reserve("ada")
    assert booked and booked.ok and 50 * SECOND < booked.delay <= MINUTE
    booked.cancel()
    booked.cancel()
    assert codes.peek("ada").reset_after <= MINUTE, "the booking went back"
    refused = codes.reserve("ada", max_wait=SECOND)
    assert not refused and refused.delay == NEVER
    with pytest.raises(WaitError):
        refused.wait()
    rate = limits.gcra("rate", 1, MINUTE)
    rate.allow("ada")
    with pytest.raises(ArgumentError, match="rate: gcra cannot give permits back, list_log and zset_log can"):
        rate.reserve("ada").cancel()


def test_token_bucket(limits):
    sms = limits.token_bucket("sms", permits=1, window=HOUR, client_id="web-1")
    assert sms.allow("acme").granted and not sms.allow("acme").granted
    sms.set_rate("acme", Limit(3, HOUR))
    d = sms.allow("acme")
    assert d.granted and d.limit == Limit(3, HOUR)
    sms.reset("acme")
    assert sms.peek("acme").limit == Limit(3, HOUR), "the stored rate stays"
    with pytest.raises(ArgumentError, match="permits 0: want 1 or more"):
        sms.set_rate("acme", Limit(0, HOUR))


def test_budget(limits):
    tokens = limits.budget("tokens", [Limit(1000, MINUTE)])
    assert tokens.reserve("acme", "r1", 400).remaining == 600
    assert tokens.reserve("acme", "r1", 400).remaining == 600, "the same id is charged once"
    tokens.settle("acme", "r1", 100)
    tokens.settle("acme", "r1", 100)
    assert tokens.peek("acme").remaining == 900
    tokens.charge("acme", "r2", 1500)
    d = tokens.reserve("acme", "r3", 1)
    assert not d.granted and d.remaining == 0, "a debt"
    with pytest.raises(NotReservedError, match="tokens: id 'r4' is not reserved, or no longer after 15m"):
        tokens.settle("acme", "r4", 0)
    tokens.charge("acme", "r5", 0)
    tokens.settle("acme", "r5", 0)  # it is known, as settled
    with pytest.raises(ExceedsLimitError, match=r"tokens: reserve\(estimate=1001\) exceeds limit 1000"):
        tokens.reserve("acme", "r6", 1001)


def test_state_error(limits, server):
    server.client.set("sluice:codes:{ada}:ll1", "no list")
    codes = limits.list_log("codes", 1, MINUTE, on_failure="open")
    with pytest.raises(StateError, match="list_log_v1: WRONGTYPE") as broken:
        codes.allow("ada")
    assert (broken.value.code, broken.value.keys) == ("WRONGTYPE", ("sluice:codes:{ada}:ll1",))
    codes.reset("ada")
    assert codes.allow("ada").granted
    server.client.rpush("sluice:codes:{bob}:ll1", "x")
    with pytest.raises(StateError, match="BADSTATE"):
        codes.allow("bob")


def test_all(proxy, server, both):
    """In one round trip, and what is given back in another one."""
    limits = both.limits(proxy.port, timeout=10 * SECOND)
    user, team = limits.list_log("user", 5, MINUTE), limits.slice_ring("team", [Limit(5, MINUTE)])
    orders, month = limits.zset_log("orders", 5, MINUTE), limits.quota("month", 9, "month")

    def all_of(*parts):
        proxy.requests = 0
        return limits.all(parts)

    for script in _manifest.scripts().values():
        server.client.script_load(script.source())
    all_of((user, "ada", 2), (team, "acme"), (orders, "ada", 3), (month, "ada"))
    d = all_of((user, "ada"), (team, "acme"), (orders, "ada"), (month, "ada"))
    assert d.granted and d.remaining == 1 and [part.permits for part in d.parts] == [1] * 4 and proxy.requests == 1
    assert d.parts[1].rings and (d.rings, d.key, d.id, d.permits) == ((), "", "", 0), "its parts have them"
    assert user.give_back("ada", d.parts[0]) == 1
    d = all_of((orders, "ada"), (month, "ada", 9), (user, "ada", 4), (team, "acme", 4))
    assert limits.flush() and proxy.requests == 2, "a question, and the returns"
    assert (d.granted, d.parts, d.limit) == (False, (), month.peek("ada").limit), "the longest wait"
    assert [one.peek("ada").remaining for one in (user, orders)] == [3, 1] and team.peek("acme").remaining == 3
    d = all_of((user, "ada"), (limits.list_log("none", 0, MINUTE), "ada"))
    assert not d.granted and d.wait == NEVER and proxy.requests == 0, "nothing is charged for a certain denial"


def test_all_fails(proxy, server, both):
    """A reply is lost: what was granted goes back, and what may have been, where an id says so."""
    limits = both.limits(proxy.port, timeout=SECOND)
    user, team = limits.list_log("user", 5, MINUTE), limits.list_log("team", 5, MINUTE)
    orders, denied = (limits.zset_log(policy, 5, MINUTE, on_failure=policy) for policy in ("error", "deny"))
    user.peek("ada"), orders.peek("ada")
    proxy.mode = "first"
    with pytest.raises(OutcomeUnknownError):
        limits.all([(user, "ada", 2), (orders, "ada", 3), (denied, "ada"), (team, "ada")])
    assert limits.flush() and proxy.eaten == 1
    assert server.client.keys() == [b"sluice:team:{ada}:ll1"], "Redis may have charged it"
    server.client.script_flush()
    assert limits.all([(user, "ada", 2), (orders, "ada", 3)]).granted, "each is loaded"


def test_all_in_a_cluster(cluster):
    """A round trip to each node. If one is frozen, what the others granted goes back."""
    limits = Limits(redis.RedisCluster(host="127.0.0.1", port=cluster.port), timeout=SECOND)
    user = limits.list_log("user", 5, MINUTE)
    parts = [(user, str(i)) for i in range(20)]
    assert limits.all(parts).granted
    requests = [proxy.requests for proxy in cluster.proxies]
    assert limits.all(parts).granted
    assert [proxy.requests for proxy in cluster.proxies] == [before + 1 for before in requests]
    frozen = cluster.node_of("sluice:user:{0}:ll1")[0]
    with frozen.frozen():
        with pytest.raises((OutcomeUnknownError, UnavailableError)):
            limits.all(parts)
    elsewhere = [str(i) for i in range(20) if cluster.node_of(f"sluice:user:{{{i}}}:ll1")[0] is not frozen]
    until(lambda: all(user.peek(subject).remaining == 3 for subject in elsewhere))


WRONG = {
    "a long subject": (lambda l: l.gcra("x", 1, SECOND).allow("é" * 33000), "x: subject of 66000 bytes: want 1 to"),
    "half a character": (lambda l: l.gcra("x", 1, SECOND).allow("\ud800"), "want a str that UTF-8 can hold"),
    "a share": (lambda l: l.gcra("x", 1, SECOND, on_failure=Local(1.5)), "x: on_failure Local(share=1.5): want \"err"),
    "a share of slots": (lambda l: l.concurrency("x", 1, SECOND, on_failure=Local(1)), "x: on_failure Local(share="),
    "all of nothing": (lambda l: l.all([]), "parts []: want at least one (limiter, subject, n)"),
    "all of a text": (lambda l: l.all("ab"), "parts 'ab': want a list of (limiter, subject, n)"),
    "all without a subject": (lambda l: l.all([l.list_log("x", 1, SECOND)]), "x: subject '': want 1 to 65536 bytes"),
    "all of what stays": (lambda l: l.all([(l.gcra("x", 1, SECOND), "a")]), "want one that can give back: list_log"),
    "all of others": (
        lambda l: l.all([(Limits(redis.Redis()).list_log("x", 1, SECOND), "a")]),
        "limiter x: want one that these",
    ),
    "all twice": (lambda l: l.all([(l.list_log("x", 1, SECOND), "a")] * 2), "x: subject 'a': want each limiter once"),
    "all above": (lambda l: l.all([(l.list_log("x", 1, SECOND), "a", 2)]), "x: all(n=2) exceeds limit 1"),
    "n above": (lambda l: l.list_log("x", 3, SECOND).allow_n("a", 4), "x: allow_n(n=4) exceeds limit 3"),
    "n of one call": (lambda l: l.list_log("x", 5000, SECOND).allow_n("a", 1001),
                      "exceeds limit 1000 of one call to a list_log; gcra or slice_ring"),
    "name": (lambda l: l.list_log("send code", 3, MINUTE), "limiter 'send code': want letters, digits, dot"),
    "no permits": (lambda l: l.list_log("x", -1, MINUTE), "x: permits -1: want 0 or more"),
    "float": (lambda l: l.list_log("x", 3.0, MINUTE), "x: permits 3.0: want an int"),
    "bool": (lambda l: l.list_log("x", True, MINUTE), "x: permits True: want an int"),
    "many": (lambda l: l.list_log("x", 2000000, MINUTE), "x: 2000000 permits: list_log holds 1000000; gcra or"),
    "window 0": (lambda l: l.list_log("x", 3, timedelta()), "x: window 0s: want 1ms to 366 days"),
    "below 1 us": (lambda l: l.list_log("x", 3, timedelta(microseconds=0.4)), "x: window 0s: want 1ms to 366 days"),
    "long": (lambda l: l.gcra("x", 3, 367 * DAY), "x: window 367 days: want 1ms to 366 days"),
    "seconds": (lambda l: l.list_log("x", 3, 60), "x: window 60: want a timedelta of 1ms to 366 days"),
    "burst": (lambda l: l.gcra("x", 1, 366 * DAY, burst=1000), "x: burst 1000: want up to 142 with 1 permit in 366"),
    "windows": (lambda l: l.slice_ring("x", []), "x: windows 0: want 1 to 8"),
    "slice": (lambda l: l.slice_ring("x", [Limit(1, MINUTE)], slice=timedelta(microseconds=5)), "x: slice 0.005ms:"),
    "one window twice": (lambda l: l.slice_ring("x", [Limit(2, MINUTE)] * 2), "x: windows 1m: want each window once"),
    "ring": (lambda l: l.slice_ring("x", [Limit(2, DAY)], slice=SECOND), "x: window 24h: want up to 16m39s"),
    "ttl": (lambda l: l.concurrency("x", 1, timedelta()), "x: ttl 0s: want 1ms to 366 days"),
    "slots": (lambda l: l.concurrency("x", 10001, SECOND), "x: slots 10001: want 0 to 10000"),
    "settle": (lambda l: l.budget("x", [Limit(1, SECOND)], settle_within=timedelta()), "x: settle_within 0s: want 1ms"),
    "policy": (lambda l: l.gcra("x", 1, SECOND, on_failure="closd"), "x: on_failure 'closd': want \"error\", \"open\""),
    "subject": (lambda l: l.gcra("x", 1, SECOND).allow(""), "x: subject '': want 1 to 65536 bytes"),
    "no str": (lambda l: l.gcra("x", 1, SECOND).allow(7), "x: subject 7: want a str"),
    "n": (lambda l: l.gcra("x", 1, SECOND).allow_n("a", 0), "x: n 0: want 1 or more"),
    "client id": (lambda l: l.token_bucket("x", 1, SECOND, client_id=""), "x: client_id '': want at least one"),
    "ahead": (lambda l: l.gcra("x", 1, SECOND).reserve("a", max_wait=2 * MINUTE), "x: max_wait 2m: want 0s to 1m"),
    "zset_log's id": (lambda l: l.zset_log("x", 1, SECOND).allow("a", "a|b"), "x: id 'a|b': want 1 to 128"),
    "prefix": (lambda l: Limits(redis.Redis(), "a/b").gcra("x", 1, SECOND), "x: prefix 'a/b': want letters, digits"),
    "timeout": (lambda l: Limits(redis.Redis(), timeout=timedelta()), "timeout 0s: want 1ms to 24h"),
    "policy of all": (lambda l: Limits(redis.Redis(), on_failure="no"), "on_failure 'no': want \"error\", \"open\""),
    "no client": (lambda l: Limits(None), "client NoneType: want redis.Redis or redis.RedisCluster"),
    "id": (lambda l: l.budget("x", [Limit(1, SECOND)]).reserve("a", "", 1), "x: id '': want 1 to 128 bytes"),
    "no windows": (lambda l: l.slice_ring("x", None), "x: windows None: want a list of Limit(permits, window)"),
    "one window": (lambda l: l.slice_ring("x", Limit(1, SECOND)), "x: windows Limit(permits=1, "),
    "half a window": (lambda l: l.budget("x", [(5,)]), "x: windows (5,): want Limit(permits, window)"),
    "no window": (lambda l: l.budget("x", [5]), "x: windows 5: want Limit(permits, window)"),
    "no window's length": (lambda l: l.slice_ring("x", [(5, None)]), "x: window None: want a timedelta"),
    "no name": (lambda l: l.gcra(None, 1, SECOND), "limiter None: want letters, digits"),
    "policy's type": (lambda l: l.gcra("x", 1, SECOND, on_failure=[]), "x: on_failure []: want \"error\", \"open\""),
    "per client": (lambda l: l.token_bucket("x", 1, SECOND, per_client="a"), "x: per_client 'a': want a bool"),
    "nothing to give back": (lambda l: l.list_log("x", 1, SECOND).give_back("a", None), "x: decision None: want a Dec"),
    "a count to give back": (lambda l: l.list_log("x", 1, SECOND).give_back("a", Decision(True, Limit(1, SECOND)), "1"),
                             "x: n '1': want an int"),
    "on_lost": (lambda l: l.concurrency("x", 1, SECOND).try_acquire("a", on_lost=5), "x: on_lost 5: want a function"),
    "max_wait": (lambda l: l.concurrency("x", 1, SECOND).acquire("a", max_wait=5), "x: max_wait 5: want a timedelta"),
    "longest wait": (lambda l: l.gcra("x", 1, SECOND).wait("a", max_wait=5), "x: max_wait 5: want a timedelta"),
    "rate": (lambda l: l.token_bucket("x", 1, SECOND).set_rate("a", ("5", SECOND)), "x: permits '5': want an int"),
    "key's part": (lambda l: redis_key("sluice", "x", "a", "ll1", 5), "x: part 5: want a str"),
    "key's subject": (lambda l: redis_key("sluice", "x", None, "ll1"), "x: subject None: want a str"),
    "key's state": (lambda l: redis_key("sluice", "x", "a", None), "x: state None: want letters"),
    "actual": (lambda l: l.budget("x", [Limit(1, SECOND)]).settle("a", "i", -1), "x: actual -1: want 0 to 1000000000"),
}


@pytest.mark.parametrize("make, text", WRONG.values(), ids=WRONG)
def test_wrong_arguments(make, text):
    with pytest.raises(ArgumentError) as wrong:
        make(Limits(redis.Redis(port=1)))
    assert text in str(wrong.value)


def test_no_message_shows_a_client():
    """Its repr has the password."""

    async def made():  # old versions of redis-py need a running loop
        return redis.asyncio.Redis(password="s3cret")

    url, client, asynchronous = "redis://:s3cret@host", redis.Redis(password="s3cret"), asyncio.run(made())
    limits = Limits(redis.Redis(port=1))
    for make in (
        lambda: Limits(url),
        lambda: Limits(asynchronous),
        lambda: aio.Limits(client),
        lambda: Limits(client, client).list_log("x", 1, SECOND),
        lambda: limits.list_log(client, 1, SECOND),
        lambda: limits.list_log("x", client, SECOND),
        lambda: limits.list_log("x", 1, SECOND, on_failure=Local(client)),
        lambda: limits.slice_ring("x", client),
        lambda: limits.slice_ring("x", [client]),
        lambda: limits.list_log("x", 1, SECOND).allow(client),
        lambda: limits.all({"client": client}),
        lambda: limits.all([([client], "a")]),
        lambda: http.WSGI(client, limits),
        lambda: http.WSGI(print, client),
        lambda: http.key_by_ip([client]),
    ):
        with pytest.raises(ArgumentError) as wrong:
            make()
        assert "s3cret" not in f"{wrong.value} {wrong.value.value}"
    want = r"want redis.asyncio.Redis or redis.asyncio.RedisCluster \(sluice_redis.Limits"
    with pytest.raises(ArgumentError, match="^client redis.client.Redis: " + want):
        aio.Limits(client)
