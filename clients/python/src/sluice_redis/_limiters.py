"""The limiters, without input and output: their methods are generators for a driver."""

import math
import random
import secrets
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, Callable, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ._core import Caller, Key, Sleep, Steps
from ._errors import (
    ArgumentError, BusyError, ExceedsLimitError, NotReservedError, OutcomeUnknownError, SluiceError, UnavailableError,
    WaitError, shown,
)  # fmt: skip
from ._local import Buckets, Local
from ._log import warn
from ._manifest import Script, encode
from ._types import (
    DAY_US, EPOCH, NEVER, Decision, Limit, Rings, WindowState, ceil_div, check_duration, check_int, check_list,
    check_names, check_text, days, duration, escape, micros, span,
)  # fmt: skip

MILLISECOND_US = 1000
MAX_BOOKING_US = 60_000_000  # how far ahead the scripts book
MAX_SLICES = 999  # whole slices in the longest window; the current one is the 1000th
ID_BYTES, SUBJECT_BYTES = 128, 65536
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


def check_policy(name: str, policy: object) -> None:
    share = policy.share if isinstance(policy, Local) else None
    if policy not in ("error", "open", "deny") and not (isinstance(share, (int, float)) and 0 < share <= 1):
        want = '"error", "open", "deny" or Local(a share above 0, up to 1)'
        said = f"Local(share={shown(share)})" if isinstance(policy, Local) else shown(policy)
        raise ArgumentError(name, "on_failure", said, want)


def helps(error: SluiceError, has_ids: bool) -> bool:
    """Whether another call may succeed, and cannot charge twice."""
    if isinstance(error, OutcomeUnknownError):
        return has_ids
    return isinstance(error, UnavailableError)


class Limiter:
    """What all limiters have."""

    script_name: ClassVar[str]
    title: ClassVar[str]
    more: ClassVar[str] = ""  # which limiters hold more
    return_name: ClassVar[str] = ""  # the script that gives back
    books = True
    has_ids = False
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
        check_policy(name, self.policy)
        self.timeout = setup.timeout or (1.0 if self.policy == "error" else 0.1)
        self.limits = [self._check_limit(self._limit(limit)) for limit in limits]
        self.limit = self.limits[0] if self.limits else Limit(0, timedelta())

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
        if any(limit.permits == 0 for limit in self.limits):
            return self._never()
        if method != "peek":
            self._check_amount(method, n)
        ask = self.setup.caller.call
        try:
            self.setup.caller.refuse(keys[0], self.timeout)
            args = self._args(n, ahead, id)
            reply = yield from ask(self.script, keys, args, self.timeout, self.has_ids, n == 0, id, within)
        except (UnavailableError, OutcomeUnknownError) as error:
            return self._fall_back(keys[0], n, ahead, id, error)
        return self._decision(reply, n, keys[0], id)

    def _decision(self, reply: Sequence[int], n: int, key: str, id: str) -> Decision:
        granted, remaining, wait, reset_after, now = reply[:5]
        return Decision(
            granted > 0, remaining=remaining, wait=duration(wait), reset_after=duration(reset_after),
            now=EPOCH + timedelta(microseconds=now), permits=n if granted else 0, key=key if granted else "",
            id=id if granted else "", rings=self.rings if granted else (), **self._detail(reply[5:], reset_after, now),
        )  # fmt: skip

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
        most, one_call, why = self.capacity(), self.one_call, ""
        if one_call < most:
            most, why = one_call, f" of one call to a {self.title}{self.more}"
        if n > most:
            text = f"{method}({self.amount}={n}) exceeds limit {most}{why}"
            raise ExceedsLimitError(self.name, self.amount, str(n), f"up to {most}", text)

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
        return (yield from self._ask("allow", subject, 1, id=self._new_id()))

    def allow_n(self, subject: str, n: int) -> Steps[Decision]:
        """Asks for n permits now, all or nothing. More than could ever be granted is an ExceedsLimitError."""
        return (yield from self._ask("allow_n", subject, n, id=self._new_id()))

    def peek(self, subject: str) -> Steps[Decision]:
        """What could be granted now. It changes nothing: use it for dashboards and quota pages. Look at remaining: a
        peek grants nothing, so its granted is always False, and the decision is false."""
        return (yield from self._ask("peek", subject, 0))

    def reset(self, subject: str) -> Steps[None]:
        """Gives the subject its whole limit back, by removing its keys (UNLINK). Use it to unblock a customer."""
        keys = self.reset_keys(subject)
        yield from self.setup.caller.command((b"UNLINK", *map(encode, keys)), keys, self.timeout)

    def reset_keys(self, subject: str) -> List[str]:
        return self.grant_keys(subject, self.rings)

    def wait(self, subject: str, n: int = 1, max_wait: Optional[timedelta] = None) -> Steps[Decision]:
        """Returns when n permits may be used. Use it in workers that would rather be late than refused.

        It books the permits with one round trip and sleeps until they are due. Permits are booked in the order in which
        calls reach Redis, across all processes (slice_ring and quota, which cannot book, sleep and ask again). If that
        would take longer than max_wait (up to 366 days) it raises WaitError at once, and nothing is booked.
        With max_wait it goes on through an outage of Redis. If it is interrupted (KeyboardInterrupt, a cancelled task),
        it gives the booking back in the background where it can.
        """
        bound = math.inf if max_wait is None else check_duration(self.name, "max_wait", max_wait, 0, 366 * DAY_US) / 1e6
        return (yield from _Wait(self, subject, n, bound).run())


