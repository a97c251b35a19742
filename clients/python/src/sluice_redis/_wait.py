"""Waits until permits may be used. Without input and output, as _limiters."""

import math
import random
import time
from typing import TYPE_CHECKING, Optional

from ._core import Sleep, Steps
from ._errors import OutcomeUnknownError, UnavailableError, WaitError, helps
from ._returns import give_back_later
from ._types import MAX_BOOKING_US, NEVER, Decision, micros, span

if TYPE_CHECKING:
    from ._limiters import Limiter


class Wait:
    """One call of wait."""

    def __init__(self, limiter: "Limiter", subject: str, n: int, bound: float) -> None:
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
