"""Fixtures, and the row that a run of the suite prints."""

import platform
import subprocess

import pytest
import redis
from both import Both
from servers import ROOT, Cluster, Proxy, Server

ROW = {}


@pytest.fixture(scope="session")
def row():
    """What the row says: vectors, traps that the client sets and the package avoids (a list), audit."""
    ROW.setdefault("traps", [])
    return ROW


def pytest_terminal_summary(terminalreporter):
    if "vectors" in ROW and "audit" in ROW:
        client = f"redis-py {redis.__version__}, Python {platform.python_version()}"
        traps = ", ".join(sorted(ROW["traps"])) or "none"
        terminalreporter.write_line(f"Python | {client} | {ROW['vectors']} | {traps} | {ROW['audit']}")


@pytest.fixture(scope="session")
def own_server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def server(own_server):
    """A server without keys and scripts."""
    own_server.client.flushall()
    own_server.client.script_flush()
    return own_server


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture(scope="session")
def own_cluster():
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(own_cluster):
    own_cluster.flush()
    return own_cluster


@pytest.fixture(params=["threads", "asyncio"])
def both(request):
    """Limits for threads, and then for asyncio. They are closed before the server is gone."""
    both = Both(request.param)
    yield both
    both.stop()


@pytest.fixture(scope="session")
def acl():
    """The users that `sluice acl` makes, by the end of their names."""
    command = ["go", "run", "./cmd/sluice", "acl"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    lines = [line.split() for line in out.decode().splitlines() if line.startswith("ACL SETUSER")]
    return {line[2].rsplit("-")[-1]: [">secret" if word.startswith("#") else word for word in line] for line in lines}
