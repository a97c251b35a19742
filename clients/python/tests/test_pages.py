"""The pages of docs/clients for frameworks of Python: each program, as it stands there, over a real HTTP server."""

import asyncio
import http.client
import importlib
import json
import re

import prometheus_client
import pytest
from servers import ROOT
from test_http import Asgi, Wsgi


@pytest.fixture(params=["fastapi", "flask", "django"])
def port(request, server, tmp_path, monkeypatch):
    """Where the page's service listens."""
    page = (ROOT / "docs" / "clients" / f"{request.param}.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    file = tmp_path / f"service_{request.param}.py"
    patient = code.replace('on_failure="open"', 'on_failure="open", timeout=timedelta(seconds=10)')  # on a busy machine
    file.write_text(patient.replace("Redis()", f"Redis(port={server.port})"))
    monkeypatch.syspath_prepend(str(tmp_path))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # Python 3.9: clients of asyncio want one when they are made
    service = importlib.import_module(file.stem)
    app = getattr(service, "app", None) or service.application
    running = (Asgi if request.param == "fastapi" else Wsgi)(server.port, lambda limits: None, app=app)
    yield running.port
    running.stop()
    prometheus_client.REGISTRY.unregister(service.decided)
    loop.close()


def ask(port, path, key="", password=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"X-Api-Key": key, "Content-Type": "application/json"}
    body = json.dumps({"password": password}) if password else None
    connection.request("POST" if password else "GET", path, body, headers)
    response = connection.getresponse()
    found = response.status, response.headers["RateLimit-Policy"] or "", response.read().decode()
    connection.close()
    return found


def test_page(port, server, request):
    for key, a_minute, a_month in (("key-1", 100, 10_000), ("key-2", 5_000, 1_000_000), ("", 100, 10_000)):
        status, policy, _ = ask(port, "/report", key)
        assert status == 200 and policy.startswith(f'"per-minute";q={a_minute};w=60, "per-month";q={a_month};w=')
    assert server.client.exists("sluice:per-month:{umbrella}:qt1", "sluice:per-minute:{127.0.0.1}:ll1") == 2
    assert ask(port, "/health")[:2] == (200, "")
    assert [ask(port, "/login", password=p)[0] for p in ["correct"] * 6 + ["wrong"] * 5] == [200] * 6 + [401] * 5
    status, policy, body = ask(port, "/login", password="correct")
    assert status == 429 and re.fullmatch(r"Too many wrong passwords. Try again in \d+ s.", body)
    assert [ask(port, "/catalogue")[0] for _ in range(3)] == [200] * 3
    metrics = ask(port, "/metrics/")[2] if "fastapi" in request.node.name else ask(port, "/metrics")[2]
    assert 'rate_limit_decisions_total{limit="failed-login",status="429"} 1.0' in metrics
