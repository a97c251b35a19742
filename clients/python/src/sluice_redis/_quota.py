"""The periods of a calendar, and the limiter that counts in them. Without input and output, as _limiters."""

import functools
import time
from bisect import bisect_right
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any, Callable, Dict, Literal, Optional, Sequence, Tuple, Union
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ._core import Steps
from ._errors import ArgumentError, shown
from ._limiters import OnFailure, Returner, Setup
from ._types import DAY_US, EPOCH, SECOND_US, Decision, Limit, check_int, duration, micros

Period = Union[Literal["day", "week", "month", "year"], Tuple[datetime, datetime]]
"""A period of the calendar (a week begins on Monday), or the begin and the end of one of your own."""
_NAMES = ("day", "week", "month", "year")
_DAY = timedelta(days=1)


def _offset(at: int, zone: tzinfo) -> int:
    return (datetime.fromtimestamp(at, zone).utcoffset() or timedelta()) // timedelta(seconds=1)


def _midnight(day: date, zone: tzinfo) -> int:
    """The begin of a day, in seconds since 1970. It is later than 0:00 where the clocks go forward over it."""
    wall = (day - EPOCH.date()) // _DAY * 86400
    at = wall - _offset(wall - _offset(wall, zone), zone)  # as Go's time.Date
    return at if datetime.fromtimestamp(at, zone).date() == day else wall - _offset(at, zone)


def _first_day(period: str, day: date, k: int) -> date:
    """The first day of the k-th period after that of a day."""
    if period == "day":
        return day + k * _DAY
    if period == "week":
        return day + (7 * k - day.weekday()) * _DAY
    months = 12 * (day.year + k) if period == "year" else 12 * day.year + day.month - 1 + k
    return date(months // 12, months % 12 + 1, 1)


@functools.lru_cache(maxsize=1000)
def _begins(period: str, zone: tzinfo, day: date) -> Sequence[int]:
    """The begins of the periods around a day: a day that a zone left out has none of its own."""
    return sorted({_midnight(_first_day(period, day, k), zone) for k in range(-3, 4)})


def moments(period: str, zone: tzinfo, at: float) -> Sequence[int]:
    """The begins of three periods, of which the second is that of a time, and the end of the third; in microseconds.
    They are those of the Go loader."""
    begins = _begins(period, zone, datetime.fromtimestamp(at, zone).date())
    second = bisect_right(begins, at) - 1
    return [begin * SECOND_US for begin in begins[second - 1 : second + 3]]


def _zone(name: str, zone: object) -> tzinfo:
    if zone in (None, "UTC"):
        return timezone.utc
    try:
        return ZoneInfo(zone if isinstance(zone, str) else "")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        want = 'a zone\'s name, as "Europe/Berlin"; where the system has no zones, install tzdata'
        raise ArgumentError(name, "zone", shown(zone), want) from None


def _own(name: str, period: object) -> Sequence[int]:
    """The moments of a caller's own period: what is asked before or after it counts in one of 366 days beside it."""
    if not isinstance(period, (tuple, list)) or not all(isinstance(at, datetime) and at.tzinfo for at in period):
        want = '"day", "week", "month", "year", or (begin, end) as two datetimes with a time zone'
        raise ArgumentError(name, "period", shown(period), want)
    begin, end = [micros(at - EPOCH) for at in period] if len(period) == 2 else (0, 0)
    if not 0 < begin < end:
        raise ArgumentError(name, "period", "", "a begin since 1970 and a later end")
    return [max(0, begin - 366 * DAY_US), begin, end, end + 366 * DAY_US]


class Quota(Returner):
    """What a period of the calendar holds: a day, a month in Berlin, from the 15th to the 14th. Use it where a contract
    says so: around the end of a period up to twice the limit may be granted at once. Redis's clock chooses the period.
    162 bytes in all; up to 10^12 permits. It cannot book: wait sleeps until the period ends, and asks again."""

    script_name, title, return_name = "quota_v1", "quota", "quota_return_v1"
    books = may_be_local = False

    def __init__(
        self, setup: Setup, name: str, permits: int, period: Period, zone: Optional[str],
        on_failure: Optional[OnFailure],
    ) -> None:
        super().__init__(setup, name, [Limit(permits, timedelta())], on_failure)
        if isinstance(period, str) and period in _NAMES:
            self.moments: Callable[[float], Sequence[int]] = functools.partial(moments, period, _zone(name, zone))
            return
        own = _own(name, period)
        if zone is not None:
            raise ArgumentError(name, "zone", shown(zone), "none: your own period has its begin and its end")
        self.moments = lambda at: own

    def _check_window(self, limit: Limit) -> None:
        """A period is checked by itself."""

    def _args(self, n: int, ahead: int, id: str, reported: int = 0) -> Tuple[bytes, ...]:
        times = zip(("first", "second", "third", "after"), self.moments(time.time()))
        return self.script.words({"limit": self.limit.permits, "permits": n, "reported": reported, **dict(times)})

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        begin, end = (EPOCH + timedelta(microseconds=at) for at in more[:2])
        return {"limit": Limit(self.limit.permits, end - begin), "period_begin": begin, "period_end": end}

    def report(self, subject: str, n: int) -> Steps[Decision]:
        """Charges n permits, 0 to 10^12, whatever the period holds: a cost that is known only when the work is done.
        granted says that it holds no more than the limit; otherwise wait is the time until one permit comes free. It is
        sent once, and never left to on_failure: after an OutcomeUnknownError it may have been charged. Cost: one round
        trip."""
        keys = self.keys(subject, "")
        if not self.limit.permits:
            return self._never()
        check_int(self.name, "n", n, 0, self.script.maximum("reported"))
        args = self._args(0, 0, "", n)
        reply = yield from self.setup.caller.call(self.script, keys, args, self.timeout, look=n == 0)
        fits = reply[7] <= self.limit.permits
        return replace(self._decision(reply, 0, keys[0], ""), granted=fits, wait=duration(0 if fits else reply[2]))
