"""What the middleware for threads and for asyncio has in common: it charges a request, and holds it for a while."""

import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

from ._all import ask_all, together
from ._core import Sleep, Steps
from ._errors import ArgumentError, ExceedsLimitError, SluiceError, shown, warn
from ._headers import Named
from ._keys import NoPeer, subject_of
from ._limiters import Returner
from ._grants import give_back, give_back_later
from ._types import MAX_BOOKING_US, NEVER, SECOND_US, Decision, check_int, micros, text_size

Asked = Tuple[Any, str, int]  # a limiter as its caller sees it, the subject, the permits


class NoKey(ArgumentError):
    """A request does not say whom it is counted for."""


@dataclass(frozen=True)
class Result:
    """What was decided about a request. Several limiters are asked at once."""

    status: int
    """0 if the request goes on, or the status of its refusal: 429, 400 (no key), 500 (no peer) or 503 (Redis does not
    decide). In shadow the request goes on all the same."""
    decisions: Named = ()
    """The decisions by the names of their limiters: of a denial only those that denied."""
    error: Optional[SluiceError] = None
    """Why there is no decision."""

    @property
    def retry_after_seconds(self) -> int:
        """The time for the header Retry-After. 0: waiting does not help."""
        waiting = [d for _, d in self.decisions if not d.granted and timedelta() < d.wait < NEVER]
        return max((d.retry_after_seconds for d in waiting), default=0)


def result_of(decisions: Named, error: Optional[SluiceError] = None) -> Result:
    if error:
        kinds = ((NoKey, 400), (NoPeer, 500), (ExceedsLimitError, 429))  # its cost is above the limit: it never fits
        status = next((status for kind, status in kinds if isinstance(error, kind)), 503)
        return Result(status, (), error)
    denied = tuple((name, decision) for name, decision in decisions if not decision.granted)
    if not denied:
        return Result(0, tuple(decisions))
    return Result(503 if all(d.degraded and not d.wait for _, d in denied) else 429, denied)


def asked(charges: Any, kind: Any, counts: bool) -> List[Asked]:
    """Checks the charges of a request. Those of 0 permits are left out."""
    want = "a list of (limiter, subject, permits)"
    if not isinstance(charges, (list, tuple)):
        raise ArgumentError("middleware", "charges", shown(charges), want)
    found = []
    for charge in charges:
        is_charge = isinstance(charge, (tuple, list)) and len(charge) in (2, 3) and isinstance(charge[0], kind)
        if not is_charge or (counts and not isinstance(charge[0]._core, Returner)):
            more = " that can give back, for count" if is_charge else ""
            given = charge[0] if isinstance(charge, (tuple, list)) and charge else charge
            raise ArgumentError("middleware", "charges", shown(given), want + more)
        limiter, values, n = (*charge, 1)[:3]
        if check_int(limiter.name, "cost", n, 0):
            found.append((limiter, _subject(limiter.name, values), n))
    return found


def _subject(name: str, found: Any) -> str:
    values = found if isinstance(found, (list, tuple)) else [found]
    if not values or not all(map(text_size, values)):
        raise NoKey(name, "key", "", "a text, or several")
    return subject_of(*values)


def held(parts: Sequence[Asked], max_wait: float, places: threading.Semaphore) -> Steps[Named]:
    """Charges a request, all or none. If it has a place, it is held until its permits come, if that is in time."""
    has_place = max_wait > 0 and places.acquire(blocking=False)
    end = time.monotonic() + (max_wait if has_place else 0)
    try:
        while True:
            left = max(end - time.monotonic(), 0)
            decisions = yield from _ask(parts, left)
            wait = max(decision.wait for _, decision in decisions)
            granted = all(decision.granted for _, decision in decisions)
            if not 0 < micros(wait) <= left * SECOND_US:
                return decisions
            try:
                yield Sleep(micros(wait) / SECOND_US)
            except BaseException:  # the caller has left
                _undo(parts, decisions if granted else [])
                raise
            if granted:
                return decisions
    finally:
        if has_place:
            places.release()


def _ask(parts: Sequence[Asked], left: float) -> Steps[Named]:
    (_, subject, n), limiter = parts[0], parts[0][0]._core
    if len(parts) > 1:
        return (yield from ask_all(limiter.setup, parts))
    if left and limiter.books:  # one round trip, and first come, first served
        ahead = min(int(left * SECOND_US), MAX_BOOKING_US)
        decision: Decision = yield from limiter._ask("allow_n", subject, n, ahead, limiter._new_id())
    else:
        decision = yield from limiter.allow_n(subject, n)
    return [(limiter.name, decision)]


def _undo(parts: Sequence[Asked], decisions: Named) -> None:
    for (face, subject, n), (_, decision) in zip(parts, decisions):
        if face._core.return_name:
            face._core.setup.later(give_back_later(face._core, subject, decision, n))


def given_back(charged: Sequence[Tuple[Any, str, Decision]]) -> Steps[Tuple[()]]:
    """Gives back what a request was charged that does not count."""
    outcomes: List[Any] = [None] * len(charged)
    returns = [give_back(face._core, subject, decision, None) for face, subject, decision in charged]
    yield from together(returns, outcomes)
    for (face, *_), outcome in zip(charged, outcomes):
        if isinstance(outcome, Exception):
            warn(face.name, "a request that does not count was charged", outcome)
    return ()
