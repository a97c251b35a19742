"""What is said about decisions in responses, as in Go and Node: the headers, and the bodies of refusals."""

import json
import sys
from datetime import timedelta
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ._errors import ArgumentError, shown
from ._factory import LimiterFace
from ._types import NEVER, SECOND_US, Decision, Limit, WindowState, ceil_div, micros, span

Headers = List[Tuple[str, str]]
"""Names and values."""
Named = Sequence[Tuple[str, Decision]]
"""Decisions by the names of their limiters."""
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
    return headers_of_all([(name, decision)])


def headers_of_all(decisions: Named) -> Headers:
    """The headers of decisions about one request, by the names of their limiters."""
    found: Dict[str, List[str]] = {}
    for name, decision in decisions:
        for header, value in _fields(name, decision):
            found.setdefault(header, []).append(value)
    return [(name, max(said, key=int) if name == "Retry-After" else ", ".join(said)) for name, said in found.items()]


def _fields(name: str, decision: Decision) -> Headers:
    policies, limits = [], []
    for policy, state in _windows(name, decision):
        item = f'"{policy}"'
        quota, length = _quota(state.limit)
        length = max(length, ceil_div(micros(state.counts_for) - _UNSHOWN, SECOND_US))
        policies.append(f"{item};q={quota}" + (f";w={length}" if length else ""))
        reset = state.reset_after if decision.granted else min(state.reset_after, decision.wait)
        seconds = min(ceil_div(micros(reset), SECOND_US), length or sys.maxsize)  # t is never above w
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
        return limit.permits, ceil_div(micros(limit.window), SECOND_US)
    return limit.burst, ceil_div(ceil_div(limit.burst * micros(limit.window), limit.permits), SECOND_US)


class Answer(NamedTuple):
    """What the middleware adds to a response, or answers itself: then it has a status."""

    headers: Headers
    status: str = ""
    body: bytes = b""
    charged: Sequence[Tuple[Any, str, Decision]] = ()  # limiters, subjects: what counts by the response
    is_own: bool = False  # the answer of refuse


_PROBLEMS = {
    400: ("about:blank", "The request does not say whom it is counted for"),
    429: (_TYPES + "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"),
    500: ("about:blank", "The server does not know who calls it"),
    503: (_TYPES + "temporary-reduced-capacity",
          "Request cannot be satisfied due to temporary server capacity constraints"),
}


def problem(status: int, decisions: Named) -> Tuple[int, Dict[str, str], bytes]:
    """The answer to a request that is refused: status, headers and body."""
    kind, title = _PROBLEMS[status]
    violated = [policy for name, decision in decisions for policy in _violated(name, decision)]
    more = {"violated-policies": violated} if violated and status == 429 else {}
    body = json.dumps({"type": kind, "title": title, "status": status, **more}).encode()
    return status, {"Content-Type": "application/problem+json"}, body
