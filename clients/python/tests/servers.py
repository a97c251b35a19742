"""Redis servers, a cluster and a TCP proxy for the tests. Each stops what it started, and nothing else."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import redis

from sluice_redis import SluiceError

ROOT = Path(__file__).resolve().parents[3]


def free_port(beside=0):
    """A port that is free, and the one that far above it as well (a cluster's bus)."""
    while True:
        with socket.socket() as probe, socket.socket() as other:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port + beside > 65535:
                continue
            try:
                if beside:
                    other.bind(("127.0.0.1", port + beside))
            except OSError:
                continue
            return port


def until(condition, seconds=20):
    """Polls a condition, and returns what it returns."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            result = condition()
            if result:
                return result
        except (redis.RedisError, OSError, SluiceError):
            pass
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {condition}")


class Server:
    """A redis-server on a port of its own."""

    def __init__(self, *options, port=None):
        self.port = port or free_port(10000)
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--save", "", "--dir", self.folder.name, *map(str, options)],
            stdout=subprocess.DEVNULL,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=20)
        until(self.client.ping)

    @contextlib.contextmanager
    def frozen(self):
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class Proxy:
    """Passes bytes on between clients and a server, and does what a test says to the reply to the next EVALSHA (or
    another command: trigger).

    close: the reply is lost with its connection. keep: it is lost, and the connection stays open. first: all are lost
    but the first. hold: it comes when release is called. eaten is how many replies were lost or held.
    """

    def __init__(self, port, listen_on=None):
        self.target, self.mode, self.eaten, self.held = port, None, 0, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", listen_on or 0))
        self.port = self.listener.getsockname()[1]
        self.sockets, self.down, self.trigger, self.requests = [], False, b"EVALSHA", 0
        self.changed = threading.Condition()
        self._thread(self._accept)

    def _thread(self, work, *args):
        threading.Thread(target=work, args=args, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            if self.down:
                shut(client, server)
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [client, server]
            state = {"mode": None}
            self._thread(self._requests, client, server, state)
            self._thread(self._replies, server, client, state)

    def _requests(self, client, server, state):
        for data in self._chunks(client, server):
            with self.changed:
                self.requests += 1
                self.changed.notify_all()
            if self.trigger in data and self.mode:
                state["mode"], self.mode = self.mode, None
            try:
                server.sendall(data)
            except OSError:
                break

    def _replies(self, server, client, state):
        for data in self._chunks(server, client):
            mode, state["mode"] = state["mode"], None
            if mode and data.startswith(b"-"):  # NOSCRIPT, perhaps: the next reply
                self.mode = mode
            elif mode:
                with self.changed:
                    self.eaten += 1
                    self.changed.notify_all()
                if mode == "close":
                    break
                if mode == "first":
                    client.sendall(data[: data.index(b"*", 1)])
                if mode in ("keep", "first"):
                    continue
                self.held.wait(20)
            try:
                client.sendall(data)
            except OSError:
                break
        shut(client, server)

    def _chunks(self, source, other):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                yield data
        except OSError:
            pass
        shut(source, other)

    async def until(self, condition):
        """Waits until so many requests have come, or replies are eaten."""

        def wait():
            with self.changed:
                assert self.changed.wait_for(condition, 20)

        await asyncio.to_thread(wait)

    def release(self):
        self.held.set()

    def cut(self):
        """Closes all connections, and all new ones until down is False again."""
        self.down = True
        shut(*self.sockets)
        self.sockets = []

    def stop(self):
        self.held.set()
        shut(self.listener, *self.sockets)


def shut(*sockets):
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        one.close()


class Cluster:
    """Three masters. Clients are told of the nodes by the ports of their proxies."""

    def __init__(self):
        self.nodes, self.proxies = [], []
        for _ in range(3):
            port = free_port(10000)
            proxy = Proxy(port)
            self.proxies.append(proxy)
            options = ("--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port",
                       proxy.port, "--cluster-announce-bus-port", port + 10000)  # fmt: skip
            self.nodes.append(Server(*options, port=port))
        for i, node in enumerate(self.nodes):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", i * 5461, 16383 if i == 2 else i * 5461 + 5460)
            node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].port + 10000)
        until(lambda: all(b"cluster_state:ok" in self._info(node) and b"known_nodes:3" in self._info(node)
                          for node in self.nodes))  # fmt: skip
        self.port = self.proxies[0].port

    @staticmethod
    def _info(node):
        reply = node.client.execute_command("CLUSTER", "INFO")
        return reply if isinstance(reply, bytes) else "\n".join(f"{k}:{v}" for k, v in dict(reply).items()).encode()

    def node_of(self, key):
        """The server and the proxy of a key's slot."""
        slot = int(self.nodes[0].client.execute_command("CLUSTER", "KEYSLOT", key))
        i = min(slot // 5461, 2)
        return self.nodes[i], self.proxies[i]

    def move(self, slot, source, target):
        """Gives a slot, which is empty, to another node."""
        name = target.client.execute_command("CLUSTER", "MYID")
        target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        for node in [target, *self.nodes]:
            node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)

    @staticmethod
    def id_of(node):
        return node.client.execute_command("CLUSTER", "MYID")

    def flush(self):
        for node in self.nodes:
            node.client.flushall()
            node.client.script_flush()

    def stop(self):
        for one in [*self.proxies, *self.nodes]:
            one.stop()
