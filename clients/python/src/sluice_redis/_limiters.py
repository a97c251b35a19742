"""The limiters, without input and output: their methods are generators for a driver."""

import math
import secrets
import time
from datetime import timedelta
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._core import Caller, Sleep, Steps
from ._errors import (
    ArgumentError, BusyError, ExceedsLimitError, OutcomeUnknownError, SluiceError, UnavailableError, WaitError, helps,
    shown, warn,
)  # fmt: skip
from ._grants import give_back, wait_for
from ._local import Buckets, Local
from ._manifest import encode, packed
from ._types import (
    DAY_US, EPOCH, MAX_BOOKING_US, MILLISECOND_US, NEVER, Decision, Limit, Rings, WindowState, check_duration,
    check_int, check_names, check_text, duration, escape, micros,
)  # fmt: skip

SUBJECT_BYTES = 65536
OnFailure = Union[str, Local]
Windows = Sequence[Union[Limit, Tuple[int, timedelta]]]


class Setup:
    """What all limiters of one Limits share. later runs steps in the background."""

    def __init__(
        self, caller: Caller, later: Callable[[Steps[Any]], object], prefix: str, timeout: Optional[timedelta],
        on_failure: OnFailure,
    ) -> None:
        self.caller, self.later, self.prefix, self.on_failure = caller, later, prefix, on_failure
        self.client_id, self.buckets = new_id(), Buckets()
        check_policy("", on_failure)
        if timeout is not None:
            check_duration("", "timeout", timeout, MILLISECOND_US, DAY_US)
        self.timeout = timeout and timeout.total_seconds()


def new_id() -> str:
    """22 characters, of 128 random bits."""
    return secrets.token_urlsafe(16)


def check_policy(name: str, policy: object, may_be_local: bool = True) -> None:
    share = policy.share if isinstance(policy, Local) else None
    is_share = may_be_local and isinstance(share, (int, float)) and 0 < share <= 1
    if policy not in ("error", "open", "deny") and not is_share:
        want = '"error", "open"' + (', "deny" or Local(a share above 0, up to 1)' if may_be_local else ' or "deny"')
        said = f"Local(share={shown(share)})" if isinstance(policy, Local) else shown(policy)
        raise ArgumentError(name, "on_failure", said, want)


