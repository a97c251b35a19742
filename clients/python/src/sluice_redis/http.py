"""Middleware that limits the requests of WSGI and ASGI applications (Flask, Django; FastAPI, Starlette):

    app.wsgi_app = WSGI(app.wsgi_app, limits.list_log("api", permits=100, window=timedelta(minutes=1)))

A request over the limit gets status 429 with Retry-After, and all responses have RateLimit-Policy and RateLimit of
draft-ietf-httpapi-ratelimit-headers-11. While Redis does not decide, the limiter's on_failure does; with "error" and
"deny" the status is 503. Bodies of refusals are application/problem+json (RFC 9457).
"""

import base64
import functools
import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Awaitable, Callable, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type, Union
from urllib.parse import unquote_to_bytes

from . import _sync, aio
from ._errors import ArgumentError, ExceedsLimitError, SluiceError, shown
from ._factory import LimiterFace
from ._log import warn
from ._types import (
    NEVER, SECOND_US, Decision, Limit, WindowState, check_int, check_list, check_text, is_text, micros, span,
)  # fmt: skip

__all__ = [
    "ASGI", "WSGI", "Cost", "Headers", "Key", "Request", "fastapi_limit", "headers_of", "key_by_header", "key_by_ip",
    "subject_of",
]  # fmt: skip

Headers = List[Tuple[str, str]]
"""Names and values."""
_IP = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_TYPES = "https://iana.org/assignments/http-problem-types#"


@dataclass(frozen=True)
class Request:
    """What a key is made from."""

    peer: str  # the remote address of the connection, with or without a port; "" of a Unix socket
    _raw: Callable[[str], List[bytes]]  # the bytes of a header, line by line; a server of WSGI joins lines by commas
    path: str  # decoded; "" if it is not UTF-8
    native: Any  # the environ of WSGI, the scope of ASGI

    def header(self, name: str) -> str:
        """The value of a header; "" without it, if it is not UTF-8, and if there are lines with different values, of
        which the application may take another one."""
        lines = set(self._raw(name))
        return _text(lines.pop()) if len(lines) == 1 else ""


Key = Callable[[Request], Union[str, Sequence[str]]]
"""Says whom a request is counted for: by a value, or by several together. A request without one ("", or what is no
text) is refused with status 400."""
Cost = Callable[[Request], int]
"""Says how many permits a request takes; one with 0 is not limited."""


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""


def subject_of(*values: str) -> str:
    """The subject under which the middleware counts requests with these values, in every language. Use it to look up or
    reset one: limiter.reset(subject_of("192.0.2.7", "ada")). No list of values has another one's subject, and long
    values are hashed, so that no caller can store long keys."""
    return "|".join(map(_code, values))


def _code(value: str) -> str:
    if not is_text(value):
        raise ArgumentError("", "value", shown(value), "a str that UTF-8 can hold")
    raw = value.encode()
    if len(raw) > 128:
        return "~2" + base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return value.replace("~", "~0").replace("|", "~1") or "~"


def key_by_header(name: str) -> Key:
    """Counts by the value of a header. Use it for values that a caller cannot choose freely, as a checked API key."""
    check_text("", "name", name)
    return lambda request: request.header(name)


def key_by_ip(trusted_proxies: Sequence[str] = (), ipv6_prefix: int = 64) -> Key:
    """Counts by the address of the client, IPv6 by its /64. Behind proxies name them: as prefixes ("10.0.0.0/8"), as
    addresses, or "unix" for those with a Unix socket. Each has to append to X-Forwarded-For the address that
    it was called from. The client is the first address from the right that is not of a trusted proxy; what stands to
    the left of it was written by the client, and is never used. "unknown" is counted for the proxy that wrote it."""
    check_list("", "trusted_proxies", trusted_proxies, 'prefixes ("10.0.0.0/8"), addresses, or "unix"')
    networks = [_network(proxy) for proxy in trusted_proxies if proxy != "unix"]
    check_int("", "ipv6_prefix", ipv6_prefix, 1, 128)

    def trusted(address: Optional[_IP]) -> bool:
        return any(address is not None and address in network for network in networks)

    def client(request: Request) -> Optional[_IP]:
        address = _without_port(request.peer)
        unix = not address and request.peer.startswith(("@", "/", "unix:") if request.peer else "")
        proxy, read = trusted(address) if address else unix and "unix" in trusted_proxies, False
        forwarded = request._raw("X-Forwarded-For")
        for hop in reversed(b",".join(forwarded).decode("latin-1").split(",")) if forwarded else ():
            hop = hop.strip(" \t")
            if not proxy or hop.lower() == "unknown":
                break
            address, read = _without_port(hop), True
            proxy = trusted(address)
        if address is None and not read:
            want = 'an address, or a proxy by a Unix socket ("unix"); a TestClient needs client=("192.0.2.1", 1234)'
            raise _NoPeer("key_by_ip", "peer", shown(request.peer), want)
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
        network = ipaddress.ip_network(check_text("", "trusted_proxies", proxy))
    except ValueError:
        want = 'a prefix ("10.0.0.0/8"), an address, or "unix"'
        raise ArgumentError("", "trusted_proxies", shown(proxy), want) from None
    mapped = getattr(network.network_address, "ipv4_mapped", None) if network.prefixlen >= 96 else None
    return ipaddress.IPv4Network((mapped, network.prefixlen - 96)) if mapped else network