class _Wait:
    """One call of wait."""

    def __init__(self, limiter: Limiter, subject: str, n: int, bound: float) -> None:
        self.limiter, self.subject, self.n, self.bound = limiter, subject, n, bound
        self.id, self.started, self.failures = limiter._new_id(), time.monotonic(), 0
        self.ahead = MAX_BOOKING_US if limiter.books else 0
        self.unused: Optional[Decision] = None  # what was granted, or may have been

    def left(self) -> float:
        return max(self.bound - (time.monotonic() - self.started), 0)

    def run(self) -> Steps[Decision]:
        try:
            while True:
                decision = yield from self.ask()
                if decision is not None and (yield from self.sleep(decision)):
                    return decision
        except BaseException as error:
            if not isinstance(error, Exception):  # interrupted
                self.may_have_booked()
            if self.unused and self.limiter.return_name:
                self.limiter.setup.later(give_back_later(self.limiter, self.subject, self.unused, self.n))
            raise

    def may_have_booked(self) -> None:
        """Without a reply, only an id can tell Redis what was granted."""
        if self.limiter.has_ids:
            self.unused = self.unused or Decision(True, self.limiter.limit, permits=self.n, id=self.id)

    def ask(self) -> Steps[Optional[Decision]]:
        """Asks once. It pauses after an error if another call may help."""
        ahead = int(min(self.left() * 1e6, self.ahead))
        try:
            within = max(self.left(), 0.001) if self.bound else math.inf  # with 0 it asks once, as allow does
            decision = yield from self.limiter._ask("wait", self.subject, self.n, ahead, self.id, within)
        except (UnavailableError, OutcomeUnknownError) as error:
            if isinstance(error, OutcomeUnknownError):
                self.may_have_booked()
            self.failures += 1
            pause = min(0.01 * 2**self.failures, 0.25) * random.uniform(0.5, 1)
            if math.isinf(self.bound) or not helps(error, self.limiter.has_ids) or self.left() <= pause:
                raise
            yield Sleep(pause)
            return None
        self.failures, self.unused = 0, decision if decision.granted else None
        if decision.degraded and not decision.granted and not decision.wait:
            raise WaitError(f"{self.limiter.name}: denied while Redis does not decide") from decision.cause
        return decision

    def sleep(self, decision: Decision) -> Steps[bool]:
        """Sleeps until the permits may be used, or until it is time to ask again."""
        wait = micros(decision.wait) / 1e6
        if decision.wait == NEVER or wait > self.left():
            raise self.too_long(decision)
        yield Sleep(wait if decision.granted else max(wait - self.ahead / 1e6, 0.001))
        return decision.granted

    def too_long(self, decision: Decision) -> WaitError:
        if decision.wait == NEVER:
            return WaitError(f"{self.limiter.name}: wait(n={self.n}) would never end: the limit is 0")
        took, bound = span(micros(decision.wait)), span(int(self.bound * 1e6))
        return WaitError(f"{self.limiter.name}: wait(n={self.n}) of {took} would exceed max_wait {bound}")


