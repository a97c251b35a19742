"""Leaves a server alone that answers nobody, so that an outage costs callers no time."""

import threading
import time
from typing import NamedTuple, Optional

from ._errors import ArgumentError, UnavailableError, shown


class Breaker(NamedTuple):
    """Limits(breaker=Breaker(5, 0.25)): if a server has answered nobody for as long as a call may take, and so many
    calls have failed in that time, calls are not sent, except for one at a time, pause seconds after the one before. As
    soon as one is answered, all are sent. breaker=None asks always."""

    failures: int = 5
    pause: float = 0.25


class State:
    """Of one node. Threads share it."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker, self.lock = breaker, threading.Lock()
        self.in_flight = self.failures = 0  # calls; those without an answer since the last one
        self.silent = self.failed = 0.0  # since when, if calls are in flight or have failed; refuse counts pause from
        self.probing = 0.0  # since when, if a call was sent although it is open
        self.why = ""  # the text of the last failure

    def refuse(self, now: float, timeout: float) -> bool:
        """Raises if no call is sent now. Otherwise it returns whether one is sent although the breaker is open."""
        is_open = self.failures >= self.breaker.failures and now - self.silent >= timeout
        if is_open and (self.probing or now - self.failed < self.breaker.pause):
            silent = f"Redis has not answered for {now - self.silent:.3f} s"
            raise UnavailableError(f"breaker is open: {silent}; the last failure: {self.why}")
        return is_open

    def steps_aside(self) -> bool:
        """Whether a call that will be refused leaves the interpreter to the one that probes: as it begins, and now and
        then. A thread keeps it for 5 ms, and a probe needs it for each reply, while it connects."""
        since = self.probing
        return bool(since) and (time.monotonic() - since < 0.01 or time.monotonic() % 0.05 < 0.0005)

    def admit(self, timeout: float) -> None:
        """Counts a call that begins, or raises."""
        now = time.monotonic()
        if self.failures:
            self.refuse(now, timeout)  # without the lock: threads that are refused do not wait for each other
        with self.lock:
            is_open = bool(self.failures) and self.refuse(now, timeout)
            if not self.in_flight and not self.failures:
                self.silent = now
            self.in_flight += 1
            self.probing = now if is_open else 0.0

    def report(self, answered: Optional[bool], why: str) -> None:
        """Takes the end of a call. None: it tells nothing about the server."""
        now = time.monotonic()
        with self.lock:
            self.in_flight -= 1
            failed, self.probing = self.probing or now, 0.0
            if answered:
                self.failures, self.silent = 0, now
            elif answered is not None:
                self.failures, self.failed, self.why = self.failures + 1, failed, why


def check_breaker(breaker: Optional[Breaker]) -> Optional[Breaker]:
    if breaker is not None and not (isinstance(breaker, Breaker) and breaker.failures > 0 and breaker.pause > 0):
        want = "a Breaker of 1 failure or more and a pause above 0, or None"
        raise ArgumentError("", "breaker", shown(breaker), want)
    return breaker
