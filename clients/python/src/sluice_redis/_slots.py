"""Slots: how many run at once. Without input and output, as _limiters."""

import math
import os
import random
import time
from datetime import timedelta
from typing import Any, Callable, Dict, Optional, Tuple

from ._core import Sleep, Steps
from ._errors import ArgumentError, OutcomeUnknownError, SlotLostError, SluiceError, WaitError, helps, shown, warn
from ._limiters import Limiter, OnFailure, Setup, new_id
from ._types import DAY_US, MILLISECOND_US, NEVER, Decision, Limit, check_duration, check_int, micros, span

OnLost = Optional[Callable[[SlotLostError], None]]
_POLL, _MIN_POLL = 0.25, 0.02  # seconds before acquire asks again
_LEAST = 0.001  # seconds that a question needs


class Concurrency(Limiter):
    """At most so many slots of a subject are held at once, in all processes. A slot is held under a lease that ends
    after ttl and renews itself, so the slots of a process that dies are free within ttl. 10 s to 1 min suits most."""

    script_name, title, has_ids = "concurrency_v1", "concurrency", True
    books = may_be_local = False

    def __init__(self, setup: Setup, name: str, slots: int, ttl: timedelta, on_failure: Optional[OnFailure]) -> None:
        super().__init__(setup, name, [Limit(slots, ttl)], on_failure)
        self.ttl = micros(ttl) / 1e6
        self.release_script = setup.caller.scripts["concurrency_release_v1"]

    def _check_limit(self, limit: Limit) -> Limit:
        check_int(self.name, "slots", limit.permits, 0, self.script.maximum("limit"))
        check_duration(self.name, "ttl", limit.window, MILLISECOND_US, self.script.maximum("ttl"))
        return limit

    def values(self) -> Dict[str, object]:
        return {"limit": self.limit.permits, "ttl": micros(self.limit.window), "renew": 0}

    def try_acquire(self, subject: str, on_lost: OnLost = None) -> Steps[Tuple[Optional["Lease"], Decision]]:
        """Takes a slot now: (slot, decision), and the slot is None if none is free. Use it to refuse what is over the
        limit. The decision's wait says when the first lease ends if it is not renewed, so little about when a slot
        comes free. on_lost is called (in the thread or task that renews the slot) if the slot is lost. Cost: one round
        trip, one more for each third of the ttl, and one for the release."""
        lease = Lease(self, subject, on_lost)
        yield from lease.taken(lease.ask("try_acquire"))
        return (lease if lease.decision.granted else None), lease.decision

    def acquire(self, subject: str, max_wait: Optional[timedelta] = None, on_lost: OnLost = None) -> Steps["Lease"]:
        """Takes a slot as soon as one is free: use it in workers. It asks every 20 to 250 ms, more often the longer it
        has waited, in no order. WaitError after max_wait, or at once if slots is 0. With max_wait it goes on through an
        outage of Redis."""
        bound = math.inf if max_wait is None else check_duration(self.name, "max_wait", max_wait, 0, 366 * DAY_US) / 1e6
        lease = Lease(self, subject, on_lost)
        yield from lease.taken(self._acquire(lease, bound))
        return lease

    def _acquire(self, lease: "Lease", bound: float) -> Steps[None]:
        started, failure = time.monotonic(), None
        left = max(bound, _LEAST) if bound else math.inf  # with 0 it asks once, as try_acquire does
        while True:
            try:
                yield from lease.ask("acquire", left)
                if lease.decision.granted:
                    return
                failure = lease.decision.cause
            except SluiceError as error:
                if not helps(error, True):
                    raise
                failure = error
            if lease.decision.wait == NEVER:
                raise WaitError(f"{self.name}: acquire would never end: slots is 0")
            if failure and math.isinf(bound):
                raise failure
            waited = time.monotonic() - started
            poll = max(_POLL / (1 + waited / 0.1), _MIN_POLL) * random.uniform(0.5, 1)
            free = micros(lease.decision.wait) / 1e6 or poll  # the first lease ends
            yield Sleep(max(min(poll, max(free, 0.001), bound - waited), 0))
            left = bound - (time.monotonic() - started)
            if left < _LEAST:
                raise failure or WaitError(f"{self.name}: no slot came free within max_wait {span(int(bound * 1e6))}")