def _parse_address(text: str) -> Optional[_IP]:
    """An address without a port; IPv4 written as IPv6 is IPv4, and a zone is left out. None if it is none."""
    host, percent, zone = text.partition("%")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if percent and (address.version == 4 or not zone):
        return None
    return getattr(address, "ipv4_mapped", None) or address


class _NoPeer(ArgumentError):
    """The server does not say from where a request comes, or names a proxy that does not."""


_ADDRESS = re.compile(r"(?:\[(.*)\]|([^:\[\]]*))(?::([0-9]+))?", re.DOTALL)


def _without_port(text: str) -> Optional[_IP]:
    """192.0.2.7:80, [2001:db8::7]:80, [2001:db8::7], or an address without a port."""
    found = _ADDRESS.fullmatch(text)
    if not found:
        return _parse_address(text)
    bracketed, other, port = found.groups()
    if int((port or "0").lstrip("0")[:6] or "0") > 65535 or (bracketed and ":" not in bracketed):
        return None
    return _parse_address(other if bracketed is None else bracketed)


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
        length = max(length, _seconds(micros(state.counts_for)))  # so that t is never above w
        policies.append(f"{item};q={quota}" + (f";w={length}" if length else ""))
        reset = state.reset_after if decision.granted else min(state.reset_after, decision.wait)
        until = f";t={_seconds(micros(reset))}" if decision.wait != NEVER else ""
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


class _Middleware:
    """What both kinds have: app is what they are around, limiter decides, key says whom a request is counted for (by
    default the address of the connection), and cost how many permits it takes (by default 1)."""

    _kind: str
    _module: str
    _wanted: Type[Any]

    def __init__(self, app: Any, limiter: Any, key: Optional[Key] = None, cost: Optional[Cost] = None) -> None:
        if not callable(app):
            raise ArgumentError("", "app", shown(app), self._kind)
        if not isinstance(limiter, self._wanted):
            raise ArgumentError("", "limiter", shown(limiter), f"a limiter of {self._module}.Limits that has allow")
        for name, function in (("key", key), ("cost", cost)):
            if function is not None and not callable(function):
                raise ArgumentError("", name, shown(function), "a function of a Request")
        self.app, self.limiter, self.key, self.cost = app, limiter, key or key_by_ip(), cost or (lambda request: 1)

    def _question(self, request: Request) -> Union[_Answer, Tuple[str, int]]:
        """The subject and the cost, or the answer to a request that is not counted."""
        cost = self.cost(request)
        try:
            subject = self._subject_of(request) if cost else ""
        except _NoPeer as error:
            warn(self.limiter.name, "no decision", error)
            return _refuse("500 Internal Server Error", "about:blank", "The server does not know who calls it", [])
        return (subject, cost) if subject else _no_key() if cost else _Answer([])

    def _subject_of(self, request: Request) -> str:
        found: Any = self.key(request)
        values = found if isinstance(found, (list, tuple)) else [found]
        return subject_of(*values) if values and all(value and is_text(value) for value in values) else ""


