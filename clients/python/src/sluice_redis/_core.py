"""One call of a script, with all its attempts. It does no input or output: it is a generator that yields what is to be
sent and how long to sleep, and a driver (for threads, for asyncio) does it."""

import math
import os
import random
import re
import time
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from redis import exceptions
from redis.crc import key_slot

from ._breaker import Breaker, State, check_breaker
from ._errors import (
    ArgumentError, BusyError, ExceedsLimitError, NotLoadedError, OutcomeUnknownError, SluiceError, StateError,
    UnavailableError,
)  # fmt: skip
from ._manifest import Script, encode, evalsha, packed, scripts

T = TypeVar("T")
Address = Tuple[str, int]
Key = Union[str, bytes]


class Send(NamedTuple):
    """Send these commands at once on one connection. The answer is a list of what came of each: a reply, an error
    reply, or the error that no reply came with. NotSent and NoConnection are raised."""

    node: Optional[Address]  # None: the client's only server
    commands: Tuple[bytes, ...]  # packed
    timeout: float  # seconds, to connect and to read
    clock: "Clock"  # of the call


class Sleep(NamedTuple):
    seconds: float


class Clock:
    """What is left of a call's time: only Redis's time is spent, not that of this process. How long the call queues for
    a connection, and how late a busy process is, say nothing about Redis. within is when it ends in any case."""

    def __init__(self, seconds: float, within: float = math.inf) -> None:
        self.budget, self.until = seconds, within if within == math.inf else time.monotonic() + within
        self.waited = False  # it has had a connection: it does not queue again behind those that had none

    def left(self) -> float:
        return self.budget if self.until == math.inf else min(self.budget, self.until - time.monotonic())

    def patience(self, longest: float) -> float:
        """How long the call may queue."""
        return min(longest, self.until - time.monotonic())

    def spend(self, seconds: float) -> None:
        self.budget -= seconds


Steps = Generator[Union[Send, Sleep], Any, T]


def reply_to(outcomes: List[Any]) -> Any:
    """The reply to the last of the commands that were sent."""
    if isinstance(outcomes[-1], Exception):
        raise outcomes[-1]
    return outcomes[-1]


class NotSent(Exception):
    """No connection: the command was not sent. __cause__ says why."""


class NoConnection(Exception):
    """None came free: the command was not sent."""


class Reply(NamedTuple):
    """An error reply by its code: the first word, or what redis-py made of it."""

    code: str
    text: str


