"""What was granted and is not used goes back. Without input and output, as _limiters."""

from typing import TYPE_CHECKING, Optional

from ._core import Sleep, Steps
from ._errors import ArgumentError, OutcomeUnknownError, UnavailableError, shown
from ._types import EPOCH, Decision, check_int, micros

if TYPE_CHECKING:
    from ._limiters import Limiter


def give_back(limiter: "Limiter", subject: str, decision: Decision, n: Optional[int]) -> Steps[int]:
    """Gives back n of the permits that the decision granted."""
    if not isinstance(decision, Decision):
        raise ArgumentError(limiter.name, "decision", shown(decision), "a Decision of this limiter")
    rings = decision.rings or limiter.rings
    keys, n = limiter.grant_keys(subject, rings), decision.permits or 1 if n is None else n
    known = bool(decision.id) and limiter.has_ids  # Redis knows what it charged, also if a policy decided
    check_int(limiter.name, "n", n, 1)
    if not decision.granted or (decision.degraded and not known):
        return 0
    if decision.key != keys[0] and (decision.key or not known):
        want = f"one of this limiter about this subject: {keys[0]}"
        raise ArgumentError(limiter.name, "decision", shown(decision.key), want)
    if n > decision.permits:
        want = f"up to {decision.permits}, as many as were granted"
        raise ArgumentError(limiter.name, "n", str(n), want)
    script, id = limiter.setup.caller.scripts[limiter.return_name], decision.id
    now, begin = (micros(at - EPOCH) if at else 0 for at in (decision.now, decision.period_begin))
    values = {**limiter.values(), "moment": now + micros(decision.wait), "begin": begin, "id": id, "permits": n}
    whole = limiter.has_ids and decision.key == keys[0] and n == decision.permits  # only then it may be repeated
    words = script.words(values, [{"slice_i": slice, "size_i": size} for slice, size in rings])
    return (yield from limiter.setup.caller.call(script, keys, words, limiter.timeout, whole, id=id))[0]


def give_back_later(limiter: "Limiter", subject: str, decision: Decision, n: int) -> Steps[None]:
    """Gives back what nobody will use. It tries again where that cannot give back more than was granted."""
    for attempt in range(5):
        yield Sleep(0.25 * (2**attempt - 1))
        try:
            returned = yield from give_back(limiter, subject, decision, n)
            if returned or decision.key:  # without a key the command may still be on its way
                return
        except OutcomeUnknownError:
            if not limiter.has_ids:
                return
        except UnavailableError:
            pass
