"""Middleware that limits the requests of WSGI and ASGI applications (Flask, Django; FastAPI, Starlette):

    app.wsgi_app = WSGI(app.wsgi_app, limits.list_log("api", permits=100, window=timedelta(minutes=1)))

A request over the limit gets status 429 with Retry-After, and all responses have RateLimit-Policy and RateLimit of
draft-ietf-httpapi-ratelimit-headers-11. While Redis does not decide, the limiter's on_failure does; with "error" and
"closed" the status is 503. Bodies of refusals are application/problem+json (RFC 9457).
"""

import base64
import hashlib
import ipaddress
import json
from typing import Any, Awaitable, Callable, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _sync, aio
from ._errors import ArgumentError, SluiceError
from ._log import warn
from ._types import (
    NEVER, SECOND_US, Decision, Limit, WindowState, check_int, check_list, check_text, micros, span,
)  # fmt: skip

Headers = List[Tuple[str, str]]
_IP = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_TYPES = "https://iana.org/assignments/http-problem-types#"


class Request(NamedTuple):
    """What a key is made from."""

    peer: str  # the remote address of the connection; "" of a Unix socket
    header: Callable[[str], str]  # the value of a header; "" without it, and several joined by commas
    native: Any  # the environ of WSGI, the scope of ASGI


Key = Callable[[Request], str]
"""Says whom a request is counted for. A request whose key is "" is refused with status 400."""


def subject(*values: str) -> str:
    """The subject under which requests with these values are counted, as in the Go middleware. Use it for keys of
    several values, and to look up or reset a subject: limiter.reset(subject("192.0.2.7", "ada")). No list of values has
    another one's subject, and long values are hashed, so that no caller can store long keys."""
    return "|".join(map(_code, values))