_ASKING, _CLUSTER_SLOTS = packed((b"ASKING",)), packed((b"CLUSTER", b"SLOTS"))
_RETRIES, _REDIRECTIONS, _LOADS = {"TRYAGAIN": 12, "NOAUTH": 1}, 16, 8
# What proves that connections lead to the wrong place, or are not let in any more.
_MISLED = ("LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS")
_NOT_RUN = (*_MISLED, "CLUSTERDOWN", "BUSY", "NOREPLICAS", "MAXCLIENTS", "TRYAGAIN")
# redis-py takes the code away from errors that it has a class for.
_CODES = (
    (exceptions.NoScriptError, "NOSCRIPT"), (exceptions.MovedError, "MOVED"), (exceptions.AskError, "ASK"),
    (exceptions.TryAgainError, "TRYAGAIN"), (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.ReadOnlyError, "READONLY"), (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"), (exceptions.NoPermissionError, "NOPERM"),
    (getattr(exceptions, "OutOfMemoryError", ()), "OOM"), (exceptions.AuthenticationError, "NOAUTH"),
)  # fmt: skip
_IN_SCRIPT = re.compile(r"Error running script .*?@user_script: ?\d+: (?:@user_script: ?\d+: )?-?(.*)", re.DOTALL)

# With these Redis refuses a command of a script, which takes back what it wrote before.
_IN_TEXT = "can't run this command|unknown (redis )?command|after non deterministic commands"
_REFUSED = re.compile(f"OOM|NOPERM|MISCONF|.*({_IN_TEXT})", re.I | re.DOTALL)
_CURES = (
    ("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|no answer to TLS", "if the port speaks no TLS, leave out ssl=True"),
    ("NotSent: .*(reset by peer|closed by server|15.x03)", "if the port speaks TLS, give the client ssl=True"),
    ("cluster support disabled", "the server is no cluster: give Limits a Redis, not a RedisCluster"),
    ("after non deterministic commands", "the scripts want Redis 5.0 or later"),
    ("OOM command", "raise maxmemory, or find out what fills the server"),
    ("NOPERM|can't run this command", "`sluice acl` prints the rights that are needed"),
)
_WORDS = re.compile(r",? with args beginning with.*", re.DOTALL)  # of a command: those of HELLO are a password


def reply_of(error: BaseException) -> Optional[Reply]:
    """The error reply that redis-py raised; None if no reply came."""
    cause = error.__cause__  # of NotSent, if the server lets nobody in
    error, text = cause if isinstance(cause, exceptions.AuthenticationError) else error, str(error)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Reply(code, text)
    if "previous master is now a slave" in text:  # what SentinelConnectionPool makes of READONLY
        return Reply("READONLY", text)
    if "max number of clients" in text:
        return Reply("MAXCLIENTS", text)
    if not isinstance(error, exceptions.ResponseError):
        return None
    inside = _IN_SCRIPT.search(text)  # Redis 5 and 6
    code, _, rest = (inside.group(1) if inside else text).partition(" ")
    return Reply(code, rest)


def shows_life(error: BaseException) -> bool:
    """Reports whether the server has answered, and not what it answers everybody."""
    reply = reply_of(error)
    return reply is not None and reply.code not in ("LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MAXCLIENTS")


def is_misled(error: BaseException, to: Optional[Address], remap: Callable[[Address], Address]) -> bool:
    """Reports whether only another connection to this node may get another reply."""
    reply = reply_of(error)
    if to and reply and reply.code == "MOVED":
        return remap(target_of(reply, to)) == to
    return reply is not None and reply.code in _MISLED


def target_of(reply: Reply, asked: Address) -> Address:
    """The node that MOVED and ASK name: "3999 127.0.0.1:6381"."""
    host, _, port = reply.text.split(" ")[-1].rpartition(":")
    return address(host, port, asked)


def cured(text: str) -> str:
    """The text of an error, with what to do about it."""
    return "; ".join([text, *(cure for pattern, cure in _CURES if re.search(pattern, text))])


class Caller:
    """Sends scripts to a server, or to the nodes of a cluster. It remembers which node has which slots."""

    def __init__(
        self, nodes: Sequence[Address], remap: Callable[[Address], Address], preloaded: bool,
        breaker: Optional[Breaker] = None,
    ) -> None:
        self.seeds = self.nodes = tuple(nodes)  # of a cluster that are known; empty: there is one server
        self.remap, self.preloaded = remap, preloaded
        self.breaker = check_breaker(breaker)
        self.states: Dict[Tuple[int, Optional[Address]], State] = {}  # of the breaker, by processes and nodes
        self.slots: Dict[int, Address] = {}  # replaced, never changed: other threads may read it
        self.scripts = scripts()

    def call(
        self, script: Script, keys: Sequence[Key], args: Tuple[bytes, ...], timeout: float, repeatable: bool = False,
        look: bool = False, id: str = "", within: float = math.inf,
    ) -> Steps[List[int]]:
        """Runs a script. It asks again after a lost reply only if it is repeatable (a second run charges nothing) or a
        look (it charges nothing at all). It ends within its timeout, or sooner."""
        command = evalsha(script, keys, args, id)
        return list(map(int, (yield from self.command(command, keys, timeout, repeatable, look, script, id, within))))

    def command(
        self, command: bytes, keys: Sequence[Key], timeout: float, repeatable: bool = True, look: bool = False,
        script: Optional[Script] = None, id: str = "", within: float = math.inf,
    ) -> Steps[Any]:
        """Sends a packed command until there is a reply, or an error that another attempt would not cure."""
        slot = key_slot(encode(keys[0])) if self.nodes and keys else 0
        breaker = None
        if self.breaker:
            node = os.getpid(), self.slots.get(slot) if self.nodes else None
            breaker = self.states.get(node)
            if not breaker:  # nodes come and go
                since = time.monotonic() - self.breaker.pause - 60
                for unused in [n for n, s in list(self.states.items()) if not s.in_flight and s.failed < since]:
                    self.states.pop(unused, None)
                breaker = self.states.setdefault(node, State(self.breaker))
            if breaker.steps_aside():
                yield Sleep(0.0002)
            breaker.admit(timeout)
        attempt = _Attempt(self, slot, script, keys, timeout, Clock(timeout, within), repeatable, look, id)
        answered: Optional[bool] = None
        why = ""
        try:
            while True:
                try:
                    reply = yield from attempt.send(command)
                    answered = True
                    return reply
                except (exceptions.RedisError, NotSent, NoConnection, OSError) as error:
                    answered = None if isinstance(error, NoConnection) else shows_life(error)
                    why = cured(_WORDS.sub("", f"{type(error).__name__}: {error}"))
                    yield from attempt.after(error)
        finally:
            if breaker:
                breaker.report(answered, why)

    def discover(self, timeout: float, clock: Clock) -> Steps[None]:
        """Asks the nodes that are known, in any order, which slots each has."""
        problem: BaseException = NotSent("the cluster has no nodes")
        for node in random.sample(self.nodes, len(self.nodes)):
            if clock.left() <= 0:
                break
            try:
                reply = reply_to((yield Send(node, (_CLUSTER_SLOTS,), timeout, clock)))
            except (exceptions.RedisError, NotSent, OSError) as error:
                problem = error
                continue
            slots: Dict[int, Address] = {}
            for first, last, master, *_ in reply:
                owner = self.remap(address(master[0], master[1], node))
                slots.update(dict.fromkeys(range(first, last + 1), owner))
            self.slots, self.nodes = slots, tuple({*self.seeds, *slots.values()})
            return
        raise NotSent("no node of the cluster says which slots it has") from problem


def address(host: Union[bytes, str, None], port: Union[int, str], asked: Address) -> Address:
    """The address of a node as another one says it. Without a host it is the same as that one's."""
    text = host.decode() if isinstance(host, bytes) else host or ""
    return (text if text not in ("", "?") else asked[0], int(port))


class _Attempt:
    """What one command knows from its attempts so far."""

    def __init__(
        self, caller: Caller, slot: int, script: Optional[Script], keys: Sequence[Key], timeout: float, clock: Clock,
        repeatable: bool, look: bool, id: str,
    ) -> None:
        self.caller, self.slot, self.script, self.keys, self.id = caller, slot, script, keys, id
        self.name = script.name if script else "redis"
        self.timeout, self.clock, self.repeatable, self.look = timeout, clock, repeatable, look
        self.node: Optional[Address] = None
        self.asking: Optional[Address] = None
        self.lost: Optional[BaseException] = None  # an attempt may have run: why its reply is missing
        self.tries = self.loads = self.redirections = 0

    def send(self, command: bytes) -> Steps[Any]:
        """One attempt."""
        if self.clock.left() <= 0:
            raise NotSent("no time is left")
        self.node, self.asking = self.asking, None
        commands: Tuple[bytes, ...] = (_ASKING, command) if self.node else (command,)
        if self.caller.nodes and not self.node:
            if self.slot not in self.caller.slots:
                yield from self.caller.discover(self.timeout, self.clock)
            self.node = self.caller.slots.get(self.slot)
            if not self.node:
                raise NotSent(f"no node has slot {self.slot}")
        return reply_to((yield Send(self.node, commands, self.timeout, self.clock)))

    def after(self, error: Exception) -> Steps[None]:
        """Prepares the next attempt, or raises."""
        if isinstance(error, NoConnection):
            raise self.gave_up(error) from error
        reply = reply_of(error)
        if reply is None or reply.code in ("READONLY", "CLUSTERDOWN", "NOAUTH"):
            self.caller.slots = {}  # a master may have failed
        if reply is None:
            if not isinstance(error, NotSent) and not self.look:
                self.lost = error
                if not self.repeatable:
                    raise self.gave_up(error) from error
            yield from self.pause(error)
        elif reply.code == "NOSCRIPT" and self.script:
            yield from self.load(self.script, error)
        elif reply.code in ("MOVED", "ASK") and self.node and self.redirections < _REDIRECTIONS:
            self.redirect(reply)
        elif reply.code in _NOT_RUN:
            yield from self.pause(error, _RETRIES.get(reply.code, 3))
        else:
            raise self.final(reply, error) from error

    def redirect(self, reply: Reply) -> None:
        """Follows MOVED and ASK."""
        assert self.node
        self.redirections += 1
        to = self.caller.remap(target_of(reply, self.node))
        if reply.code == "ASK":
            self.asking = to
        else:
            self.caller.slots = {self.slot: to}  # others have moved, too

    def load(self, script: Script, error: Exception) -> Steps[None]:
        """Loads the script on the node that does not have it."""
        cure = f"{script.name}: script {script.sha1} is not loaded: run `sluice load`, or on every node " \
               f"`redis-cli -x SCRIPT LOAD < {script.path.name}`"  # fmt: skip
        self.loads += 1
        if self.caller.preloaded or self.loads > _LOADS:
            raise NotLoadedError(cure) from error
        try:
            command = packed((b"SCRIPT", b"LOAD", script.source()))
            reply_to((yield Send(self.node, (command,), self.timeout, self.clock)))
        except (exceptions.RedisError, NotSent, OSError) as refused:
            reply = reply_of(refused)
            if reply and reply.code not in _NOT_RUN:
                raise NotLoadedError(f"{cure}; this user may not load it: {refused}") from refused
            yield from self.pause(refused)

    def pause(self, error: BaseException, retries: int = 3) -> Steps[None]:
        """Sleeps before the next attempt, or raises after too many of them."""
        pause = 0.008 * 4 ** min(self.tries, 2) * random.uniform(0.5, 1)
        self.tries += 1
        if self.tries > retries or self.clock.left() < pause:
            raise self.gave_up(error) from error
        self.clock.spend(pause)
        yield Sleep(pause)

    def gave_up(self, error: BaseException) -> SluiceError:
        """The error of a command without a reply: of an unknown outcome if any attempt may have run."""
        cause = str(error.__cause__ or "")
        why = f"{type(error).__name__}: {error}" + (f" ({cause})" if cause not in str(error) else "")
        why = cured(_WORDS.sub("", why))
        if self.lost is not None:
            return OutcomeUnknownError(self.name, self.keys, self.id, why)
        return (BusyError if isinstance(error, NoConnection) else UnavailableError)(f"{self.name}: {why}")

    def final(self, reply: Reply, error: Exception) -> SluiceError:
        """The error of an error reply that another attempt would not change."""
        if reply.code == "BADARG":
            argument, _, want = reply.text.partition(": want ")
            exceeds = argument == "permits" and want.startswith("up to")
            return (ExceedsLimitError if exceeds else ArgumentError)(self.name, argument, "", want)
        if reply.code in ("WRONGTYPE", "BADSTATE"):
            return StateError(self.name, self.keys, reply.code, reply.text)
        why = cured(f"{reply.code} {reply.text}")
        if reply.code == "MOVED" and not self.node:
            why += "; the server is a node of a cluster: give Limits a RedisCluster"
        if "@user_script:" in str(error) and not self.look and not _REFUSED.match(why):
            return OutcomeUnknownError(self.name, self.keys, self.id, str(error))  # it may have written before
        return UnavailableError(f"{self.name}: {why}")