def give_back(limiter: Limiter, subject: str, decision: Decision, n: Optional[int]) -> Steps[int]:
    """Gives back n of the permits that the decision granted."""
    if not isinstance(decision, Decision):
        raise ArgumentError(limiter.name, "decision", shown(decision), "a Decision of this limiter")
    rings = decision.rings or limiter.rings
    keys, n = limiter.grant_keys(subject, rings), decision.permits or 1 if n is None else n
    known = bool(decision.id) and limiter.has_ids  # Redis knows what it charged, also if a policy decided
    check_int(limiter.name, "n", n, 1)
    if not decision.granted or (decision.degraded and not known):
        return 0
    if decision.key != keys[0] and (decision.key or not known):
        want = f"one of this limiter about this subject: {keys[0]}"
        raise ArgumentError(limiter.name, "decision", shown(decision.key), want)
    if n > decision.permits:
        want = f"up to {decision.permits}, as many as were granted"
        raise ArgumentError(limiter.name, "n", str(n), want)
    script, id = limiter.setup.caller.scripts[limiter.return_name], decision.id
    now, begin = (micros(at - EPOCH) if at else 0 for at in (decision.now, decision.period_begin))
    values = {**limiter.values(), "moment": now + micros(decision.wait), "begin": begin, "id": id, "permits": n}
    whole = limiter.has_ids and decision.key == keys[0] and n == decision.permits  # only then it may be repeated
    words = script.words(values, [{"slice_i": slice, "size_i": size} for slice, size in rings])
    return (yield from limiter.setup.caller.call(script, keys, words, limiter.timeout, whole, id=id))[0]


def give_back_later(limiter: Limiter, subject: str, decision: Decision, n: int) -> Steps[None]:
    """Gives back what nobody will use. It tries again where that cannot give back more than was granted."""
    for attempt in range(5):
        yield Sleep(0.25 * (2**attempt - 1))
        try:
            returned = yield from give_back(limiter, subject, decision, n)
            if returned or decision.key:  # without a key the command may still be on its way
                return
        except OutcomeUnknownError:
            if not limiter.has_ids:
                return
        except UnavailableError:
            pass


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


Part = Union[Tuple[Any, str], Tuple[Any, str, int]]


def all_of(setup: Setup, parts: Sequence[Part]) -> Steps[Decision]:
    """ask_all, as one decision. What was granted, or may have been, is given back if not all of it is used."""
    granted = [decision for _, decision in (yield from ask_all(setup, parts))]
    if not granted[-1].granted:
        return granted[-1]
    tightest = min(granted, key=lambda decision: decision.remaining)
    degraded = [decision for decision in granted if decision.degraded] or [tightest]
    return replace(
        tightest, permits=0, key="", rings=(), id="", parts=tuple(granted), degraded=degraded[0].degraded,
        cause=degraded[0].cause,
    )  # fmt: skip


def ask_all(setup: Setup, parts: Sequence[Part]) -> Steps[List[Tuple[str, Decision]]]:
    """Asks in order, until one denies: that one is the last. Decisions are by the names of their limiters."""
    check_list("", "parts", parts, "(limiter, subject, n)")
    if not parts:
        raise ArgumentError("", "parts", "[]", "at least one (limiter, subject, n)")
    asked, granted = _checked(setup, parts), []
    try:
        for limiter, subject, n in asked:
            id = limiter._new_id()
            granted.append(Decision(True, limiter.limit, permits=n, id=id))  # as long as there is no reply
            granted[-1] = yield from limiter._ask("all", subject, n, id=id)
            if not granted[-1].granted:
                _undo(asked, granted[:-1])
                break
    except BaseException as error:
        unknown = isinstance(error, OutcomeUnknownError) or not isinstance(error, Exception)
        _undo(asked, granted if unknown and granted[-1].id else granted[:-1])
        raise
    return [(limiter.name, decision) for (limiter, _, _), decision in zip(asked, granted)]


def _checked(setup: Setup, parts: Sequence[Part]) -> List[Tuple[Limiter, str, int]]:
    asked: List[Tuple[Limiter, str, int]] = []
    keys: Set[str] = set()
    for part in parts:
        face, subject, n = (*part, 1)[:3] if isinstance(part, (tuple, list)) and len(part) in (2, 3) else (part, "", 1)
        limiter = getattr(face, "_core", None)
        if not isinstance(limiter, Returner):
            want = "one that can give back: list_log, zset_log, slice_ring or quota"
            raise ArgumentError("all", "limiter", shown(face), want)
        if limiter.setup is not setup:
            raise ArgumentError("all", "limiter", limiter.name, "one that these Limits made")
        own = limiter.keys(subject, "")
        if limiter.capacity():
            limiter._check_amount("all", n)
        if not keys.isdisjoint(own):
            raise ArgumentError(limiter.name, "subject", shown(subject), "each limiter once about it, with the sum")
        keys.update(own)
        asked.append((limiter, subject, n))
    return sorted(asked, key=lambda part: part[0].capacity() > 0)  # nothing is charged for a denial that is certain


