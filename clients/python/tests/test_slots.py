"""Slots: how many run at once."""

import contextlib
import os
import signal
import threading
import time
import warnings
from datetime import timedelta

import pytest
import redis
from servers import until

from sluice_redis import Limit, Limits, OutcomeUnknownError, SlotLostError, UnavailableError, WaitError, _errors

MINUTE, TTL = timedelta(minutes=1), timedelta(milliseconds=1500)
KEY = "sluice:render:{acme}:cc1"


def test_at_most_n(server, both):
    render = both.limits(server.port).concurrency("render", 2, MINUTE)
    (first, granted), (second, _), (third, denied) = (render.try_acquire("acme") for _ in range(3))
    assert granted and first and second and third is None and timedelta() < denied.wait <= MINUTE
    assert render.peek("acme").remaining == 0
    first.release()
    first.release()
    assert render.peek("acme").remaining == 1
    with second:
        pass
    assert not server.client.exists(KEY)
    assert both.limits(server.port).concurrency("none", 0, MINUTE).try_acquire("acme")[0] is None


def test_it_renews_itself(server, both):
    render = both.limits(server.port).concurrency("render", 1, TTL)
    with render.acquire("acme") as slot:
        began = server.client.zrange(KEY, 0, -1, withscores=True)[0][1]
        until(lambda: server.client.zrange(KEY, 0, -1, withscores=True)[0][1] > began + 900000)
        assert slot.lost is None and render.try_acquire("acme")[0] is None


def test_acquire_waits(server, both):
    render = both.limits(server.port).concurrency("render", 1, MINUTE)
    held, got = render.acquire("acme"), []
    thread = threading.Thread(target=lambda: got.append(render.acquire("acme", max_wait=MINUTE)))
    thread.start()
    with pytest.raises(WaitError, match="render: no slot came free within max_wait 50ms"):
        render.acquire("acme", max_wait=timedelta(milliseconds=50))
    held.release()
    thread.join(20)
    got[0].release()
    with pytest.raises(WaitError, match="would never end"):
        both.limits(server.port).concurrency("none", 0, MINUTE).acquire("acme")


@pytest.mark.parametrize("policy", ["error", "deny"])
def test_acquire_in_an_outage(server, both, policy):
    """It ends with its max_wait, although Redis has longer to answer, and does not say that there is no slot."""
    short, long = timedelta(milliseconds=200), timedelta(seconds=10)
    warm, cold = (both.limits(server.port, timeout=long).concurrency("render", 1, MINUTE, policy) for _ in "ab")
    warm.peek("acme")
    with server.frozen():
        began = time.monotonic()
        for render in (warm, cold):
            with pytest.raises((UnavailableError, OutcomeUnknownError)):
                render.acquire("acme", max_wait=short)
        assert time.monotonic() - began < 5


def test_lost(server, both):
    render, lost = both.limits(server.port).concurrency("render", 1, TTL), []
    slot = render.acquire("acme", on_lost=lost.append)
    render.reset("acme")
    until(lambda: lost)
    assert lost == [slot.lost] and "render: slot lost: the server has no lease of it" == str(slot.lost)
    with pytest.raises(SlotLostError):
        slot.release()
    with pytest.raises(SlotLostError), render.acquire("acme") as slot:
        render.reset("acme")
        until(lambda: slot.lost)
    with pytest.raises(ZeroDivisionError), render.acquire("acme") as slot:  # the work's own error goes first
        render.reset("acme")
        until(lambda: slot.lost)
        raise ZeroDivisionError


def test_lost_by_a_frozen_server(server, both):
    """It is lost before the lease ends, by this process's clock."""
    limits = both.limits(server.port, timeout=timedelta(seconds=1))
    slot = limits.concurrency("render", 1, TTL).acquire("acme")
    kept = limits.concurrency("kept", 1, TTL, on_failure="open").acquire("acme")
    with server.frozen():
        began = time.monotonic()
        until(lambda: slot.lost)
        assert time.monotonic() - began < 5
        assert limits.concurrency("new", 1, TTL, on_failure="open").try_acquire("acme")[1].degraded
        with pytest.raises((UnavailableError, OutcomeUnknownError)):
            limits.concurrency("new", 1, TTL).try_acquire("acme")
        assert kept.lost is None, "fail open keeps it"
    until(lambda: server.client.zcard(KEY) == 0)