class Limiter:
    """What all limiters have that grant permits. A subject is a text of 1 to 65536 bytes, n a whole number. A wrong
    argument is an ArgumentError; if Redis does not decide, it is an UnavailableError or an OutcomeUnknownError."""

    script_name: ClassVar[str]
    title: ClassVar[str]
    more: ClassVar[str] = ""  # which limiters hold more
    return_name: ClassVar[str] = ""  # the script that gives back
    books = True
    has_ids = False
    may_be_local = True  # on_failure
    amount = "n"  # what callers call the permits of one call
    rings: Rings = ()  # slice and size of each window

    def __init__(self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure]) -> None:
        check_names(setup.prefix, name)
        self.setup, self.name = setup, name
        self.script = setup.caller.scripts[self.script_name]
        self.one_call = self.script.maximum("permits")
        self.last: Tuple[Tuple[int, int, str], Tuple[bytes, ...]] = (-1, 0, ""), ()
        self.state = str((self.script.entry.get("group", {}).get("keys") or self.script.entry["keys"])[0]["state"])
        self.policy = setup.on_failure if on_failure is None else on_failure
        check_policy(name, self.policy, self.may_be_local)
        self.timeout = setup.timeout or (1.0 if self.policy == "error" else 0.1)
        self.limits = [self._check_limit(self._limit(limit)) for limit in limits]
        self.limit = self.limits[0] if self.limits else Limit(0, timedelta())
        self.is_zero = any(limit.permits == 0 for limit in self.limits)
        self.most = min(self.capacity(), self.one_call)

    # What is checked when a limiter is made.

    def _limit(self, window: object) -> Limit:
        if not isinstance(window, (tuple, list)) or not 2 <= len(window) <= 3:
            raise ArgumentError(self.name, "windows", shown(window), "Limit(permits, window)")
        return Limit(*window)

    def _check_limit(self, limit: Limit) -> Limit:
        check_int(self.name, "permits", limit.permits, 0)
        check_int(self.name, "burst", limit.burst, 0)
        largest = self.script.maximum("limit", "rate", "limit_i")
        if limit.permits > largest:
            text = f"{limit.permits} permits: {self.title} holds {largest}{self.more}"
            raise ArgumentError(self.name, "permits", str(limit.permits), f"{largest} or less", text)
        self._check_window(limit)
        return limit

    def _check_window(self, limit: Limit) -> None:
        if limit.permits:
            check_duration(self.name, "window", limit.window, MILLISECOND_US, self._longest_window())
        elif not isinstance(limit.window, timedelta):
            raise ArgumentError(self.name, "window", shown(limit.window), "a timedelta")

    def _longest_window(self) -> int:
        return self.script.maximum("window", "interval")

    # How a call is made.

    def key(self, subject: str, *parts: str) -> str:
        """The subject's key."""
        check_text(self.name, "subject", subject, SUBJECT_BYTES)
        return ":".join([self.setup.prefix, self.name, "{" + escape(subject) + "}", self.state, *map(escape, parts)])

    def keys(self, subject: str, id: str) -> List[str]:
        return self.grant_keys(subject, self.rings)

    def grant_keys(self, subject: str, rings: Rings) -> List[str]:
        """The keys that a grant is counted under."""
        return [self.key(subject)]

    def values(self) -> Dict[str, object]:
        """The arguments that are the same in all calls, by their names in the manifest."""
        return {"limit": self.limit.permits, "window": micros(self.limit.window)}

    def group(self) -> Sequence[Mapping[str, object]]:
        return ()

    def capacity(self) -> float:
        """How many permits could be granted at once, as far as this process knows."""
        return self.limit.permits

    def _new_id(self) -> str:
        return new_id() if self.has_ids else ""

    def _ask(
        self, method: str, subject: str, n: int, ahead: int = 0, id: str = "", within: float = math.inf
    ) -> Steps[Decision]:
        """One decision, within so many seconds. n is 0 for a look; ahead is how far the permits may be booked, in
        microseconds."""
        keys = self.keys(subject, id)
        if self.is_zero:
            return self._never()
        if method != "peek":
            self._check_amount(method, n)
        ask = self.setup.caller.call
        try:
            args = self._args(n, ahead, id)
            reply = yield from ask(self.script, keys, args, self.timeout, self.has_ids, n == 0, id, within)
        except (UnavailableError, OutcomeUnknownError) as error:
            return self._fall_back(keys[0], n, ahead, id, error)
        return self._decision(reply, n, keys[0], id)

    def _decision(self, reply: Sequence[int], n: int, key: str, id: str) -> Decision:
        granted, remaining, wait, reset_after, now = reply[:5]
        fields = self._detail(reply[5:], reset_after, now)
        fields.update(
            granted=granted > 0, remaining=remaining, wait=duration(wait), reset_after=duration(reset_after),
            now=EPOCH + timedelta(microseconds=now),
        )  # fmt: skip
        if granted:
            fields.update(permits=n, key=key, id=id, rings=self.rings)
        return Decision._of(fields)

    def _never(self) -> Decision:
        """The denial of a limit of 0."""
        return Decision(False, next(limit for limit in self.limits if not limit.permits), wait=NEVER)

    def _args(self, n: int, ahead: int, id: str) -> Tuple[bytes, ...]:
        """The ARGV of a question. It is often that of the last one."""
        question, args = self.last
        if question != (n, ahead, id):
            args = self.script.words({**self.values(), "permits": n, "max_wait": ahead, "id": id}, self.group())
            self.last = (n, ahead, id), args
        return args

    def _check_amount(self, method: str, n: int) -> None:
        check_int(self.name, self.amount, n, 1)
        if n > self.most:
            why = f" of one call to a {self.title}{self.more}" if self.one_call < self.capacity() else ""
            text = f"{method}({self.amount}={n}) exceeds limit {self.most}{why}"
            raise ExceedsLimitError(self.name, self.amount, str(n), f"up to {self.most}", text)

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        """The limit of a decision, and the windows, from the rest of the reply."""
        return {"limit": self.limit}

    def _describe(self, states: Sequence[WindowState]) -> Dict[str, Any]:
        """The limit of a decision, and the windows."""
        return {"limit": self.limit}

    def _fall_back(self, key: str, n: int, ahead: int, id: str, error: SluiceError) -> Decision:
        """What the policy decides in place of Redis."""
        if self.policy == "error" or isinstance(error, BusyError):
            raise error
        granted, wait = self.policy == "open" and n > 0, 0
        most = [(limit.burst or limit.permits) if self.policy == "open" else 0 for limit in self.limits]
        states = [WindowState(limit, left, timedelta()) for limit, left in zip(self.limits, most)]
        if isinstance(self.policy, Local):
            outcome = self.setup.buckets.decide(key, self.limits, self.policy.share, n, ahead)
            if outcome is None:
                raise error
            granted, wait, states = outcome
        warn(self.name, f"on_failure={self.policy!r} decides", error)
        return Decision(
            granted, remaining=min(state.remaining for state in states), wait=duration(wait),
            reset_after=max(state.reset_after for state in states), permits=n if granted else 0,
            id=id if granted else "", degraded=True, cause=error, **self._describe(states),
        )  # fmt: skip

    # What callers do.

    def allow(self, subject: str) -> Steps[Decision]:
        """Asks for one permit now. Use it to refuse what is over the limit. Cost: one round trip."""
        return self._ask("allow", subject, 1, id=self._new_id())

    def allow_n(self, subject: str, n: int) -> Steps[Decision]:
        """Asks for n permits now, all or nothing. More than could ever be granted is an ExceedsLimitError."""
        return self._ask("allow_n", subject, n, id=self._new_id())

    def peek(self, subject: str) -> Steps[Decision]:
        """What could be granted now. It changes nothing: use it for dashboards and quota pages. Look at remaining: a
        peek grants nothing, so its granted is always False, and the decision is false."""
        return self._ask("peek", subject, 0)

    def reset(self, subject: str) -> Steps[None]:
        """Gives the subject its whole limit back, by removing its keys (UNLINK). Use it to unblock a customer."""
        keys = self.grant_keys(subject, self.rings)
        yield from self.setup.caller.command(packed((b"UNLINK", *map(encode, keys))), keys, self.timeout)

    def wait(self, subject: str, n: int = 1, max_wait: Optional[timedelta] = None) -> Steps[Decision]:
        """Returns when n permits may be used. Use it in workers that would rather be late than refused.

        It books the permits with one round trip and sleeps until they are due. Permits are booked in the order in which
        calls reach Redis, across all processes (slice_ring and quota, which cannot book, sleep and ask again). If that
        would take longer than max_wait (up to 366 days) it raises WaitError at once, and nothing is booked.
        With max_wait it goes on through an outage of Redis. If it is interrupted (KeyboardInterrupt, a cancelled task),
        it gives the booking back in the background where it can.
        """
        bound = math.inf if max_wait is None else check_duration(self.name, "max_wait", max_wait, 0, 366 * DAY_US) / 1e6
        return (yield from wait_for(self, subject, n, bound))