def _undo(asked: Sequence[Tuple[Limiter, str, int]], granted: Sequence[Decision]) -> None:
    for (limiter, subject, n), decision in zip(asked, granted):
        if decision.key or decision.id:
            limiter.setup.later(give_back_later(limiter, subject, decision, n))


class ListLog(Reserver, Returner):
    """A sliding-window log, exact to the microsecond: any interval of one window holds at most the limit. About 10
    bytes a permit; up to 1000000 permits, 1000 in one call."""

    script_name, title, return_name = "list_log_v1", "list_log", "list_log_return_v1"
    more = "; gcra or slice_ring hold more"


class ZSetLog(Reserver, Returner):
    """A sliding-window log with request ids, as exact as list_log: a call that is asked again with its id is charged
    once. About 130 bytes a permit; up to 10000 permits, 500 in one call."""

    script_name, title, return_name = "zset_log_v1", "zset_log", "zset_log_return_v1"
    more = "; list_log, gcra or slice_ring hold more"
    has_ids = True

    def allow(self, subject: str, id: Optional[str] = None) -> Steps[Decision]:
        """Asks for one permit now. With the same id (1 to 128 bytes without "|") a subject is charged once in a window.
        Without one each call has a new random id, and the package asks again by itself after a lost reply."""
        return (yield from self._ask("allow", subject, 1, id=self._check_id(id)))

    def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Steps[Decision]:
        """allow for n permits, all or nothing. Another n under the same id is an ArgumentError."""
        return (yield from self._ask("allow_n", subject, n, id=self._check_id(id)))

    def _check_id(self, id: Optional[str]) -> str:
        return new_id() if id is None else check_text(self.name, "id", id, ID_BYTES, "|")


class GCRA(Reserver):
    """A smooth rate with a burst: the refilling token bucket. Any interval of length d holds at most
    burst + d * permits / window. 161 bytes in all; up to 10000000 permits."""

    script_name, title = "gcra_v1", "gcra"
    more = "; slice_ring holds more"

    def _check_limit(self, limit: Limit) -> Limit:
        super()._check_limit(limit)
        most = self.script.maximum("burst")
        if limit.permits:
            most = min(most, 2**52 * limit.permits // micros(limit.window))  # a burst is refilled in at most 2^52 us
        if limit.burst > most:
            permits = "1 permit" if limit.permits == 1 else f"{limit.permits} permits"
            want = f"up to {most} with {permits} in {days(micros(limit.window))}"
            raise ArgumentError(self.name, "burst", str(limit.burst), want)
        return limit

    def capacity(self) -> float:
        return self.limit.burst or self.limit.permits

    def values(self) -> Dict[str, object]:
        return {**super().values(), "burst": self.capacity()}


class TokenBucket(Reserver):
    """A limiter whose rate is stored in Redis: set_rate changes it for every process at once. Its permits and window
    are used only while no rate is stored. It does not refill evenly (gcra does)."""

    script_name, title = "token_bucket_v1", "token_bucket"
    more = "; gcra or slice_ring hold more"

    def __init__(
        self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure], per_client: bool,
        client_id: Optional[str],
    ) -> None:
        super().__init__(setup, name, limits, on_failure)
        if not isinstance(per_client, bool):
            raise ArgumentError(name, "per_client", shown(per_client), "a bool")
        self.scope = int(per_client)
        self.client_id = setup.client_id if client_id is None else check_text(name, "client_id", client_id)

    def keys(self, subject: str, id: str) -> List[str]:
        return [self.key(subject), *self.reset_keys(subject)]

    def reset_keys(self, subject: str) -> List[str]:
        return [self.key(subject, "all"), self.key(subject, "by", self.client_id)]

    def values(self) -> Dict[str, object]:
        return {"rate": self.limit.permits, "interval": micros(self.limit.window), "scope": self.scope}

    def capacity(self) -> float:
        return math.inf  # it is stored in Redis

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        return {"limit": Limit(more[0], duration(more[1])) if len(more) > 1 else self.limit}

    def set_rate(self, subject: str, limit: Union[Limit, Tuple[int, timedelta]]) -> Steps[None]:
        """Stores the subject's rate, as Limit(permits, window): for every process at once, to stay until it is set
        again. Permits in use stay in use. It may be repeated after an OutcomeUnknownError."""
        limit = self._check_limit(self._limit(limit))
        check_int(self.name, "permits", limit.permits, 1)
        script = self.setup.caller.scripts["token_bucket_set_v1"]
        words = script.words({"rate": limit.permits, "interval": micros(limit.window), "scope": self.scope})
        yield from self.setup.caller.call(script, [self.key(subject)], words, self.timeout, repeatable=True)