def test_release_is_tried_again(proxy, server, caplog, both):
    """Leaving the block does not raise if Redis does not answer, and the slot is free as soon as it does."""
    render = both.limits(proxy.port).concurrency("render", 1, MINUTE)
    for error in (ZeroDivisionError, None):
        proxy.down = False
        caplog.clear()
        _errors.logged.clear()
        with contextlib.ExitStack() as stack:
            if error:
                stack.enter_context(pytest.raises(error))
            stack.enter_context(render.acquire("acme"))
            proxy.cut()
            if error:
                raise error
        assert server.client.zcard(KEY) == 1 and caplog.messages[0].startswith("render: a slot is not released yet: ")
        proxy.down = False
        until(lambda: server.client.zcard(KEY) == 0)
    slot = render.acquire("acme")
    proxy.cut()
    with pytest.raises((UnavailableError, OutcomeUnknownError)):
        slot.release()


def test_fork(server):
    """A slot is its process's: a child neither releases nor renews it. It has breakers and locks of its own."""
    limits = Limits(redis.Redis(port=server.port))
    slot = limits.concurrency("render", 2, MINUTE).acquire("acme")
    ((_, gate, _),) = limits._driver.pools.values()
    free, gate.free = gate.free, 0  # as if all connections were in use: what a child gets of them is never given back
    (state,) = limits._core.caller.states.values()
    state.failures, state.silent, state.probing = 9, 0.0, time.monotonic()  # as if another thread probed in an outage
    limits._core.buckets.locks[os.getpid()].acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads, and a fork
        child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            limits._core.buckets.decide("key", [Limit(1, MINUTE)], 1, 1, 0)
            with slot:
                granted = limits.list_log("codes", 1, MINUTE).allow("ada").granted
            os._exit(0 if granted else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    gate.free, state.failures, state.probing = free, 0, 0.0
    assert server.client.zcard(KEY) == 1 and not limits.list_log("codes", 1, MINUTE).allow("ada").granted
    slot.release()
    assert server.client.zcard(KEY) == 0


def test_a_lost_reply_leaves_no_slot(proxy, server, both):
    """The package asks again under the same id: one slot is taken, and it goes with its release."""
    render = both.limits(proxy.port).concurrency("render", 2, MINUTE)
    render.peek("acme")
    proxy.mode = "close"
    with render.acquire("acme"):
        assert proxy.eaten == 1 and server.client.zcard(KEY) == 1
        proxy.mode = "close"
    assert proxy.eaten == 2 and server.client.zcard(KEY) == 0


def test_a_slot_after_a_lost_reply_is_kept(proxy, server, both):
    """What the lost call may have taken is released only if no slot is granted later."""
    render = both.limits(proxy.port, timeout=timedelta(seconds=1)).concurrency("render", 2, MINUTE)
    render.peek("acme")
    proxy.mode = "keep"
    with render.acquire("acme", max_wait=MINUTE):
        assert proxy.eaten == 1
        seen_until = time.monotonic() + 1  # a release in the background comes after 0.25 s
        while time.monotonic() < seen_until:
            assert server.client.zcard(KEY) == 1


def test_an_abandoned_acquire_leaves_no_slot(proxy, server):
    short = timedelta(seconds=1)
    render = Limits(redis.Redis(port=proxy.port), timeout=short).concurrency("render", 2, MINUTE)
    render.peek("acme")
    proxy.mode = "keep"
    with pytest.raises(OutcomeUnknownError):
        render.try_acquire("acme")
    assert proxy.eaten == 1
    until(lambda: server.client.zcard(KEY) == 0)
