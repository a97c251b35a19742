"""Middleware that limits the requests of WSGI and ASGI applications (Flask, Django; FastAPI, Starlette):

    app.wsgi_app = WSGI(app.wsgi_app, limits.list_log("api", permits=100, window=timedelta(minutes=1)))

A request over the limit gets status 429 with Retry-After, and all responses have RateLimit-Policy and RateLimit of
draft-ietf-httpapi-ratelimit-headers-11. While Redis does not decide, the limiter's on_failure does; with "error" and
"deny" the status is 503. Bodies of refusals are application/problem+json (RFC 9457).
"""

import asyncio
import functools
import inspect
import json
import threading
from collections import deque
from datetime import timedelta
from http.client import responses
from typing import (
    Any, Awaitable, Callable, Coroutine, Deque, Generic, Iterable, List, Mapping, Optional, Sequence, Tuple, Type,
    TypeVar, Union,
)  # fmt: skip
from urllib.parse import unquote_to_bytes

from . import _sync, aio
from ._admission import Asked, NoKey, Result, asked, given_back, held, result_of
from ._errors import ArgumentError, ExceedsLimitError, SluiceError, shown, warn
from ._headers import Answer, Headers, headers_of, headers_of_all, problem
from ._keys import Cost, Key, NoPeer, Request, _text, key_by_header, key_by_ip, subject_of
from ._types import DAY_US, check_duration, check_int

__all__ = [
    "ASGI", "WSGI", "Charge", "Charges", "Cost", "CountResponses", "Headers", "Key", "Refusal", "Request", "Result",
    "fastapi_limit", "headers_of", "key_by_header", "key_by_ip", "subject_of",
]  # fmt: skip

L = TypeVar("L", _sync.Limiter, aio.Limiter)
Values = Union[str, Sequence[str]]
Charge = Union[Tuple[L, Values], Tuple[L, Values, int]]
"""A limiter, whom it counts for (what a Key returns), and the permits: 1 if they are left out."""
Charges = Callable[[Request], Union[Sequence[Charge[L]], Awaitable[Sequence[Charge[L]]]]]
"""Says what a request is charged: nothing if it is not limited, or several limiters of one Limits, all or none. With
ASGI it may be async."""
Refusal = Tuple[int, Mapping[str, str], bytes]
"""An answer of your own: status, headers and body."""
_CHARGED = "sluice_redis.charged"  # in a scope: what counts by the status of the response
_HANDSHAKE = {"websocket.accept": 101, "websocket.close": 403}


class _Middleware(Generic[L]):
    """What both kinds have. app is what they are around.

    limiter decides about all requests: key says whom one is counted for (by default the address of the connection), and
    cost how many permits it takes (by default 1). Or limiter is a function from the request to its charges.

    count says by the status of the response whether the request counts, as `lambda status: status == 401`: it is
    charged before, and given back when a response begins that does not count. refuse answers refusals in its own way;
    for None the package does. With shadow every request goes on, and no headers are added. observe is told of each
    decision, for logs and metrics. With max_wait (up to a day) a request is held until its permits come, if that is in
    time; at most max_delayed are held, and beyond it who would have to wait is refused at once."""

    _kind: str
    _module: str
    _wanted: Type[Any]
    _awaits = False

    def __init__(
        self, app: Any, limiter: Union[L, Charges[L]], key: Optional[Key] = None, cost: Optional[Cost] = None, *,
        count: Optional[Callable[[int], bool]] = None,
        refuse: Optional[Callable[[Request, Result], Optional[Refusal]]] = None, shadow: bool = False,
        observe: Optional[Callable[[Request, Result], object]] = None, max_wait: timedelta = timedelta(),
        max_delayed: int = 1000,
    ) -> None:
        if not callable(app):
            raise ArgumentError("", "app", shown(app), self._kind)
        functions = {"key": key, "cost": cost, "count": count, "refuse": refuse, "observe": observe}
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ArgumentError("", name, shown(function), "a function")
        if not isinstance(shadow, bool):
            raise ArgumentError("", "shadow", shown(shadow), "a bool")
        self.app, self.count, self.refuse, self.observe, self.shadow = app, count, refuse, observe, shadow
        self.max_wait = check_duration("", "max_wait", max_wait, 0, DAY_US) / 1e6 if not shadow else 0
        self.places = threading.Semaphore(check_int("", "max_delayed", max_delayed, 1))
        self.name, self.charges = getattr(limiter, "name", "middleware"), self._charges(limiter, key, cost)

    def _charges(self, limiter: Any, key: Optional[Key], cost: Optional[Cost]) -> Callable[[Request], Any]:
        if isinstance(limiter, self._wanted):
            self._asked([(limiter, "any")])
            by, costs = key or key_by_ip(), cost or (lambda request: 1)
            return lambda request: [(limiter, by(request), n) for n in [costs(request)] if n != 0]
        if not callable(limiter):
            want = f"a limiter of {self._module}.Limits that has allow, or a function of a Request"
            raise ArgumentError("", "limiter", shown(limiter), want)
        if key or cost:
            want = "none: the charges say whom they are for, and how many permits"
            raise ArgumentError("", "key" if key else "cost", "", want)
        return limiter  # type: ignore[no-any-return]

    def _asked(self, charges: Any) -> List[Asked]:
        return asked(charges, self._wanted, self.count is not None)

    async def _decided(self, request: Request) -> Answer:
        """Of WSGI it awaits nothing."""
        parts: List[Asked] = []
        try:
            charges = self.charges(request)
            parts = self._asked(await charges if self._awaits and inspect.isawaitable(charges) else charges)
            if not parts:
                return Answer([])
            driven = parts[0][0]._driver.drive(held(parts, self.max_wait, self.places))
            decisions = await driven if self._awaits else driven
        except SluiceError as error:
            return self._answer(request, parts, (), error)
        return self._answer(request, parts, decisions)

    def _answer(
        self, request: Request, parts: Sequence[Asked], decisions: Any = (), error: Optional[SluiceError] = None
    ) -> Answer:
        if isinstance(error, ArgumentError) and not isinstance(error, (NoPeer, NoKey, ExceedsLimitError)):
            raise error
        result = result_of(decisions, error)
        if error and result.status >= 500:
            warn(self.name, "no decision", error)
        if self.observe:
            self.observe(request, result)
        charged = [(face, subject, d) for (face, subject, _), (_, d) in zip(parts, decisions) if self.count]
        headers = [] if self.shadow else headers_of_all(result.decisions)
        if self.shadow or not result.status:
            return Answer(headers, charged=[] if result.status else charged)
        own = self.refuse(request, result) if self.refuse else None
        refusal: Refusal = own or problem(result.status, result.decisions)
        headers += [("Content-Length", str(len(refusal[2]))), *refusal[1].items()]
        status = f"{refusal[0]} {responses.get(refusal[0], 'Refused')}"
        return Answer(headers, status, refusal[2], is_own=own is not None)