class _Window(NamedTuple):
    """size slices of so many microseconds."""

    limit: Limit
    slice: int
    size: int


class Ring(Limiter):
    """What slice_ring and budget have in common: windows, each counted by slices of its own."""

    books = False

    def __init__(
        self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure], slice: Optional[timedelta]
    ) -> None:
        check_list(name, "windows", limits, "Limit(permits, window)")
        if not 1 <= len(limits) <= 8:
            raise ArgumentError(name, "windows", str(len(limits)), "1 to 8")
        super().__init__(setup, name, limits, on_failure)
        self.slice = 0 if slice is None else check_duration(name, "slice", slice, MILLISECOND_US, DAY_US)
        self.windows = [self._window(limit) for limit in self.limits]
        self.rings = tuple((window.slice, window.size) for window in self.windows)
        for i, ring in enumerate(self.rings):
            if self.limits[i].permits and ring in self.rings[:i]:
                raise ArgumentError(name, "windows", span(micros(self.limits[i].window)), "each window once")

    def _window(self, limit: Limit) -> _Window:
        """A window with the slices that cover it, and one more: the current slice is never a whole one."""
        us = micros(limit.window)
        slice_us = self.slice or max(min(ceil_div(us, 200), DAY_US), MILLISECOND_US)
        longest = MAX_SLICES * slice_us
        if limit.permits and us < slice_us:
            raise ArgumentError(self.name, "window", span(us), f"a slice, {span(slice_us)}, or more")
        if limit.permits and us > longest:
            why = "; more takes longer slices" if self.slice and self.slice < DAY_US else ""
            want = f"up to {days(longest)}: {MAX_SLICES} slices of {span(slice_us)}{why}"
            raise ArgumentError(self.name, "window", days(us), want)
        return _Window(limit, slice_us, min(ceil_div(us, slice_us), MAX_SLICES) + 1)

    def _longest_window(self) -> int:
        return MAX_SLICES * DAY_US

    def grant_keys(self, subject: str, rings: Rings) -> List[str]:
        return [self.key(subject, f"{slice}x{size}") for slice, size in rings]

    def values(self) -> Dict[str, object]:
        return {"reported": 0}

    def group(self) -> Sequence[Mapping[str, object]]:
        return [{"slice_i": slice, "size_i": size, "limit_i": limit.permits} for limit, slice, size in self.windows]

    def capacity(self) -> float:
        return min(limit.permits for limit in self.limits)

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        states = []
        for (limit, slice, size), count in zip(self.windows, more):
            left = min(reset_after, size * slice - now % slice) if count else 0  # all of it was granted by now
            states.append(WindowState(limit, max(limit.permits - count, 0), duration(left)))
        return self._describe(states)

    def _describe(self, states: Sequence[WindowState]) -> Dict[str, Any]:
        lasting = [replace(s, counts_for=duration(w.slice * w.size)) for s, w in zip(states, self.windows)]
        ordered = sorted(lasting, key=lambda state: (state.remaining, -state.reset_after))
        windows = tuple(ordered) if len(ordered) > 1 else ()
        return {"limit": ordered[0].limit, "windows": windows, "counts_for": ordered[0].counts_for}


class SliceRing(Ring, Returner):
    """One to eight windows at once, all or nothing: "1000 a minute and 20000 an hour". Exact to one slice, a 200th
    of its window; 6 bytes a slice, limits up to 10^9. It cannot book: wait sleeps and asks again, in no order."""

    script_name, title, return_name = "slice_ring_v1", "slice_ring", "slice_ring_return_v1"


