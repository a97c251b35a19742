"""What is said about decisions in responses, as in Go and Node: the headers, and the bodies of refusals."""

import json
import sys
from datetime import timedelta
from typing import Any, List, NamedTuple, Tuple

from ._errors import ArgumentError, ExceedsLimitError, SluiceError, shown
from ._factory import LimiterFace
from ._log import warn
from ._types import NEVER, SECOND_US, Decision, Limit, WindowState, micros, span

Headers = List[Tuple[str, str]]
"""Names and values."""
_TYPES = "https://iana.org/assignments/http-problem-types#"
_UNSHOWN = 10_000  # microseconds that a permit counts longer than its window without a word: a second has w=1


def headers_of(limiter: LimiterFace[Any], decision: Decision) -> Headers:
    """RateLimit-Policy and RateLimit, with an item for each window, the shortest first; and Retry-After of a denial for
    which waiting helps. Use it where the middleware does not fit. While Redis does not decide there is no RateLimit."""
    name = getattr(limiter, "name", None)
    if not isinstance(name, str):
        raise ArgumentError("headers_of", "limiter", shown(limiter), "a limiter")
    if not isinstance(decision, Decision):
        raise ArgumentError(name, "decision", shown(decision), "a Decision")
    policies, limits = [], []
    for policy, state in _windows(name, decision):
        item = f'"{policy}"'
        quota, length = _quota(state.limit)
        length = max(length, _seconds(micros(state.counts_for) - _UNSHOWN))
        policies.append(f"{item};q={quota}" + (f";w={length}" if length else ""))
        reset = state.reset_after if decision.granted else min(state.reset_after, decision.wait)
        seconds = min(_seconds(micros(reset)), length or sys.maxsize)  # t is never above w
        until = f";t={seconds}" if decision.wait != NEVER else ""
        limits.append(f"{item};r={state.remaining}{until}")
    headers = [("RateLimit-Policy", ", ".join(policies))]
    if not decision.degraded:
        headers.append(("RateLimit", ", ".join(limits)))
    if not decision.granted and timedelta() < decision.wait < NEVER:
        headers.append(("Retry-After", str(decision.retry_after_seconds)))
    return headers


def _windows(name: str, decision: Decision) -> List[Tuple[str, WindowState]]:
    """The windows with their names, the shortest first."""
    if not decision.windows:
        return [(name, WindowState(decision.limit, decision.remaining, decision.reset_after, decision.counts_for))]
    states = sorted(decision.windows, key=lambda state: (state.limit.window, state.limit.permits))
    return [(f"{name}-{span(micros(state.limit.window))}", state) for state in states]


def _violated(name: str, decision: Decision) -> List[str]:
    """The windows that denied: of several those with the fewest permits remaining."""
    windows = _windows(name, decision)
    fewest = min(state.remaining for _, state in windows)
    return [policy for policy, state in windows if state.remaining == fewest]


def _quota(limit: Limit) -> Tuple[int, int]:
    """The quota and its window in seconds: of a gcra its burst, and the time that refills it."""
    if not limit.burst or not limit.permits:
        return limit.permits, _seconds(micros(limit.window))
    return limit.burst, _seconds(-(-limit.burst * micros(limit.window) // limit.permits))


def _seconds(us: int) -> int:
    return -(-us // SECOND_US)


class _Answer(NamedTuple):
    """What the middleware adds to a response, or answers itself: then it has a status."""

    headers: Headers
    status: str = ""
    body: bytes = b""


def _refuse(status: str, problem: str, title: str, headers: Headers, **more: object) -> _Answer:
    body = json.dumps({"type": problem, "title": title, "status": int(status[:3]), **more}).encode()
    kind = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))]
    return _Answer([*headers, *kind], status, body)


def _no_key() -> _Answer:
    return _refuse("400 Bad Request", "about:blank", "The request does not say whom it is counted for", [])


def _undecided(headers: Headers) -> _Answer:
    title = "Request cannot be satisfied due to temporary server capacity constraints"
    return _refuse("503 Service Unavailable", _TYPES + "temporary-reduced-capacity", title, headers)


def _failed(name: str, error: SluiceError) -> _Answer:
    if isinstance(error, ExceedsLimitError):
        return _denied([])  # its cost is above the limit: it never fits
    if isinstance(error, ArgumentError):
        raise error
    warn(name, "no decision", error)
    return _undecided([])


def _answer(limiter: LimiterFace[Any], decision: Decision) -> _Answer:
    headers = headers_of(limiter, decision)
    if decision.granted:
        return _Answer(headers)
    if decision.degraded and not decision.wait:
        return _undecided(headers)
    return _denied(headers, **{"violated-policies": _violated(limiter.name, decision)})


def _denied(headers: Headers, **more: object) -> _Answer:
    title = "Request cannot be satisfied as assigned quota has been exceeded"
    return _refuse("429 Too Many Requests", _TYPES + "quota-exceeded", title, headers, **more)
