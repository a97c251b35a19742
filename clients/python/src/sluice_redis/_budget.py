"""Costs that are known only afterwards. Without input and output, as _limiters."""

import random
import time
from datetime import timedelta
from typing import Any, Dict, List, Optional

from ._algorithms import Ring
from ._core import Sleep, Steps
from ._errors import NotReservedError, OutcomeUnknownError, SluiceError, helps, warn
from ._limiters import OnFailure, Setup, Windows
from ._manifest import encode, packed
from ._types import ID_BYTES, MILLISECOND_US, Decision, check_duration, check_int, check_text, days, escape


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
        key = self.keys(subject, id)[-1]
        exists = packed((b"EXISTS", encode(key)))  # the reply is the same for an id that was settled with 0
        if not any(reply[:2]) and not (yield from self.setup.caller.command(exists, [key], self.timeout, look=True)):
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
        lost = 0 if isinstance(self.decision.cause, OutcomeUnknownError) else None
        used = self.used if self.decision.granted else lost
        return None if used is None else self.budget.setup.later(self.settle(used))

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
