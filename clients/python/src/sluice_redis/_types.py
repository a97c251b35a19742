"""What callers pass and get: limits, decisions, keys, durations."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ._errors import ArgumentError, shown

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND_US, SECOND_US, DAY_US = 1000, 1_000_000, 86_400_000_000
MAX_BOOKING_US = 60 * SECOND_US  # how far ahead the scripts book
ID_BYTES = 128
_NEVER_US = 2**62 // 1000
_ZERO, NEVER = timedelta(), timedelta(microseconds=_NEVER_US)
"""The wait of a denial that waiting does not help, because the limit is 0: 146 years."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LIMITER = re.compile(r"[A-Za-z0-9._/-]+")
_ESCAPED = re.compile("[%{}]")
_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Limit(NamedTuple):
    """How many permits a subject may have in any window. With 0 permits everything is denied without asking Redis.

    window is 1 ms to 366 days, of a slice_ring and a budget up to 999 days. burst is for gcra only: how many permits
    may be taken at once; 0 means as many as permits.
    """

    permits: int
    window: timedelta
    burst: int = 0


@dataclass(frozen=True)
class WindowState:
    """The state of one window of a slice_ring or a budget after a decision."""

    limit: Limit
    remaining: int  # permits that this window would grant now
    reset_after: timedelta  # until it is empty, at most
    counts_for: timedelta = timedelta()  # how long a permit counts in it, at most: up to a slice longer; 0: the window


Rings = Tuple[Tuple[int, int], ...]


@dataclass(frozen=True)
class Decision:
    """The answer of a limiter. Its times are by the server's clock, to the microsecond. In a test, build one with
    fields by name: others may be added."""

    granted: bool
    """All permits that were asked for were granted. A peek grants nothing."""
    limit: Limit
    """What it was decided by: of a token_bucket the stored rate, of a slice_ring the tightest window, of a quota the
    length of the period."""
    counts_for: timedelta = timedelta()
    """How long a permit counts, at most: of a slice_ring up to a slice longer than the window. 0 is the window."""
    remaining: int = 0
    """Permits that could be granted now. 0 while permits are booked ahead."""
    wait: timedelta = timedelta()
    """Granted: hold off this long before acting (0 unless booked ahead). Denied: until the permits come free, if no one
    else asks; NEVER if the limit is 0. Of a peek: until one permit comes free."""
    reset_after: timedelta = timedelta()
    """Until the subject has its whole limit again, if no one asks."""
    now: Optional[datetime] = None
    """The server's clock at the decision. None if no server decided."""
    permits: int = 0
    """Permits that were granted: as many as were asked for, or 0."""
    windows: Tuple[WindowState, ...] = ()
    """The windows of a slice_ring or a budget that has several, the tightest first."""
    key: str = ""
    """Where Redis counts the permits of a grant: see give_back. Empty if Redis does not count them."""
    rings: Rings = ()
    """The windows in which a slice_ring or a budget counts the permits of a grant, in the order in which they were
    asked for: the length of a slice in microseconds, and the number of slices. See give_back."""
    period_begin: Optional[datetime] = None
    """Of a quota: the begin of the period that counts. None if Redis did not decide."""
    period_end: Optional[datetime] = None
    """Of a quota: its end, and the begin of the next one."""
    id: str = ""
    """The request id of a grant by a zset_log or a budget."""
    degraded: bool = False
    """The policy (on_failure) decided, because Redis did not."""
    cause: Optional[Exception] = None
    """Why Redis did not decide. None unless degraded."""
    parts: Tuple["Decision", ...] = ()
    """The grants of Limits.all, in the order of its parts, for give_back."""

    def __bool__(self) -> bool:
        """`if limiter.allow(subject):` asks whether it was granted."""
        return self.granted

    @classmethod
    def _of(cls, fields: Dict[str, Any]) -> "Decision":
        """One that Redis made: a call spends less on it than on __init__, which sets each field of a frozen class."""
        decision = cls.__new__(cls)
        decision.__dict__.update(fields)
        return decision

    @property
    def retry_after_seconds(self) -> int:
        """wait for the header Retry-After: whole seconds, rounded up, at most 366 days. At least 1 for a denial; of a
        peek 0 if a permit is free."""
        seconds = ceil_div(micros(min(self.wait, timedelta(days=366))), SECOND_US)
        return max(seconds, 1) if self.degraded and not self.granted else seconds


