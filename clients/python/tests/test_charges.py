"""The middleware with charges for each request, and what it does beside: count, refuse, shadow, observe, wait."""

import asyncio
import json
from datetime import timedelta

import pytest
import redis
import redis.asyncio
from both import in_a_loop
from servers import until
from test_http import HOUR, MINUTE, ask, get, hello, hello_async, serve  # noqa: F401

from sluice_redis import ArgumentError, Limit, Limits, aio
from sluice_redis.http import ASGI, WSGI, CountResponses, fastapi_limit, key_by_ip


def plans(limits, name="api"):
    """Charges of a request: by its plan, and of a path that is not limited none."""

    def charges(request):
        permits = {"free": 1, "team": 2}[request.header("X-Plan") or "free"]
        who = key_by_ip()(request), "ada"
        both = [(limits.list_log(name, permits, MINUTE), who), (limits.quota("month", 4, "month"), "ada", 2)]
        return [] if request.header("X-Free") else [] + both[: int(request.header("X-Count") or 2)]

    return charges


def test_charges(serve, server):
    """All or none, and the headers of all that were asked."""
    port = serve(plans)
    assert "ratelimit" not in get(port, X_Free="yes")[1]
    status, headers, _ = get(port)
    assert (status, headers["ratelimit-policy"][:16]) == (200, '"api";q=1;w=60, ')
    assert '"month";q=4;w=' in headers["ratelimit-policy"] and '"month";r=2;t=' in headers["ratelimit"]
    calls = [("free", 1), ("team", 1), ("team", 1)]
    assert [get(port, X_Plan=plan, X_Count=n)[0] for plan, n in calls] == [429, 200, 429]
    status, headers, body = get(port)
    assert status == 429 and headers["ratelimit-policy"] == '"api";q=1;w=60' and int(headers["retry-after"]) > 50
    assert json.loads(body)["violated-policies"] == ["api"]
    assert server.client.exists("sluice:api:{127.0.0.1|ada}:ll1")


def test_count(serve, server):
    """Only failures count; what they were charged beside goes back, too."""
    port = serve(plans, count=lambda status: status == 401)
    assert [get(port, X_Plan="free", X_Status=s)[0] for s in ("200", "302", "401", "200")] == [200, 302, 401, 429]
    month = Limits(server.client).quota("month", 4, "month")
    until(lambda: month.peek("ada").remaining == 2)  # what a denial was charged goes back in the background


def test_refuse(serve):
    """For None the answer is the package's; docs/clients and test_fastapi_counts_and_refuses have own ones."""
    port = serve(lambda limits: limits.list_log("own", 0, MINUTE), refuse=lambda request, result: None)
    assert get(port)[1]["content-type"] == "application/problem+json"


@in_a_loop
async def test_fastapi_counts_and_refuses(server):
    """As the middleware does: by the response, however the route makes it; of a WebSocket by its handshake."""
    from fastapi import Depends, FastAPI, HTTPException, WebSocket
    from fastapi.responses import JSONResponse, PlainTextResponse

    limits, app = aio.Limits(redis.asyncio.Redis(port=server.port)), FastAPI()
    failed, codes = limits.list_log("failed", 3, MINUTE), {"own": (420, {"Content-Type": "x/own"}, b"own")}
    refuse = lambda request, result: codes.get(request.header("X-Refuse"))
    limit = Depends(fastapi_limit(failed, lambda request: "ada", count=lambda s: s in (401, 403), refuse=refuse))

    @app.get("/{status}", dependencies=[limit])
    async def answer(status: int, how: str):
        if how == "raised":
            raise HTTPException(status)
        return JSONResponse({}, status) if how == "response" else {}

    @app.websocket("/{code}", dependencies=[limit])
    async def talk(websocket: WebSocket, code: int):
        await (websocket.accept() if code == 101 else websocket.close())

    async def call(path, how="", **scope):
        found = await ask(app, path=path, raw_path=path.encode(), query_string=b"how=" + how.encode(), **scope)
        return found[0], found[-1].get("body")

    with pytest.raises(ArgumentError, match=r"count: want app.add_middleware\(sluice_redis.http.CountResponses"):
        await call("/200")
    app.middleware_stack = None
    app.add_middleware(CountResponses)
    left = []
    for call_of in ("/401 raised", "/200 raised", "/401 response", "/200 response", "/2 "):
        await call(*call_of.split(" "))
        left.append((await failed.peek("ada")).remaining)
    await call("/101", type="websocket")
    await call("/403", type="websocket")
    assert left + [(await failed.peek("ada")).remaining] == [2, 2, 1, 1, 1, 0]
    own = [(b"x-refuse", b"own")]
    start, body = await call("/200", headers=own)
    headers = dict(start["headers"])
    assert (start["status"], headers[b"content-type"], body) == (420, b"x/own", b"own") and headers[b"retry-after"]
    app.add_exception_handler(HTTPException, lambda request, error: PlainTextResponse("handled"))
    app.middleware_stack = None
    assert [(await call("/200", headers=h))[1] for h in (own, [])] == [b"own", b"handled"]
    await limits.close()