def _at_once(deciding: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine returns that awaits nothing."""
    try:
        deciding.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("WSGI cannot wait")


class WSGI(_Middleware[_sync.Limiter]):
    __doc__ = f"""WSGI middleware around app. limiter is one of sluice_redis.Limits. {_Middleware.__doc__}"""

    _kind, _module, _wanted = "a WSGI application", "sluice_redis", _sync.Limiter

    def __call__(self, environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def raw(name: str) -> List[bytes]:
            value = environ.get("HTTP_" + name.upper().replace("-", "_"))
            return [] if value is None else [str(value).encode("latin-1", "replace")]

        path = _text(environ.get("PATH_INFO", "").encode("latin-1", "replace"))
        answer = _at_once(self._decided(Request(environ.get("REMOTE_ADDR", ""), raw, path, environ)))
        if answer.status:
            start_response(answer.status, answer.headers)
            return [] if environ.get("REQUEST_METHOD") == "HEAD" else [answer.body]
        charged = answer.charged

        def start(status: str, headers: Headers, *more: Any) -> Any:
            nonlocal charged
            if charged and self.count and not self.count(int(status[:3])):
                charged = charged[0][0]._driver.drive(given_back(charged))
            return start_response(status, [*headers, *answer.headers], *more)

        return self.app(environ, start)  # type: ignore[no-any-return]


class ASGI(_Middleware[aio.Limiter]):
    __doc__ = f"""ASGI middleware around app, for HTTP requests (WebSockets are passed on). limiter is one of
    sluice_redis.aio.Limits. With Starlette: app.add_middleware(ASGI, limiter=limiter). {_Middleware.__doc__}"""

    _kind, _module, _wanted, _awaits = "an ASGI application", "sluice_redis.aio", aio.Limiter, True

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        watch = _Watch(receive)
        answer = await (watch.until_left(self._decide(scope)) if self.max_wait else self._decide(scope))
        if answer is None:
            return
        added = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
        if answer.status:
            await send({"type": "http.response.start", "status": int(answer.status[:3]), "headers": added})
            body = b"" if scope.get("method") == "HEAD" else answer.body
            return await send({"type": "http.response.body", "body": body})
        charged = [(self.count, answer.charged)] if answer.charged else []

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                await _count(charged, message)
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self.app(scope, watch.receive, send_on)

    async def _decide(self, scope: Any) -> Answer:
        def raw(name: str) -> List[bytes]:
            return [value for field, value in scope["headers"] if field == name.lower().encode()]

        raw_path = scope.get("raw_path")
        path = unquote_to_bytes(raw_path.partition(b"?")[0]) if raw_path else scope.get("path", "").encode()
        request = Request((scope.get("client") or [""])[0] or "", raw, _text(path), scope)
        return await self._decided(request)


async def _count(charged: List[Any], message: Any) -> None:
    """Gives back what a request was charged that does not count by the status with which its response begins."""
    status = message.get("status", _HANDSHAKE.get(message["type"]))
    while status and charged:
        count, parts = charged.pop()
        if not count(status):
            await parts[0][0]._driver.drive(given_back(parts))


class CountResponses:
    """ASGI middleware that tells fastapi_limit with which status a response begins: its option count needs it, once for
    an application, as `app.add_middleware(CountResponses)`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        charged: List[Any] = []

        async def send_on(message: Any) -> None:
            await _count(charged, message)
            await send(message)

        await self.app({**scope, _CHARGED: charged}, receive, send_on)


class _Watch:
    """Notices that the client leaves while its request is held. What that reads of the request is for the application:
    its body up to a first part after which there is more."""

    def __init__(self, receive: Callable[[], Awaitable[Any]]) -> None:
        self.next = receive
        self.read: Deque[Any] = deque()

    async def receive(self) -> Any:
        return self.read.popleft() if self.read else await self.next()

    async def until_left(self, deciding: Coroutine[Any, Any, Answer]) -> Optional[Answer]:
        """The answer; None if the client has left before."""
        answer, left = asyncio.ensure_future(deciding), asyncio.ensure_future(self._left())
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
            return None if left.done() and left.result() and not answer.done() else await answer
        finally:
            answer.cancel()
            left.cancel()
            await asyncio.wait({answer, left})

    async def _left(self) -> bool:
        while not self.read or not self.read[-1].get("more_body"):
            self.read.append(await self.next())
            if self.read[-1]["type"] == "http.disconnect":
                return True
        return False


def fastapi_limit(
    limiter: Union[aio.Limiter, Charges[aio.Limiter]], key: Optional[Key] = None, cost: Optional[Cost] = None, *,
    count: Optional[Callable[[int], bool]] = None,
    refuse: Optional[Callable[[Request, Result], Optional[Refusal]]] = None, shadow: bool = False,
    observe: Optional[Callable[[Request, Result], object]] = None, max_wait: timedelta = timedelta(),
    max_delayed: int = 1000,
) -> Callable[..., Any]:
    """A FastAPI dependency that limits one route: `@app.post("/login", dependencies=[Depends(fastapi_limit(login))])`;
    of a WebSocket route the handshake. Its options are those of ASGI; count needs `app.add_middleware(CountResponses)`,
    because a dependency does not learn of the response, and takes a handshake as 101 or 403.

    A refusal is an HTTPException, so an application that handles those sees it, but for the answers of refuse; its
    detail is the body of the middleware. It adds no headers to a Response that a route returns itself: there a grant
    has no RateLimit."""
    from fastapi import HTTPException, Response
    from fastapi.exception_handlers import http_exception_handler
    from starlette.exceptions import HTTPException as Handled
    from starlette.requests import HTTPConnection

    middleware = ASGI(
        fastapi_limit, limiter, key, cost, count=count, refuse=refuse, shadow=shadow, observe=observe,
        max_wait=max_wait, max_delayed=max_delayed,
    )  # fmt: skip
    refused, answer_refused = _fastapi_refusal()

    async def limit(connection: HTTPConnection, response: Response) -> None:
        scope = connection.scope
        if count and _CHARGED not in scope:
            raise ArgumentError("fastapi_limit", "count", "", "app.add_middleware(sluice_redis.http.CountResponses)")
        answer = await middleware._decide(scope)
        if answer.status:
            status, headers = int(answer.status[:3]), dict(answer.headers)
            handlers = scope.get("starlette.exception_handlers", [{}])[0]
            handler = handlers.get(HTTPException, handlers.get(Handled))
            if answer.is_own or scope["type"] == "websocket" or handler is http_exception_handler:
                handlers[refused] = answer_refused
                raise refused(status, answer.body, headers)
            shown = {name: value for name, value in headers.items() if not name.startswith("Content-")}
            raise HTTPException(status, json.loads(answer.body), shown)
        if answer.charged:
            scope[_CHARGED].append((count, answer.charged))
        for name, value in answer.headers:
            response.headers.append(name, value)

    return limit


@functools.lru_cache(maxsize=None)
def _fastapi_refusal() -> Tuple[Any, Any]:
    """An HTTPException whose detail is a body, and its handler."""
    from fastapi import HTTPException, Response

    class Refused(HTTPException):
        pass

    async def answer(connection: Any, refused: Refused) -> Any:
        scope = connection.scope
        body = b"" if scope.get("method") == "HEAD" else refused.detail
        response = Response(body, refused.status_code, refused.headers)
        if scope["type"] == "http":
            return response
        if "websocket.http.response" in scope.get("extensions", {}):
            return await connection.send_denial_response(response)
        return await connection.close(1008)

    return Refused, answer