def micros(duration: timedelta) -> int:
    """A duration in microseconds."""
    return duration // MICROSECOND


def duration(us: int) -> timedelta:
    """Microseconds as a duration; NEVER for all that is longer."""
    return _ZERO if us == 0 else timedelta(microseconds=us) if us < _NEVER_US else NEVER


def ceil_div(a: float, by: float) -> int:
    """a / by, rounded up."""
    return int(-(-a // by))


def span(us: int) -> str:
    """A duration for people, and for names in headers: 1m30s, 24h, 1.5ms."""
    if abs(us) < SECOND_US:
        return f"{us / 1000:g}ms" if us else "0s"
    minutes, rest = divmod(us, 60 * SECOND_US)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // SECOND_US}.{rest % SECOND_US:06d}".rstrip("0").rstrip(".")
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes or (hours and rest) else ""]
    return "".join(parts) + (f"{seconds}s" if rest else "")


def days(us: int) -> str:
    """span, with whole days as days."""
    return f"{us // DAY_US} days" if us >= 2 * DAY_US and us % DAY_US == 0 else span(us)


def check_duration(name: str, argument: str, value: object, least: int, most: int) -> int:
    """A duration in microseconds, or an ArgumentError."""
    want = f"{span(least)} to {days(most)}"
    if not isinstance(value, timedelta):
        raise ArgumentError(name, argument, shown(value), f"a timedelta of {want}")
    if not least <= micros(value) <= most:
        raise ArgumentError(name, argument, days(micros(value)), want)
    return micros(value)


def check_int(name: str, argument: str, value: object, least: int, most: Optional[int] = None) -> int:
    """An integer in its range, or an ArgumentError. A float is not an integer, not even 3.0."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(name, argument, shown(value), "an int")
    if value < least or (most is not None and value > most):
        raise ArgumentError(name, argument, str(value), f"{least} or more" if most is None else f"{least} to {most}")
    return value


def text_size(value: object) -> Optional[int]:
    """The bytes of a text in UTF-8. None of what is no str, or has half a surrogate pair."""
    try:
        return len(value.encode()) if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def check_text(name: str, argument: str, value: object, most: Optional[int] = None, without: str = "") -> str:
    """A text that is not empty, or an ArgumentError. most is in bytes of UTF-8."""
    size = text_size(value)
    if size is None or not isinstance(value, str):
        raise ArgumentError(name, argument, shown(value), "a str that UTF-8 can hold")
    if not size or (most is not None and size > most) or (without and without in value):
        want = "at least one character" if most is None else f"1 to {most} bytes"
        want += f" without {without}" if without else ""
        raise ArgumentError(name, argument, shown(value) if size < 200 else f"of {size} bytes", want)
    return value


def check_list(name: str, argument: str, value: object, of: str) -> None:
    """Refuses what is not a list or a tuple: a text, or a single Limit."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, Limit)):
        raise ArgumentError(name, argument, shown(value), f"a list of {of}")


def check_names(prefix: object, limiter: object) -> None:
    """Refuses a prefix or a limiter's name that cannot stand in a key."""
    if not isinstance(limiter, str) or not _LIMITER.fullmatch(limiter):
        want = "letters, digits, dot, underscore, dash and slash, at least one"
        raise ArgumentError("", "limiter", shown(limiter), want)
    check_name(limiter, "prefix", prefix)


def check_name(limiter: str, argument: str, value: object) -> None:
    """Refuses a prefix or a state that cannot stand in a key."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ArgumentError(limiter, argument, shown(value), "letters, digits, dot, underscore and dash, at least one")


def escape(text: str) -> str:
    """A subject or a part as it stands in keys."""
    return text.translate(_ESCAPES) if _ESCAPED.search(text) else text


def redis_key(prefix: str, limiter: str, subject: str, state: str, *parts: str) -> str:
    """The key under which a script keeps its state for a subject: <prefix>:<limiter>:{<subject>}:<state>[:<part>]...

    Use it to inspect keys. A wrong name or an empty subject is an ArgumentError.
    """
    check_names(prefix, limiter)
    check_name(limiter, "state", state)
    check_text(limiter, "subject", subject)
    for part in parts:
        check_text(limiter, "part", part)
    return ":".join([prefix, limiter, "{" + escape(subject) + "}", state, *map(escape, parts)])
