"""The policy Local: a token bucket for each window of a subject, as FailLocal of the Go loader and Node's package."""

import hashlib
import os
import threading
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import DefaultDict, List, NamedTuple, Optional, Sequence, Tuple

from ._types import Limit, WindowState, ceil_div, duration, micros

_SUBJECTS = 10000


@dataclass(frozen=True)
class Local:
    """on_failure=Local(0.25): while Redis does not decide, this process limits by itself, to this share of the limit
    (above 0, up to 1). If n processes share the load evenly, 1/n keeps them to about the limit. A call for more permits
    than the share holds raises Redis's error. Up to 10000 subjects are held, in 4 MB if each has one window."""

    share: float


class _Bucket(NamedTuple):
    tokens: float
    time: float  # in microseconds
    rate: float  # tokens a microsecond
    burst: int

    def until(self, tokens: float) -> int:
        """Microseconds until it holds so many."""
        return max(ceil_div(tokens - self.tokens, self.rate), 0)


class Buckets:
    """The buckets of all limiters of one Limits, by the hash of the key: a long subject takes no more memory."""

    def __init__(self) -> None:
        self.locks: DefaultDict[int, threading.Lock] = defaultdict(threading.Lock)  # a fork has its own
        self.subjects: "OrderedDict[bytes, List[_Bucket]]" = OrderedDict()

    def decide(
        self, key: str, limits: Sequence[Limit], share: float, n: int, ahead: int
    ) -> Optional[Tuple[bool, int, List[WindowState]]]:
        """Grants n permits from all windows or from none: whether, the wait in microseconds, and the windows. None if
        n is more than the share."""
        with self.locks[os.getpid()]:
            buckets = self.buckets_of(hashlib.sha256(key.encode()).digest(), limits, share)
            if any(n > bucket.burst for bucket in buckets):
                return None
            wait = max(bucket.until(max(n, 1)) for bucket in buckets)
            granted = n > 0 and wait <= ahead
            if granted:
                buckets[:] = [bucket._replace(tokens=bucket.tokens - n) for bucket in buckets]
        left = [(max(int(bucket.tokens), 0), duration(bucket.until(bucket.burst))) for bucket in buckets]
        return granted, wait, [WindowState(limit, *of) for limit, of in zip(limits, left)]

    def buckets_of(self, subject: bytes, limits: Sequence[Limit], share: float) -> List[_Bucket]:
        """A bucket starts full. If its limit changes, it keeps its tokens, up to its new size."""
        old, now = self.subjects.get(subject, []), time.monotonic() * 1e6
        if not old and len(self.subjects) >= _SUBJECTS:
            self.subjects.popitem(last=False)
        self.subjects[subject] = new = []
        for i, limit in enumerate(limits):
            burst = max(int(share * (limit.burst or limit.permits)), 1)
            bucket = _Bucket(burst, now, share * limit.permits / micros(limit.window), burst)
            if i < len(old):
                refilled = old[i].tokens + (now - old[i].time) * old[i].rate
                bucket = bucket._replace(tokens=min(refilled, old[i].burst, burst))
            new.append(bucket)
        return new