class Returner(Limiter):
    """A limiter that can take permits back: list_log, zset_log, slice_ring and quota."""

    def give_back(self, subject: str, decision: Decision, n: Optional[int] = None) -> Steps[int]:
        """Gives back n of the permits that the decision about the subject granted (all, if n is not given), and returns
        how many were given back. Use it for permits that were certainly not used.

        That is 0 if Redis did not grant them, or has removed them already. Do not give back the same permits twice. It
        is sent once: after an OutcomeUnknownError do not repeat it (the return of a whole zset_log id may be repeated).
        """
        return (yield from give_back(self, subject, decision, n))


class Reserver(Limiter):
    """A limiter that can book permits ahead: all but slice_ring and quota."""

    def reserve(self, subject: str, n: int = 1, max_wait: timedelta = timedelta(minutes=1)) -> Steps["Reservation"]:
        """Books n permits for the earliest time at which they may be used, at most max_wait (up to 60 s) ahead. Use it
        if the caller has other work to do than to sleep in wait. First come, first served: until booked permits are
        due, allow is denied to everyone. Cost: one round trip."""
        ahead = check_duration(self.name, "max_wait", max_wait, 0, MAX_BOOKING_US)
        decision = yield from self._ask("reserve", subject, n, ahead, self._new_id())
        return Reservation(self, subject, n, decision)


class Reservation:
    """A booking that reserve has made, or could not make: ask ok first."""

    def __init__(self, limiter: Limiter, subject: str, n: int, decision: Decision) -> None:
        self.limiter, self.subject, self.n, self.decision = limiter, subject, n, decision
        self.at = time.monotonic() + micros(decision.wait) / 1e6
        self.cancelled = False

    def wait(self) -> Steps[None]:
        """Returns when the permits may be used. WaitError if the reservation is not ok."""
        if not self.decision.granted:
            raise WaitError(f"{self.limiter.name}: the reservation is not ok")
        yield Sleep(max(self.at - time.monotonic(), 0))

    def cancel(self) -> Steps[None]:
        """Gives the permits back, if they are not due yet. Later bookings keep their times. gcra and token_bucket
        cannot give back: that is an ArgumentError."""
        if self.decision.granted and not self.limiter.return_name:
            text = f"{self.limiter.title} cannot give permits back, list_log and zset_log can"
            raise ArgumentError(self.limiter.name, "cancel", "", "", text)
        if not self.decision.granted or self.cancelled or self.at <= time.monotonic():
            return
        self.cancelled = True
        try:
            yield from give_back(self.limiter, self.subject, self.decision, self.n)
        except SluiceError as error:
            self.cancelled = not helps(error, self.limiter.has_ids)
            raise