class Budget(Ring):
    """A cost that is known only afterwards: reserve an estimate, do the work, settle the actual cost.

    An id (1 to 128 bytes) names one request, and must be made by the server side: who repeats one is charged once. All
    three calls may be repeated with their id. What is reserved and never settled stays charged with its estimate.
    """

    script_name, title, amount, has_ids = "budget_v1", "budget", "estimate", True

    def __init__(
        self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure], slice: Optional[timedelta],
        settle_within: timedelta,
    ) -> None:
        super().__init__(setup, name, limits, on_failure, slice)
        self.ttl = check_duration(name, "settle_within", settle_within, MILLISECOND_US, self.script.maximum("ttl"))

    def keys(self, subject: str, id: str) -> List[str]:
        start = self.key(subject)[: -len(self.state)]
        return [*super().keys(subject, id), f"{start}{self.script.entry['keys'][0]['state']}:{escape(id)}"]

    def values(self) -> Dict[str, object]:
        return {"ttl": self.ttl}

    def reserve(self, subject: str, id: str, estimate: int) -> Steps[Decision]:
        """Takes an estimate (1 or more) for the request of this id, in all windows or in none. A denial charges
        nothing. After an error the estimate may be charged: ask again with the same id, or call charge with 0, which
        withdraws it."""
        return (yield from self._ask("reserve", subject, estimate, id=check_text(self.name, "id", id, ID_BYTES)))

    def settle(self, subject: str, id: str, actual: int) -> Steps[None]:
        """Replaces the estimate by the actual cost; 0 gives all of it back. The first settlement of an id counts.
        NotReservedError if Redis does not know the id. What it cost more is charged whatever the limits are."""
        reply = yield from self._settle(subject, id, actual, 0)
        if reply[0] or reply[1]:
            return
        key = self.keys(subject, id)[-1]
        known = yield from self.setup.caller.command((b"EXISTS", encode(key)), [key], self.timeout, look=True)
        if not known:  # the reply is the same for an id that was settled with 0
            raise NotReservedError(f"{self.name}: id {id!r} is not reserved, or no longer after {days(self.ttl)}")

    def charge(self, subject: str, id: str, actual: int) -> Steps[None]:
        """settle, but an id that Redis does not know is charged now. Use it for a cost that was not reserved."""
        yield from self._settle(subject, id, actual, 1)

    def reserved(self, subject: str, id: str, estimate: int) -> "Hold":
        """reserve for a block that settles whatever happens: an error, a cancelled task, an outage. Ask it whether it
        is granted, and set used (0 gives all of it back; if it is not set, the estimate stays charged). What Redis does
        not answer goes on in the background for settle_within, and is logged if it was in vain."""
        return Hold(self, subject, id, estimate)

    def _settle(self, subject: str, id: str, actual: int, unknown: int) -> Steps[List[int]]:
        check_text(self.name, "id", id, ID_BYTES)
        script = self.setup.caller.scripts["budget_settle_v1"]
        check_int(self.name, "actual", actual, 0, script.maximum("permits"))
        words = script.words({**self.values(), "permits": actual, "unknown": unknown}, self.group())
        return (yield from self.setup.caller.call(script, self.keys(subject, id), words, self.timeout, True, id=id))


class Hold:
    """An estimate that is settled when its block ends."""

    def __init__(self, budget: Budget, subject: str, id: str, estimate: int) -> None:
        self.budget, self.subject, self.id, self.estimate = budget, subject, id, estimate
        self.decision, self.is_known = Decision(False, budget.limit), False  # is_known: to Redis
        self.used: Optional[int] = None

    def use(self, actual: int) -> None:
        self.used = check_int(self.budget.name, "used", actual, 0, self.budget.script.maximum("permits"))

    def reserve(self) -> Steps[None]:
        try:
            self.decision = yield from self.budget.reserve(self.subject, self.id, self.estimate)
        except BaseException as error:
            if isinstance(error, OutcomeUnknownError) or not isinstance(error, Exception):
                self.budget.setup.later(self.settle(0))
            raise
        self.is_known = not self.decision.degraded

    def end(self) -> Any:
        """Settles in the background. Returns what there is to wait for."""
        granted, lost = self.decision.granted, isinstance(self.decision.cause, OutcomeUnknownError)
        if granted and self.used is not None or not granted and lost:
            return self.budget.setup.later(self.settle(self.used if granted and self.used else 0))
        return None

    def settle(self, actual: int) -> Steps[None]:
        """Asks until Redis answers. What it may not know is charged, and an estimate that comes later is refused."""
        settle = self.budget.settle if self.is_known else self.budget.charge
        until, pause = time.monotonic() + self.budget.ttl / 1e6, 0.25
        while True:
            try:
                return (yield from settle(self.subject, self.id, actual))
            except SluiceError as error:
                warn(self.budget.name, "a cost is not settled", error)
                if not helps(error, True) or time.monotonic() > until:
                    return None
            yield Sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, 5.0)
