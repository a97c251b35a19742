"""The middleware, over real HTTP servers."""

import asyncio
import http.client
import json
import logging
import socket
import threading
import wsgiref.simple_server
from datetime import timedelta
from urllib.parse import unquote_to_bytes

import pytest
import redis
import redis.asyncio
import uvicorn
from both import in_a_loop
from servers import ROOT, until

from sluice_redis import ArgumentError, Decision, Limit, Limits, _errors, aio
from sluice_redis.http import ASGI, WSGI, Request, fastapi_limit, headers_of, key_by_header, key_by_ip, subject_of

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


def hello(environ, start_response):
    start_response(environ.get("HTTP_X_STATUS", "200") + " said", [("Content-Type", "text/plain")])
    return [b"hello"]


async def hello_async(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    status = int(dict(scope["headers"]).get(b"x-status", 200))
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


class Wsgi:
    def __init__(self, port, make, **options):
        limits = Limits(redis.Redis(port=port), timeout=timedelta(milliseconds=300))
        app = options.pop("app", None) or WSGI(hello, make(limits), **options)
        self.server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Asgi:
    def __init__(self, port, make, **options):
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.ready = threading.Event()
        threading.Thread(target=self.run, args=(listener, port, make, options), daemon=True).start()
        assert self.ready.wait(20)

    def run(self, listener, port, make, options):
        async def main():
            limits = aio.Limits(redis.asyncio.Redis(port=port), timeout=timedelta(milliseconds=300))
            limiter = make(limits)
            app = options.pop("app", None) or ASGI(hello_async, limiter, **options)
            config = uvicorn.Config(app, log_level="error")
            self.server = uvicorn.Server(config)
            self.ready.set()
            await self.server.serve(sockets=[listener])

        asyncio.run(main())

    def stop(self):
        self.server.should_exit = True


@pytest.fixture(params=[Wsgi, Asgi])
def serve(request, server):
    running = []

    def start(make, **options):
        running.append(request.param(server.port, make, **options))
        return running[-1].port

    yield start
    for one in running:
        one.stop()


def get(port, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/", headers={name.replace("_", "-"): str(value) for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def test_limit(serve):
    port = serve(lambda limits: limits.list_log("login", 2, MINUTE))
    status, headers, body = get(port)
    assert (status, body, headers["ratelimit-policy"]) == (200, b"hello", '"login";q=2;w=60')
    assert headers["ratelimit"] == '"login";r=1;t=60' and "retry-after" not in headers
    get(port)
    status, headers, body = get(port)
    assert status == 429 and 50 < int(headers["retry-after"]) <= 60
    assert headers["ratelimit"] == f'"login";r=0;t={headers["retry-after"]}'
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "status": 429,
        "title": "Request cannot be satisfied as assigned quota has been exceeded", "violated-policies": ["login"],
    }  # fmt: skip


def test_windows(serve):
    port = serve(lambda limits: limits.slice_ring("api", [Limit(100, HOUR), Limit(5, MINUTE)]))
    headers = get(port)[1]
    assert headers["ratelimit-policy"] == '"api-1m";q=5;w=61, "api-1h";q=100;w=3618'
    assert headers["ratelimit"].startswith('"api-1m";r=4;t=6')
    _, headers, body = [get(port) for _ in range(5)][-1]
    assert headers["ratelimit"].startswith('"api-1m";r=0;t=') and '"api-1h";r=95;t=' in headers["ratelimit"]
    assert json.loads(body)["violated-policies"] == ["api-1m"]
    headers = get(serve(lambda limits: limits.slice_ring("api", [Limit(5, timedelta(seconds=1))])))[1]
    assert (headers["ratelimit-policy"], headers["ratelimit"]) == ('"api";q=5;w=1', '"api";r=4;t=1')


@pytest.mark.parametrize("policy, status", [("error", 503), ("deny", 503), ("open", 200)])
def test_redis_is_down(serve, server, policy, status, caplog):
    _errors.logged.clear()
    port = serve(lambda limits: limits.list_log("api", 1, MINUTE, on_failure=policy))
    with server.frozen():
        got, headers, body = get(port)
    assert got == status and "ratelimit" not in headers
    logged = [text for text in map(logging.LogRecord.getMessage, caplog.records) if text.startswith("api: ")]
    assert logged[0].startswith("api: no decision: " if policy == "error" else f"api: on_failure={policy!r} decides: ")
    if status == 503:
        assert json.loads(body)["type"].endswith("#temporary-reduced-capacity")
    until(lambda: get(port)[0] == 200 or policy != "open")


def test_gcra_headers(server):
    limits = Limits(server.client)
    burst, none, one = limits.gcra("x", 5, MINUTE, burst=10), limits.gcra("x", 0, MINUTE), limits.gcra("y", 1, MINUTE)
    assert headers_of(burst, burst.allow("a"))[0] == ("RateLimit-Policy", '"x";q=10;w=120')
    assert "Retry-After" not in dict(headers_of(one, one.allow("a")))
    assert dict(headers_of(one, one.allow("a")))["Retry-After"] == "60"
    assert headers_of(none, none.allow("a")) == [("RateLimit-Policy", '"x";q=0;w=60'), ("RateLimit", '"x";r=0')]


VECTORS = json.loads((ROOT / "httplimit" / "testdata" / "subjects.json").read_text())


def subjects_for(key, peer="192.0.2.1", path="/", **headers):
    """The subjects that both middlewares ask about; None if they refuse the request, 500 if it is the server's fault. A
    header has lines of bytes."""
    asked, refusals = [], {"400": None, "500": 500}
    limits, granted = Limits(redis.Redis()), Decision(True, Limit(1, MINUTE))
    limiter = limits.list_log("x", 1, MINUTE)

    def allow_n(subject, n):
        asked.append(subject)
        yield from ()
        return granted

    limiter._core.allow_n = allow_n
    environ = {"REMOTE_ADDR": peer, "PATH_INFO": unquote_to_bytes(path).decode("latin-1")}
    environ.update({f"HTTP_{name}": b",".join(lines).decode("latin-1") for name, lines in headers.items()})

    def start(status, headers):
        if status[:3] in refusals:
            asked.append(refusals[status[:3]])

    WSGI(hello, limiter, key)(environ, start)

    async def call():
        limiter = aio.Limits(redis.asyncio.Redis()).list_log("x", 1, MINUTE)

        async def send(message):
            if str(message.get("status")) in refusals:
                asked.append(refusals[str(message["status"])])

        limiter._core.allow_n = allow_n
        fields = [(name.lower().replace("_", "-").encode(), line) for name, lines in headers.items() for line in lines]
        scope = {"type": "http", "headers": fields, "client": (peer, 1) if peer else None, "raw_path": path.encode()}
        await ASGI(hello_async, limiter, key)(scope, None, send)

    asyncio.run(call())
    assert asked[0] == asked[1] and len(asked) == 2, asked
    return asked[0]


def test_subjects():
    """As the middleware of every language makes them."""
    for case in VECTORS["subjects"]:
        values = case["values"]
        assert subject_of(*values) == case["subject"]
        assert subjects_for(lambda request: values) == (case["subject"] if all(values) else None)
    for case in VECTORS["headers"]:
        assert subjects_for(key_by_header("X-Key"), X_KEY=[bytes.fromhex(case["hex"])]) == case.get("subject"), case
    for case in VECTORS["paths"]:
        assert subjects_for(lambda request: request.path, path=case["path"]) == case.get("subject"), case
    for value in [*VECTORS["surrogates"], None, "", (), [5], 5, {"a": 1}, {"a"}, b"a"]:
        assert subjects_for(lambda request: value) is None, value


@pytest.mark.parametrize("case", [*VECTORS["x_forwarded_for"], *VECTORS["hops"]], ids=lambda case: case["name"])
def test_forwarded(case):
    lines = {"X_FORWARDED_FOR": [line.encode("latin-1") for line in case["lines"]]} if "lines" in case else {}
    key = key_by_ip(case.get("trust", ()), ipv6_prefix=case.get("ipv6_prefix", 64), hops=case.get("hops", 0))
    subject = subjects_for(key, peer=case["peer"], **lines)
    assert (None if subject == 500 else subject) == case.get("subject")


@pytest.mark.parametrize("case", VECTORS["addresses"], ids=lambda case: case["text"])
def test_addresses(case):
    """What an address is, of a peer and in a header."""
    text, line = case["text"], case["text"].encode("latin-1")
    assert subjects_for(key_by_ip(), peer=text) == case.get("subject", 500)
    assert subjects_for(key_by_ip(["10.0.0.1"]), peer="10.0.0.1", X_FORWARDED_FOR=[line]) == case.get("subject")
    behind = "192.0.2.1" if case.get("unix") else case.get("subject", 500)
    assert subjects_for(key_by_ip(["unix"]), peer=text, X_FORWARDED_FOR=[b"192.0.2.1"]) == behind


def test_who_trusts_everybody_is_warned(caplog):
    _errors.logged.clear()
    for proxy in ("10.0.0.0/8", "0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"):
        key_by_ip([proxy])
    assert [record.getMessage() for record in caplog.records] == [
        "key_by_ip: trusted_proxies has all addresses: who calls writes what they like: name the proxies"
    ]


def test_lines_of_a_header():
    """Of lines that differ an application may take another one than the limiter."""
    key = key_by_header("X-Key")
    for lines, want in {(): "", (b"a",): "a", (b"a", b"a"): "a", (b"a", b"b"): "", (b"a", b""): ""}.items():
        assert key(Request("192.0.2.1", lambda name: list(lines), "/", None)) == want


def test_cost(serve):
    port = serve(lambda limits: limits.list_log("api", 5, MINUTE), cost=lambda request: int(request.header("X-Cost")))
    assert [get(port, X_Cost=cost)[0] for cost in ("3", "3", "0", "2", "6")] == [200, 429, 200, 200, 429]


async def ask(app, **scope):
    """What an ASGI application sends."""
    sent, path = [], {"path": "/", "raw_path": b"/", "query_string": b"", "headers": [], **scope}

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": "GET", **path}, receive, send)
    return sent


@in_a_loop
async def test_head_has_no_body():
    wsgi = WSGI(hello, Limits(redis.Redis()).list_log("login", 3, MINUTE), key=lambda request: "")
    assert wsgi({"REQUEST_METHOD": "HEAD"}, lambda status, headers: None) == []
    limiter = aio.Limits(redis.asyncio.Redis()).list_log("login", 3, MINUTE)
    start, body = await ask(ASGI(hello_async, limiter, lambda request: ""), method="HEAD")
    assert start["status"] == 400 and body["body"] == b""


@in_a_loop
async def test_fastapi(server):
    """A dependency: the headers of a grant, and a refusal as the middleware's, of a WebSocket's handshake too."""
    from fastapi import Depends, FastAPI, HTTPException, WebSocket
    from fastapi.responses import PlainTextResponse

    limits = aio.Limits(redis.asyncio.Redis(port=server.port))
    app = FastAPI()
    login = [Depends(fastapi_limit(limits.list_log("login", 1, MINUTE), key=lambda request: "ada"))]
    app.api_route("/", methods=["GET", "HEAD"], dependencies=login)(lambda: "hello")

    async def talk(websocket: WebSocket):
        await websocket.accept()
        await websocket.close()

    app.websocket("/", dependencies=login)(talk)
    socket = {"type": "websocket", "extensions": {"websocket.http.response": {}}, "subprotocols": []}
    assert (await ask(app, **socket))[0]["type"] == "websocket.accept"
    await limits.list_log("login", 1, MINUTE).reset("ada")
    start, _ = await ask(app)
    assert start["status"] == 200 and dict(start["headers"])[b"ratelimit"] == b'"login";r=0;t=60'
    start, body = await ask(app)
    headers = dict(start["headers"])
    assert start["status"] == 429 and int(headers[b"retry-after"]) > 50
    assert headers[b"content-type"] == b"application/problem+json" and json.loads(body["body"])["status"] == 429
    assert (await ask(app, method="HEAD"))[1]["body"] == b""
    start, body = await ask(app, **socket)
    assert start["type"] == "websocket.http.response.start" and start["status"] == 429
    assert json.loads(body["body"])["violated-policies"] == ["login"]
    assert await ask(app, **{**socket, "extensions": {}}) == [
        {"type": "websocket.close", "code": 1008, "reason": ""}
    ]

    async def own(request, error):
        return PlainTextResponse(f"own {error.detail['status']}")

    app.add_exception_handler(HTTPException, own)
    app.middleware_stack = None
    assert (await ask(app))[1]["body"] == b"own 429"
    await limits.close()


@in_a_loop
async def test_cors(server):
    """CORSMiddleware answers a preflight before it is counted, and lets scripts of other origins read a 429."""
    from starlette.applications import Starlette
    from starlette.middleware.cors import CORSMiddleware

    limits = aio.Limits(redis.asyncio.Redis(port=server.port))
    app = Starlette()
    app.add_middleware(ASGI, limiter=limits.list_log("cors", 1, MINUTE), key=lambda request: "ada")
    app.add_middleware(CORSMiddleware, allow_origins=["*"], expose_headers=["Retry-After"])
    headers = [(b"origin", b"https://shop.example"), (b"access-control-request-method", b"GET")]
    methods = ("OPTIONS", "GET", "OPTIONS", "GET")
    answers = [(await ask(app, method=method, headers=headers))[0] for method in methods]
    assert [answer["status"] for answer in answers] == [200, 404, 200, 429]
    shown = dict(answers[3]["headers"])
    assert shown[b"access-control-allow-origin"] == b"*" and b"retry-after" in shown
    assert shown[b"access-control-expose-headers"] == b"Retry-After"
    await limits.close()


def test_wrong_arguments():
    async def made():
        return aio.Limits(redis.asyncio.Redis())

    limits, waiting = Limits(redis.Redis()), asyncio.run(made())
    for_threads, for_tasks = limits.gcra("x", 1, MINUTE), waiting.gcra("x", 1, MINUTE)
    for call, text in (
        (lambda: WSGI(None, for_threads), "app None: want a WSGI application"),
        (lambda: ASGI(None, for_tasks), "app None: want an ASGI application"),
        (lambda: WSGI(hello, for_tasks), ": want a limiter of sluice_redis.Limits that has allow"),
        (lambda: WSGI(hello, limits.budget("x", [Limit(1, MINUTE)])), ": want a limiter of sluice_redis.Limits that"),
        (lambda: WSGI(hello, limits), ": want a limiter of sluice_redis.Limits that has allow"),
        (lambda: ASGI(hello_async, for_threads), ": want a limiter of sluice_redis.aio.Limits that has allow"),
        (lambda: WSGI(hello, for_threads, key="X-Key"), "key 'X-Key': want a function"),
        (lambda: ASGI(hello_async, for_tasks, key=""), "key '': want a function"),
        (lambda: key_by_ip("10.0.0.0/8"), "trusted_proxies '10.0.0.0/8': want a list of prefixes"),
        (lambda: key_by_ip(None), "trusted_proxies None: want a list of prefixes"),
        (lambda: key_by_ip([10]), "trusted_proxies 10: want a prefix"),
        (lambda: key_by_ip(["10.0.0.1/8"]), "trusted_proxies '10.0.0.1/8': want a prefix"),
        (lambda: key_by_ip(ipv6_prefix="64"), "ipv6_prefix '64': want an int"),
        (lambda: key_by_ip(hops=-1), "hops -1: want 0 or more"),
        (lambda: key_by_ip(["unix"], hops=1), "hops 1: want hops or trusted_proxies, not both"),
        (lambda: key_by_header(None), "name None: want a str"),
        (lambda: key_by_header(""), "name '': want at least one character"),
        (lambda: subject_of("a", 5), "value 5: want a str"),
        (lambda: subject_of("\ud800"), "want a str that UTF-8 can hold"),
        (lambda: WSGI(hello, for_threads, cost=1), "cost 1: want a function"),
        (lambda: WSGI(hello, lambda request: [], cost=len), "bad cost: want none: the charges say whom they are for"),
        (lambda: WSGI(hello, for_threads, count=bool), "want a list of (limiter, subject, permits) that can give back"),
        (lambda: WSGI(hello, for_threads, shadow="no"), "shadow 'no': want a bool"),
        (lambda: WSGI(hello, for_threads, max_wait=5), "max_wait 5: want a timedelta of 0s to 24h"),
        (lambda: WSGI(hello, for_threads, max_delayed=0), "max_delayed 0: want 1 or more"),
        (lambda: headers_of(for_threads, None), "x: decision None: want a Decision"),
        (lambda: headers_of("x", Decision(True, Limit(1, MINUTE))), "limiter 'x': want a limiter"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError) as wrong:
            call()
        assert text in str(wrong.value)