def test_shadow_and_observe(serve, server):
    results = []

    def note(request, result):
        results.append((result.status, [(n, d.remaining) for n, d in result.decisions], result.retry_after_seconds))

    port = serve(lambda limits: limits.list_log("s", 1, MINUTE), shadow=True, observe=note, max_wait=HOUR)
    assert [get(port)[0], get(port)[0], "ratelimit" in get(port)[1]] == [200, 200, False]
    with server.frozen():
        assert get(port)[0] == 200
    assert results == [(0, [("s", 0)], 0), (429, [("s", 0)], 60), (429, [("s", 0)], 60), (503, [], 0)]


def test_wrong_charges():
    """A plan that is not known is not unlimited."""
    limits = Limits(redis.Redis(port=1))
    smooth = limits.gcra("x", 1, MINUTE)
    for charges, options, text in (
        (None, {}, "charges None: want a list of (limiter, subject, permits)"),
        ([None], {}, "charges None: want a list of (limiter, subject, permits)"),
        ([smooth], {}, "charges sluice_redis._sync.GCRA: want a list of (limiter, subject, permits)"),
        ([(smooth, "a", -1)], {}, "x: cost -1: want 0 or more"),
        ([(smooth, "a")], {"count": bool}, "(limiter, subject, permits) that can give back, for count"),
        ([(smooth, "a"), (smooth, "b")], {}, "all: limiter sluice_redis._sync.GCRA: want one that can give back"),
    ):
        with pytest.raises(ArgumentError) as wrong:
            WSGI(hello, lambda request: charges, **options)({}, None)
        assert text in str(wrong.value)
    with pytest.raises(ArgumentError, match="x: cost None: want an int"):
        WSGI(hello, smooth, lambda request: "a", lambda request: None)({}, None)
    said = []
    WSGI(hello, lambda request: [(smooth, "")])({}, lambda status, headers: said.append(status))
    assert said == ["400 Bad Request"]


SHORT = timedelta(milliseconds=200)


@pytest.mark.parametrize("make", [
    lambda limits: limits.list_log("w", 1, SHORT),
    lambda limits: limits.slice_ring("w", [Limit(1, SHORT)]),
    lambda limits: lambda request: [(limits.list_log("w", 1, SHORT), "a"), (limits.list_log("v", 1, SHORT), "a")],
])  # fmt: skip
def test_max_wait(serve, make):
    """A request is held until its permit comes, if that is in time: a booking, or asking again."""
    results = []
    port = serve(make, max_wait=MINUTE, observe=lambda request, result: results.append(result))
    assert [get(port)[0] for _ in range(3)] == [200, 200, 200] and not any(result.status for result in results)
    for result in results[1:]:
        assert result.decisions[0][1].now - results[0].decisions[0][1].now + result.decisions[0][1].wait >= SHORT


def test_wait_too_long(serve):
    port = serve(lambda limits: limits.list_log("w", 1, HOUR), max_wait=SHORT)
    assert [get(port)[0], get(port)[0]] == [200, 429]


@in_a_loop
async def test_who_leaves_gives_back(server):
    """And at most max_delayed requests are held."""
    limits = aio.Limits(redis.asyncio.Redis(port=server.port))
    limiter, events, sent = limits.list_log("w", 1, MINUTE), asyncio.Queue(), []
    app = ASGI(hello_async, limiter, key=lambda request: "ada", max_wait=HOUR, max_delayed=1)

    async def send(message):
        sent.append(message.get("status"))

    call = lambda receive: app({"type": "http", "headers": [], "path": "/"}, receive, send)
    await call(asyncio.Queue().get)
    held = asyncio.ensure_future(call(events.get))
    while (await limiter.peek("ada")).reset_after <= MINUTE:
        pass  # each look lets it go on
    await call(asyncio.Queue().get)
    assert sent == [200, None, 429, None] and not held.done()
    events.put_nowait({"type": "http.request"})
    events.put_nowait({"type": "http.disconnect"})
    await held
    assert await limits.flush() and (await limiter.peek("ada")).reset_after <= MINUTE and sent[4:] == []
    await limits.close()


@in_a_loop
async def test_body_of_a_held_request(server):
    """The application reads what the middleware has read before."""
    limits, parts = aio.Limits(redis.asyncio.Redis(port=server.port)), [b"a", b"b", b"c"]
    read = []

    async def receive():
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def app(scope, receive, send):
        while not read or read[-1]["more_body"]:
            read.append(await receive())

    scope = {"type": "http", "headers": [], "path": "/", "client": ("192.0.2.1", 1)}
    await ASGI(app, limits.list_log("w", 1, MINUTE), max_wait=MINUTE)(scope, receive, None)
    assert [message["body"] for message in read] == [b"a", b"b", b"c"]
    await limits.close()


@in_a_loop
async def test_async_charges(server):
    limits = aio.Limits(redis.asyncio.Redis(port=server.port))

    async def charges(request):
        await asyncio.sleep(0)
        return [(limits.list_log("w", 1, MINUTE), "ada")]

    app = ASGI(hello_async, charges)
    assert [(await ask(app))[0]["status"] for _ in "ab"] == [200, 429]
    await limits.close()
