"""The limiters of each script, but for quota, budget and concurrency. Without input and output, as _limiters."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._core import Steps
from ._errors import ArgumentError, shown
from ._limiters import Limiter, OnFailure, Reserver, Returner, Setup, Windows, new_id
from ._types import (
    DAY_US, ID_BYTES, MILLISECOND_US, Decision, Limit, Rings, WindowState, ceil_div, check_duration, check_int,
    check_list, check_text, days, duration, micros, span,
)  # fmt: skip

MAX_SLICES = 999  # whole slices in the longest window; the current one is the 1000th


class ListLog(Reserver, Returner):
    """A sliding-window log, exact to the microsecond: any interval of one window holds at most the limit. About 10
    bytes a permit; up to 1000000 permits, 1000 in one call."""

    script_name, title, return_name = "list_log_v1", "list_log", "list_log_return_v1"
    more = "; gcra or slice_ring hold more"


class ZSetLog(Reserver, Returner):
    """A sliding-window log with request ids, as exact as list_log: a call that is asked again with its id is charged
    once. About 130 bytes a permit; up to 10000 permits, 500 in one call."""

    script_name, title, return_name = "zset_log_v1", "zset_log", "zset_log_return_v1"
    more = "; list_log, gcra or slice_ring hold more"
    has_ids = True

    def allow(self, subject: str, id: Optional[str] = None) -> Steps[Decision]:
        """Asks for one permit now. With the same id (1 to 128 bytes without "|") a subject is charged once in a window.
        Without one each call has a new random id, and the package asks again by itself after a lost reply."""
        return self._ask("allow", subject, 1, id=self._check_id(id))

    def allow_n(self, subject: str, n: int, id: Optional[str] = None) -> Steps[Decision]:
        """allow for n permits, all or nothing. Another n under the same id is an ArgumentError."""
        return self._ask("allow_n", subject, n, id=self._check_id(id))

    def _check_id(self, id: Optional[str]) -> str:
        return new_id() if id is None else check_text(self.name, "id", id, ID_BYTES, "|")


class GCRA(Reserver):
    """A smooth rate with a burst: the refilling token bucket. Any interval of length d holds at most
    burst + d * permits / window. 161 bytes in all; up to 10000000 permits."""

    script_name, title = "gcra_v1", "gcra"
    more = "; slice_ring holds more"

    def _check_limit(self, limit: Limit) -> Limit:
        super()._check_limit(limit)
        most = self.script.maximum("burst")
        if limit.permits:
            most = min(most, 2**52 * limit.permits // micros(limit.window))  # a burst is refilled in at most 2^52 us
        if limit.burst > most:
            permits = "1 permit" if limit.permits == 1 else f"{limit.permits} permits"
            want = f"up to {most} with {permits} in {days(micros(limit.window))}"
            raise ArgumentError(self.name, "burst", str(limit.burst), want)
        return limit

    def capacity(self) -> float:
        return self.limit.burst or self.limit.permits

    def values(self) -> Dict[str, object]:
        return {**super().values(), "burst": self.capacity()}


class TokenBucket(Reserver):
    """A limiter whose rate is stored in Redis: set_rate changes it for every process at once. Its permits and window
    are used only while no rate is stored. It does not refill evenly (gcra does)."""

    script_name, title = "token_bucket_v1", "token_bucket"
    more = "; gcra or slice_ring hold more"

    def __init__(
        self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure], per_client: bool,
        client_id: Optional[str],
    ) -> None:
        super().__init__(setup, name, limits, on_failure)
        if not isinstance(per_client, bool):
            raise ArgumentError(name, "per_client", shown(per_client), "a bool")
        self.scope = int(per_client)
        self.client_id = setup.client_id if client_id is None else check_text(name, "client_id", client_id)

    def keys(self, subject: str, id: str) -> List[str]:
        return [self.key(subject), *super().keys(subject, id)]

    def grant_keys(self, subject: str, rings: Rings) -> List[str]:
        return [self.key(subject, "all"), self.key(subject, "by", self.client_id)]

    def values(self) -> Dict[str, object]:
        return {"rate": self.limit.permits, "interval": micros(self.limit.window), "scope": self.scope}

    def capacity(self) -> float:
        return math.inf  # it is stored in Redis

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        return {"limit": Limit(more[0], duration(more[1])) if len(more) > 1 else self.limit}

    def set_rate(self, subject: str, limit: Union[Limit, Tuple[int, timedelta]]) -> Steps[None]:
        """Stores the subject's rate, as Limit(permits, window): for every process at once, to stay until it is set
        again. Permits in use stay in use, at least for the window they were granted under. It may be repeated
        after an OutcomeUnknownError."""
        limit = self._check_limit(self._limit(limit))
        check_int(self.name, "permits", limit.permits, 1)
        script = self.setup.caller.scripts["token_bucket_set_v1"]
        words = script.words({"rate": limit.permits, "interval": micros(limit.window), "scope": self.scope})
        yield from self.setup.caller.call(script, [self.key(subject)], words, self.timeout, repeatable=True)


class Ring(Limiter):
    """What slice_ring and budget have in common: windows, each counted by slices of its own."""

    books = False

    def __init__(
        self, setup: Setup, name: str, limits: Windows, on_failure: Optional[OnFailure], slice: Optional[timedelta]
    ) -> None:
        check_list(name, "windows", limits, "Limit(permits, window)")
        if not 1 <= len(limits) <= 8:
            raise ArgumentError(name, "windows", str(len(limits)), "1 to 8")
        super().__init__(setup, name, limits, on_failure)
        self.slice = 0 if slice is None else check_duration(name, "slice", slice, MILLISECOND_US, DAY_US)
        self.rings = tuple(map(self._ring, self.limits))
        for i, ring in enumerate(self.rings):
            if self.limits[i].permits and ring in self.rings[:i]:
                raise ArgumentError(name, "windows", span(micros(self.limits[i].window)), "each window once")

    def _ring(self, limit: Limit) -> Tuple[int, int]:
        """The slices that cover a window, and one more: the current slice is never a whole one."""
        us = micros(limit.window)
        slice_us = self.slice or max(min(ceil_div(us, 200), DAY_US), MILLISECOND_US)
        longest = MAX_SLICES * slice_us
        if limit.permits and us < slice_us:
            raise ArgumentError(self.name, "window", span(us), f"a slice, {span(slice_us)}, or more")
        if limit.permits and us > longest:
            why = "; more takes longer slices" if self.slice and self.slice < DAY_US else ""
            want = f"up to {days(longest)}: {MAX_SLICES} slices of {span(slice_us)}{why}"
            raise ArgumentError(self.name, "window", days(us), want)
        return slice_us, min(ceil_div(us, slice_us), MAX_SLICES) + 1

    def _longest_window(self) -> int:
        return MAX_SLICES * DAY_US

    def grant_keys(self, subject: str, rings: Rings) -> List[str]:
        return [self.key(subject, f"{slice}x{size}") for slice, size in rings]

    def values(self) -> Dict[str, object]:
        return {"reported": 0}

    def group(self) -> Sequence[Mapping[str, object]]:
        windows = zip(self.limits, self.rings)
        return [{"slice_i": slice, "size_i": size, "limit_i": limit.permits} for limit, (slice, size) in windows]

    def capacity(self) -> float:
        return min(limit.permits for limit in self.limits)

    def _detail(self, more: Sequence[int], reset_after: int, now: int) -> Dict[str, Any]:
        states = []
        for limit, (slice, size), count in zip(self.limits, self.rings, more):
            left = min(reset_after, size * slice - now % slice) if count else 0  # all of it was granted by now
            states.append(WindowState(limit, max(limit.permits - count, 0), duration(left)))
        return self._describe(states)

    def _describe(self, states: Sequence[WindowState]) -> Dict[str, Any]:
        lasting = [replace(s, counts_for=duration(slice * size)) for s, (slice, size) in zip(states, self.rings)]
        ordered = sorted(lasting, key=lambda state: (state.remaining, -state.reset_after))
        windows = tuple(ordered) if len(ordered) > 1 else ()
        return {"limit": ordered[0].limit, "windows": windows, "counts_for": ordered[0].counts_for}


class SliceRing(Ring, Returner):
    """One to eight windows at once, all or nothing: "1000 a minute and 20000 an hour". Exact to one slice, a 200th
    of its window; 6 bytes a slice, limits up to 10^9. It cannot book: wait sleeps and asks again, in no order."""

    script_name, title, return_name = "slice_ring_v1", "slice_ring", "slice_ring_return_v1"