def _code(value: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError("", "value", repr(value), "a str")
    raw = value.encode("utf-8", "surrogatepass")
    if len(raw) > 128:
        return "~2" + base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return value.replace("~", "~0").replace("|", "~1") or "~"


def by_header(name: str) -> Key:
    """Counts by the value of a header. Use it for values that a caller cannot choose freely, as a checked API key."""
    check_text("", "name", name)
    return lambda request: subject(request.header(name)) if request.header(name) else ""


def by_address(trusted_proxies: Sequence[str] = (), ipv6_prefix: int = 64) -> Key:
    """Counts by the address of the client, IPv6 by its /64. Behind proxies name them: as prefixes ("10.0.0.0/8"), as
    addresses, or "unix" for those that connect by a Unix socket. Each has to append to X-Forwarded-For the address that
    it was called from. The client is the first address from the right that is not of a trusted proxy; what stands to
    the left of it was written by the client, and is never used."""
    check_list("", "trusted_proxies", trusted_proxies, 'prefixes ("10.0.0.0/8"), addresses, or "unix"')
    networks = [_network(proxy) for proxy in trusted_proxies if proxy != "unix"]
    check_int("", "ipv6_prefix", ipv6_prefix, 1, 128)

    def trusted(address: Optional[_IP]) -> bool:
        return any(address is not None and address in network for network in networks)

    def client(request: Request) -> Optional[_IP]:
        address = parse_address(request.peer)
        if not (trusted(address) or (not request.peer and "unix" in trusted_proxies)):
            return address
        forwarded = request.header("X-Forwarded-For")
        for hop in reversed(forwarded.split(",")) if forwarded else ():
            address = parse_address(hop.strip(" \t"))
            if not trusted(address):
                break
        return address

    def key(request: Request) -> str:
        address = client(request)
        if address is None:
            return ""
        if address.version == 4 or ipv6_prefix == 128:
            return str(address)
        return str(ipaddress.ip_network((int(address), ipv6_prefix), strict=False))

    return key


def _network(proxy: str) -> Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    try:
        return ipaddress.ip_network(check_text("", "trusted_proxies", proxy))
    except ValueError:
        want = 'a prefix ("10.0.0.0/8"), an address, or "unix"'
        raise ArgumentError("", "trusted_proxies", repr(proxy), want) from None


def parse_address(text: str) -> Optional[_IP]:
    """An address with or without a port; IPv4 written as IPv6 is IPv4. None if it is none."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        port = port if bracket else "x"
    elif text.count(":") == 1:
        host, colon, port = text.partition(":")
        port = colon + port
    else:
        host, port = text, ""
    digits = port[1:]
    if port and not (port[0] == ":" and digits.isascii() and digits.isdigit() and int(digits) < 65536):
        return None
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return None if text.startswith("[") and address.version == 4 else mapped or address


def headers_of(name: str, decision: Decision) -> Headers:
    """RateLimit-Policy and RateLimit: an item for each window, the shortest first."""
    check_text("", "name", name)
    if not isinstance(decision, Decision):
        raise ArgumentError(name, "decision", repr(decision), "a Decision")
    policies, limits = [], []
    for policy, state in _windows(name, decision):
        item = f'"{policy}"'
        quota, length = _quota(state.limit)
        policies.append(f"{item};q={quota}" + (f";w={length}" if length else ""))
        reset = state.reset_after if decision.granted else min(state.reset_after, decision.wait)
        until = f";t={_seconds(micros(reset))}" if decision.wait != NEVER else ""
        limits.append(f"{item};r={state.remaining}{until}")
    headers = [("RateLimit-Policy", ", ".join(policies))]
    return headers if decision.degraded else [*headers, ("RateLimit", ", ".join(limits))]


def _windows(name: str, decision: Decision) -> List[Tuple[str, WindowState]]:
    """The windows with their names, the shortest first."""
    if not decision.windows:
        return [(name, WindowState(decision.limit, decision.remaining, decision.reset_after))]
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
    if isinstance(error, ArgumentError):
        raise error
    warn(name, "no decision", error)
    return _undecided([])


def _answer(name: str, decision: Decision) -> _Answer:
    headers = headers_of(name, decision)
    if decision.granted:
        return _Answer(headers)
    if decision.degraded:
        return _undecided(headers)
    if decision.wait != NEVER:
        headers.append(("Retry-After", str(decision.retry_after)))
    title = "Request cannot be satisfied as assigned quota has been exceeded"
    violated = {"violated-policies": _violated(name, decision)}
    return _refuse("429 Too Many Requests", _TYPES + "quota-exceeded", title, headers, **violated)


def _check(kind: str, app: object, module: str, limiter: object, wanted: type, key: Optional[Key]) -> Key:
    """The key, or its default."""
    if not callable(app):
        raise ArgumentError("", "app", repr(app), kind)
    if not isinstance(limiter, wanted):
        raise ArgumentError("", "limiter", repr(limiter), f"a limiter of {module}.Limits that has allow")
    if key is not None and not callable(key):
        raise ArgumentError("", "key", repr(key), "a function of a Request")
    return key or by_address()


class WSGI:
    """WSGI middleware around app. limiter is one of sluice_redis.Limits; key says whom a request is counted for."""

    def __init__(self, app: Callable[..., Iterable[bytes]], limiter: _sync.Limiter, key: Optional[Key] = None) -> None:
        self.key = _check("a WSGI application", app, "sluice_redis", limiter, _sync.Limiter, key)
        self.app, self.limiter = app, limiter

    def __call__(self, environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def header(name: str) -> str:
            return str(environ.get("HTTP_" + name.upper().replace("-", "_"), ""))

        answer = self._decide(self.key(Request(environ.get("REMOTE_ADDR", ""), header, environ)))
        if answer.status:
            start_response(answer.status, answer.headers)
            return [answer.body]

        def start(status: str, headers: Headers, *more: Any) -> Any:
            return start_response(status, [*headers, *answer.headers], *more)

        return self.app(environ, start)

    def _decide(self, key: str) -> _Answer:
        if not key:
            return _no_key()
        try:
            return _answer(self.limiter.name, self.limiter.allow(key))
        except SluiceError as error:
            return _failed(self.limiter.name, error)


class ASGI:
    """ASGI middleware around app, for HTTP requests (WebSockets are passed on). limiter is one of
    sluice_redis.aio.Limits. With Starlette and FastAPI: app.add_middleware(ASGI, limiter=limiter)."""

    def __init__(self, app: Callable[..., Awaitable[None]], limiter: aio.Limiter, key: Optional[Key] = None) -> None:
        self.key = _check("an ASGI application", app, "sluice_redis.aio", limiter, aio.Limiter, key)
        self.app, self.limiter = app, limiter

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        def header(name: str) -> str:
            lines = [value.decode("latin-1") for field, value in scope["headers"] if field == name.lower().encode()]
            return ",".join(lines)

        answer = await self._decide(self.key(Request((scope.get("client") or [""])[0] or "", header, scope)))
        added = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
        if answer.status:
            await send({"type": "http.response.start", "status": int(answer.status[:3]), "headers": added})
            return await send({"type": "http.response.body", "body": answer.body})

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self.app(scope, receive, send_on)

    async def _decide(self, key: str) -> _Answer:
        if not key:
            return _no_key()
        try:
            return _answer(self.limiter.name, await self.limiter.allow(key))
        except SluiceError as error:
            return _failed(self.limiter.name, error)
