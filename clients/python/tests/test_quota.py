"""Quotas: periods of a calendar, and what they hold."""

import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
import redis
from servers import ROOT

from sluice_redis import ArgumentError, Limits, Local, UnavailableError, WaitError
from sluice_redis._quota import moments
from sluice_redis.http import headers_of

DAY = timedelta(days=1)
PERIODS = json.loads((ROOT / "loader" / "testdata" / "periods.json").read_text())


@pytest.mark.parametrize("case", PERIODS, ids=lambda case: case["name"])
def test_periods(case):
    """The table of the Go loader."""
    want = [datetime.fromisoformat(at).timestamp() * 1e6 for at in case["moments"]]
    got = [moments(case["period"], ZoneInfo(case["zone"]), at / 1e6) for at in want[1:2]]
    got += [moments(case["period"], ZoneInfo(case["zone"]), datetime.fromisoformat(case["at"]).timestamp())]
    assert got == [want, want]


@pytest.fixture
def limits(server):
    limits = Limits(server.client)
    yield limits
    limits.close()


def test_quota(limits):
    now = datetime.now(timezone.utc).replace(microsecond=0)
    month = now - 10 * DAY, now + 20 * DAY
    quota = limits.quota("exports", 10, period=month)
    d = quota.allow_n("ada", 4)
    assert (d.granted, d.remaining, d.limit.window, d.period_begin, d.period_end) == (True, 6, 30 * DAY, *month)
    assert d.now + d.reset_after == month[1]
    assert headers_of(quota, d)[0] == ("RateLimit-Policy", '"exports";q=10;w=2592000')
    denied = limits.quota("exports", 10, period=month).allow_n("ada", 7)
    assert not denied and denied.now + denied.wait == month[1]
    with pytest.raises(WaitError):
        quota.wait("ada", 7, max_wait=DAY)
    assert (quota.give_back("ada", d, 3), quota.peek("ada").remaining) == (3, 9)
    over, fits = quota.report("ada", 10), limits.quota("exports", 11, month).report("ada", 0)
    assert not over and over.now + over.wait == month[1] and fits and not fits.wait and fits.permits == 0
    quota.reset("ada")
    assert quota.peek("ada").remaining == 10


def test_another_period(limits):
    """What is over is not given back, and the next period begins empty."""
    now = datetime.now(timezone.utc)
    first = limits.quota("bill", 3, (now - 2 * DAY, now + DAY))
    granted = first.allow_n("ada", 3)
    second = limits.quota("bill", 3, (now - DAY, now + DAY))
    assert second.allow("ada").remaining == 2 and second.give_back("ada", granted) == 0


def test_calendar(limits):
    d = limits.quota("month", 5, "month", zone="Europe/Berlin").allow("ada")
    begin, end = (at.astimezone(ZoneInfo("Europe/Berlin")) for at in (d.period_begin, d.period_end))
    assert (begin.day, begin.hour, end.day, end.hour) == (1, 0, 1, 0) and begin <= d.now < end
    assert limits.quota("day", 5, "day").allow("ada").period_begin.hour == 0


def test_without_redis():
    gone = Limits(redis.Redis(port=1), on_failure="open").quota("x", 3, "day")
    assert gone.allow("ada").degraded
    with pytest.raises(UnavailableError):
        gone.report("ada", 1)


def test_mistakes():
    limits, now = Limits(redis.Redis(port=1)), datetime.now(timezone.utc)
    for arguments, text in (
        ((-1, "day"), "x: permits -1: want 0 or more"),
        ((10**12 + 1, "day"), "x: 1000000000001 permits: quota holds 1000000000000"),
        ((1, "hour"), "x: period 'hour': want \"day\", \"week\", \"month\", \"year\", or (begin, end)"),
        ((1, (datetime(2026, 1, 1), now)), "x: period tuple: want \"day\", "),
        ((1, (now, now)), "x: bad period: want a begin since 1970 and a later end"),
        ((1, (now,)), "x: bad period: want a begin since 1970 and a later end"),
        ((1, "day", "Berlin"), "x: zone 'Berlin': want a zone's name, as \"Europe/Berlin\""),
        ((1, "day", 5), "x: zone 5: want a zone's name"),
        ((1, (now, now + DAY), "UTC"), "x: zone 'UTC': want none: your own period has its begin and its end"),
        ((1, "day", None, Local(1)), "x: on_failure Local(share=1): want \"error\", \"open\" or \"deny\""),
    ):  # fmt: skip
        with pytest.raises(ArgumentError) as wrong:
            limits.quota("x", *arguments)
        assert str(wrong.value).startswith(text)
    zero = limits.quota("x", 0, "day")
    assert not zero.allow("ada") and not zero.report("ada", 5)
    with pytest.raises(ArgumentError, match="n 1000000000001: want 0 to 1000000000000"):
        limits.quota("x", 1, "day").report("ada", 10**12 + 1)
