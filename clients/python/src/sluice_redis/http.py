"""Middleware that limits the requests of WSGI and ASGI applications (Flask, Django; FastAPI, Starlette):

    app.wsgi_app = WSGI(app.wsgi_app, limits.list_log("api", permits=100, window=timedelta(minutes=1)))

A request over the limit gets status 429 with Retry-After, and all responses have RateLimit-Policy and RateLimit of
draft-ietf-httpapi-ratelimit-headers-11. While Redis does not decide, the limiter's on_failure does; with "error" and
"deny" the status is 503. Bodies of refusals are application/problem+json (RFC 9457).
"""

import functools
import json
from typing import Any, Awaitable, Callable, Iterable, List, Optional, Tuple, Type, Union
from urllib.parse import unquote_to_bytes

from . import _sync, aio
from ._errors import ArgumentError, SluiceError, shown
from ._headers import Headers, _Answer, _answer, _failed, _no_key, _refuse, headers_of
from ._keys import Cost, Key, NoPeer, Request, _text, key_by_header, key_by_ip, subject_of
from ._log import warn
from ._types import is_text

__all__ = [
    "ASGI", "WSGI", "Cost", "Headers", "Key", "Request", "fastapi_limit", "headers_of", "key_by_header", "key_by_ip",
    "subject_of",
]  # fmt: skip


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
        except NoPeer as error:
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