class Lease:
    """A slot, held until release or until it is lost."""

    def __init__(self, limiter: Concurrency, subject: str, on_lost: OnLost) -> None:
        if on_lost is not None and not callable(on_lost):
            raise ArgumentError(limiter.name, "on_lost", shown(on_lost), "a function of a SlotLostError")
        self.limiter, self.subject, self.on_lost, self.id = limiter, subject, on_lost, new_id()
        self.decision, self.process = Decision(False, limiter.limit), os.getpid()
        self.sent = self.ends = 0.0  # by time.monotonic
        self.over = self.unknown = False  # unknown: a call may have taken it
        self.lost: Optional[SlotLostError] = None

    def taken(self, steps: Steps[None]) -> Steps[None]:
        """Releases in the background what the steps may have taken, unless they have taken it for sure."""
        try:
            yield from steps
        except BaseException as error:
            if self.unknown or not isinstance(error, Exception):
                self.limiter.setup.later(self.release_later())
            raise
        if self.unknown and not (self.decision.granted and not self.decision.degraded):
            self.limiter.setup.later(self.release_later())

    def ask(self, method: str, within: float = math.inf) -> Steps[None]:
        """Asks for the slot, within so many seconds."""
        self.sent = time.monotonic()
        self.ends = self.end_of(self.sent)
        try:
            self.decision = yield from self.limiter._ask(method, self.subject, 1, id=self.id, within=within)
        except OutcomeUnknownError:
            self.unknown = True
            raise
        self.unknown |= isinstance(self.decision.cause, OutcomeUnknownError)
        if self.decision.granted and not self.decision.degraded and self.ends <= time.monotonic():
            self.unknown = True
            raise SlotLostError(f"{self.limiter.name}: slot lost: the reply took longer than the ttl")

    def end_of(self, sent: float) -> float:
        """Until when a lease lasts at least that was taken or renewed by a call sent then: clocks differ a little."""
        return sent + self.limiter.ttl * 0.999

    def renewals(self) -> Steps[None]:
        """Renews the lease until it is released or lost."""
        ttl, failure = self.limiter.ttl, "no renewal was answered in time"
        pause = 0.0 if self.decision.degraded else self.sent + ttl / 3 - time.monotonic()
        while not self.decision.degraded:
            yield Sleep(max(min(pause, self.ends - time.monotonic()), 0))
            left = self.ends - time.monotonic()
            if self.over:
                return
            if left <= 0:
                return self.expire(failure)
            sent = time.monotonic()
            try:
                held = yield from self.renew(left / 2)
            except SluiceError as error:
                failure, pause = str(error), ttl / 10 * random.uniform(0.5, 1)
                continue
            if not held:
                return self.lose("the server has no lease of it")
            self.ends, pause = self.end_of(sent), sent + ttl / 3 - time.monotonic()

    def renew(self, within: float) -> Steps[bool]:
        limiter = self.limiter
        words = limiter.script.words({**limiter.values(), "renew": 1, "id": self.id})
        keys, timeout = [limiter.key(self.subject)], min(limiter.timeout, limiter.ttl / 6)  # to connect, too
        call = limiter.setup.caller.call(limiter.script, keys, words, timeout, True, id=self.id, within=within)
        return (yield from call)[0] == 1

    def expire(self, failure: str) -> None:
        """The lease may end now. With the policy "open" the slot is kept without one."""
        if self.limiter.policy != "open":
            self.lose(failure)
            self.limiter.setup.later(self.release_later())

    def lose(self, why: str) -> None:
        if self.over:
            return
        self.over, self.lost = True, SlotLostError(f"{self.limiter.name}: slot lost: {why}")
        warn(self.limiter.name, "slot lost", why)
        if self.on_lost:
            self.on_lost(self.lost)

    def why_lost(self) -> Optional[SlotLostError]:
        """Why the slot is lost: also if a renewal has not come back, and the lease may have ended."""
        leased = not (self.over or self.decision.degraded or self.limiter.policy == "open")
        if leased and time.monotonic() >= self.ends:
            return SlotLostError(f"{self.limiter.name}: slot lost: no renewal was answered in time")
        return self.lost

    def release(self) -> Steps[None]:
        """Frees the slot. SlotLostError if it was lost before. If Redis does not answer, it raises, and tries again in
        the background for a ttl; after that the lease has ended by itself. In a forked process it does nothing: the
        slot is its parent's."""
        if os.getpid() != self.process:
            return
        lost, was_over, self.over = self.why_lost(), self.over, True
        if lost:
            raise lost
        if was_over or self.decision.degraded:
            return
        try:
            yield from self.release_now()
        except BaseException as error:
            self.limiter.setup.later(self.release_later())
            warn(self.limiter.name, "a slot is not released yet", str(error) or repr(error))
            raise

    def leave(self, error: Optional[BaseException]) -> Steps[None]:
        """release at the end of a block. The block's own error goes first."""
        try:
            yield from self.release()
        except SluiceError as failure:  # others than a loss are logged, and tried again
            if isinstance(failure, SlotLostError) and error is None:
                raise

    def release_now(self) -> Steps[Any]:
        limiter, script = self.limiter, self.limiter.release_script
        words = script.words({"id": self.id})
        return (yield from limiter.setup.caller.call(script, [limiter.key(self.subject)], words, limiter.timeout, True))

    def release_later(self) -> Steps[None]:
        """Releases what a call may have taken. It does so twice, because the server may still have to run the call."""
        until, answers = time.monotonic() + self.limiter.ttl, 0
        while answers < 2 and time.monotonic() < until:
            yield Sleep(0.25)
            try:
                yield from self.release_now()
                answers += 1
            except SluiceError as error:
                if isinstance(error, ArgumentError):
                    return