class WSGI(_Middleware):
    """WSGI middleware around app. limiter is one of sluice_redis.Limits. key says whom a request is counted for, by
    default the address of the connection; cost says how many permits it takes, by default 1."""

    _kind, _module, _wanted = "a WSGI application", "sluice_redis", _sync.Limiter

    def __call__(self, environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def raw(name: str) -> List[bytes]:
            value = environ.get("HTTP_" + name.upper().replace("-", "_"))
            return [] if value is None else [str(value).encode("latin-1", "replace")]

        path = _text(environ.get("PATH_INFO", "").encode("latin-1", "replace"))
        answer = self._decide(Request(environ.get("REMOTE_ADDR", ""), raw, path, environ))
        if answer.status:
            start_response(answer.status, answer.headers)
            return [] if environ.get("REQUEST_METHOD") == "HEAD" else [answer.body]

        def start(status: str, headers: Headers, *more: Any) -> Any:
            return start_response(status, [*headers, *answer.headers], *more)

        return self.app(environ, start)  # type: ignore[no-any-return]

    def _decide(self, request: Request) -> _Answer:
        question = self._question(request)
        if isinstance(question, _Answer):
            return question
        try:
            return _answer(self.limiter, self.limiter.allow_n(*question))
        except SluiceError as error:
            return _failed(self.limiter.name, error)


class ASGI(_Middleware):
    """ASGI middleware around app, for HTTP requests (WebSockets are passed on). limiter is one of
    sluice_redis.aio.Limits; key and cost are as of WSGI. With Starlette: app.add_middleware(ASGI, limiter=limiter)."""

    _kind, _module, _wanted = "an ASGI application", "sluice_redis.aio", aio.Limiter

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = await self._decide(scope)
        added = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
        if answer.status:
            await send({"type": "http.response.start", "status": int(answer.status[:3]), "headers": added})
            body = b"" if scope.get("method") == "HEAD" else answer.body
            return await send({"type": "http.response.body", "body": body})

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self.app(scope, receive, send_on)

    async def _decide(self, scope: Any) -> _Answer:
        def raw(name: str) -> List[bytes]:
            return [value for field, value in scope["headers"] if field == name.lower().encode()]

        raw_path = scope.get("raw_path")
        path = unquote_to_bytes(raw_path.partition(b"?")[0]) if raw_path else scope.get("path", "").encode()
        question = self._question(Request((scope.get("client") or [""])[0] or "", raw, _text(path), scope))
        if isinstance(question, _Answer):
            return question
        try:
            return _answer(self.limiter, await self.limiter.allow_n(*question))
        except SluiceError as error:
            return _failed(self.limiter.name, error)


def fastapi_limit(limiter: aio.Limiter, key: Optional[Key] = None, cost: Optional[Cost] = None) -> Callable[..., Any]:
    """A FastAPI dependency that limits one route: `@app.post("/login", dependencies=[Depends(fastapi_limit(login))])`;
    of a WebSocket route the handshake. A refusal is an HTTPException, so an application that handles those sees it; its
    detail is the body of the middleware. It adds no headers to a Response that a route returns itself: there a grant
    has no RateLimit."""
    from fastapi import HTTPException, Response
    from fastapi.exception_handlers import http_exception_handler
    from starlette.exceptions import HTTPException as Handled
    from starlette.requests import HTTPConnection

    middleware, (refused, refuse) = ASGI(fastapi_limit, limiter, key, cost), _fastapi_refusal()

    async def limit(connection: HTTPConnection, response: Response) -> None:
        answer = await middleware._decide(connection.scope)
        if answer.status:
            kind, handlers = HTTPException, connection.scope.get("starlette.exception_handlers", [{}])[0]
            handler = handlers.get(HTTPException, handlers.get(Handled))
            if connection.scope["type"] == "websocket" or handler is http_exception_handler:
                kind, handlers[refused] = refused, refuse
            headers = {name: value for name, value in answer.headers if not name.startswith("Content-")}
            raise kind(int(answer.status[:3]), json.loads(answer.body), headers)
        for name, value in answer.headers:
            response.headers.append(name, value)

    return limit


@functools.lru_cache(maxsize=None)
def _fastapi_refusal() -> Tuple[Any, Any]:
    """An HTTPException, and its handler."""
    from fastapi import HTTPException, Response

    class Refused(HTTPException):
        pass

    async def refuse(connection: Any, refused: Refused) -> Any:
        scope = connection.scope
        body = "" if scope.get("method") == "HEAD" else json.dumps(refused.detail)
        response = Response(body, refused.status_code, refused.headers, "application/problem+json")
        if scope["type"] == "http":
            return response
        if "websocket.http.response" in scope.get("extensions", {}):
            return await connection.send_denial_response(response)
        return await connection.close(1008)

    return Refused, refuse
