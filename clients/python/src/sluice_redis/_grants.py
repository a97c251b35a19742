"""What becomes of permits that were granted: they are waited for, or given back. Without input and output, as
_limiters."""

import math
import random
import time
from typing import TYPE_CHECKING, Optional

from ._core import Sleep, Steps
from ._errors import ArgumentError, OutcomeUnknownError, UnavailableError, WaitError, helps, shown
from ._types import EPOCH, MAX_BOOKING_US, NEVER, Decision, check_int, micros, span

if TYPE_CHECKING:
    from ._limiters import Limiter


def give_back(limiter: "Limiter", subject: str, decision: Decision, n: Optional[int]) -> Steps[int]:
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
        raise ArgumentError(limiter.name, "n", str(n), f"up to {decision.permits}, as many as were granted")
    script, id = limiter.setup.caller.scripts[limiter.return_name], decision.id
    now, begin = (micros(at - EPOCH) if at else 0 for at in (decision.now, decision.period_begin))
    values = {**limiter.values(), "moment": now + micros(decision.wait), "begin": begin, "id": id, "permits": n}
    whole = limiter.has_ids and decision.key == keys[0] and n == decision.permits  # only then it may be repeated
    words = script.words(values, [{"slice_i": slice, "size_i": size} for slice, size in rings])
    return (yield from limiter.setup.caller.call(script, keys, words, limiter.timeout, whole, id=id))[0]


def give_back_later(limiter: "Limiter", subject: str, decision: Decision, n: int) -> Steps[None]:
    """Gives back what nobody will use. It tries again where that cannot give back more than was granted."""
    for attempt in range(5):
        yield Sleep(0.25 * (2**attempt - 1))
        try:
            returned = yield from give_back(limiter, subject, decision, n)
            if returned or decision.key:  # without a key the command may still be on its way
                return
        except (OutcomeUnknownError, UnavailableError) as error:
            if not helps(error, limiter.has_ids):
                return


def wait_for(limiter: "Limiter", subject: str, n: int, bound: float) -> Steps[Decision]:
    """Asks until the permits may be used, or until waiting does not help. What it has booked and does not use goes
    back."""
    id, end, failures = limiter._new_id(), time.monotonic() + bound, 0
    unknown = Decision(True, limiter.limit, permits=n, id=id) if id else None  # without a reply, only an id names it
    unused: Optional[Decision] = None  # what was granted, or may have been
    booking = MAX_BOOKING_US if limiter.books else 0
    try:
        while True:
            left = max(end - time.monotonic(), 0)
            within = max(left, 0.001) if bound else math.inf  # with 0 it asks once, as allow does
            try:
                decision = yield from limiter._ask("wait", subject, n, int(min(left * 1e6, booking)), id, within)
            except (UnavailableError, OutcomeUnknownError) as error:
                unused = unused or (unknown if isinstance(error, OutcomeUnknownError) else None)
                failures += 1
                pause = min(0.01 * 2**failures, 0.25) * random.uniform(0.5, 1)
                if math.isinf(bound) or not helps(error, limiter.has_ids) or end - time.monotonic() <= pause:
                    raise
                yield Sleep(pause)
                continue
            failures, unused = 0, decision if decision.granted else None
            _check_wait(limiter, n, decision, end, bound)
            wait = micros(decision.wait) / 1e6
            yield Sleep(wait if decision.granted else max(wait - booking / 1e6, 0.001))
            if decision.granted:
                return decision
    except BaseException as error:
        if not isinstance(error, Exception):  # interrupted
            unused = unused or unknown
        if unused and limiter.return_name:
            limiter.setup.later(give_back_later(limiter, subject, unused, n))
        raise


def _check_wait(limiter: "Limiter", n: int, decision: Decision, end: float, bound: float) -> None:
    """Raises if waiting for this does not help."""
    if decision.degraded and not decision.granted and not decision.wait:
        raise WaitError(f"{limiter.name}: denied while Redis does not decide") from decision.cause
    if decision.wait == NEVER:
        raise WaitError(f"{limiter.name}: wait(n={n}) would never end: the limit is 0")
    if micros(decision.wait) / 1e6 > max(end - time.monotonic(), 0):
        took, longest = span(micros(decision.wait)), span(int(bound * 1e6))
        raise WaitError(f"{limiter.name}: wait(n={n}) of {took} would exceed max_wait {longest}")
