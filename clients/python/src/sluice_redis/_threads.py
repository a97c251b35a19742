"""What drives steps for threads."""

import contextlib
import os
import threading
import time
from concurrent.futures import Future, wait
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError, ResponseError, TimeoutError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from ._connect import FRESH, Gate, Own, Pool, is_full
from ._core import Address, Clock, NotSent, Send, Sleep, Steps
from ._errors import SluiceError

T = TypeVar("T")


class Driver:
    """Does what steps yield, on connections of its own."""

    def __init__(self, own: Own) -> None:
        self.own = own
        self.pools: Dict[Tuple[int, Optional[Address], float], Pool] = {}
        self.threads: Set[threading.Thread] = set()  # of the background

    def drive(self, steps: Steps[T], sleep: Callable[[float], object] = time.sleep) -> T:
        answer: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = steps.throw(error) if error else steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = error = None
            try:
                answer = sleep(step.seconds) if isinstance(step, Sleep) else self.send(step)
            except BaseException as raised:
                error = raised

    def later(self, steps: Steps[Any]) -> Optional[threading.Thread]:
        """Runs steps in the background. Nobody learns of their errors."""
        self.threads = {thread for thread in list(self.threads) if thread.is_alive()}  # also in a fork
        if is_full(self.threads):
            return None
        thread = threading.Thread(target=self._quietly, args=(steps,), daemon=True)
        thread.start()
        self.threads.add(thread)
        return thread

    def _quietly(self, steps: Steps[Any]) -> None:
        with contextlib.suppress(SluiceError):
            self.drive(steps)

    def flush(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        for thread in list(self.threads):
            thread.join(max(end - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in list(self.threads))

    def send(self, op: Send) -> List[Any]:
        pool = self.pool(op.node, op.timeout)
        self.enter(pool.gate, op.clock)
        replies, since = pool.gate.replies, time.monotonic()
        try:
            try:
                connection = self.connect(pool, op)
            except (RedisError, OSError) as error:
                op.clock.spend(time.monotonic() - since)
                raise NotSent(self.own.why(str(error))) from error
            return self.exchange(connection, op, pool)
        finally:
            pool.gate.leave(replies, time.monotonic() - since >= 0.9 * op.timeout)

    def connect(self, pool: Pool, op: Send) -> Any:
        """A connection that the server has not closed, or a new one, within the time of the call."""
        try:
            connection, used = pool.idle.pop()
        except IndexError:
            connection = pool.maker.make_connection()
        else:
            if time.monotonic() - used < FRESH or self.is_open(connection):
                return connection
            connection.disconnect()
        within = max(min(op.timeout, op.clock.left()), op.timeout / 10)
        connection.socket_timeout = connection.socket_connect_timeout = within
        connection.connect()
        return connection

    def is_open(self, connection: Any) -> bool:
        with contextlib.suppress(RedisError, OSError):
            return not connection.can_read(0)
        return False

    def enter(self, gate: Gate, clock: Clock) -> None:
        waiter, patience = gate.enter(clock), clock.patience(self.own.patience)
        if waiter:
            try:
                wait([waiter], patience)
            except BaseException:
                gate.interrupted(waiter)
                raise
            gate.expire(waiter, patience)
            gate.waited(waiter, clock)

    def exchange(self, connection: Any, op: Send, pool: Pool) -> List[Any]:
        """Sends and reads. A connection that may still get a reply is closed."""
        outcomes: List[Any] = []
        left, since, clean = op.clock.left(), time.monotonic(), False
        if left <= 0:
            pool.idle.append((connection, since))
            raise NotSent("no time is left")
        socket_bounds = left >= 0.9 * op.timeout and connection.socket_timeout == op.timeout
        try:
            connection.send_packed_command([b"".join(op.commands)])
            while len(outcomes) < len(op.commands):
                rest = max(left - (time.monotonic() - since), 0)
                if (outcomes or not socket_bounds) and not connection.can_read(rest):
                    raise TimeoutError(f"no reply in {left:.3f} s")
                try:
                    outcomes.append(connection.read_response())
                except ResponseError as error:
                    outcomes.append(error)
            clean = True
        except (RedisError, OSError) as error:
            outcomes += [error] * (len(op.commands) - len(outcomes))
        finally:
            spent = time.monotonic() - since
            for closed in pool.take_back(connection, op, outcomes, clean):
                closed.disconnect()
            op.clock.spend(min(spent, left / 4) if clean else spent)  # this thread may have been late to read it
        return outcomes

    def pool(self, node: Optional[Address], timeout: float) -> Pool:
        """The connections to a node whose timeout is this one, of this process: a fork has its own."""
        key = os.getpid(), node, timeout
        if key not in self.pools:
            for unused in [one for pool in list(self.pools.values()) for one in pool.drained(60)]:  # of nodes that left
                unused.disconnect()
            no_retry = Retry(NoBackoff(), 0)
            pool = self.own.make_pool(ConnectionPool, SentinelConnectionPool, no_retry, node, timeout, Future)
            self.pools.setdefault(key, pool)
        return self.pools[key]
