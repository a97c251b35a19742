"""Several limiters at once, all or none. Without input and output, as _limiters."""

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Set, Tuple, Union

from ._core import NotSent, Send, Sleep, Steps
from ._errors import ArgumentError, OutcomeUnknownError, shown
from ._limiters import Limiter, Returner, Setup
from ._grants import give_back_later
from ._types import Decision, check_list

Part = Union[Tuple[Any, str], Tuple[Any, str, int]]
Asked = Tuple[Limiter, str, int, str]  # the subject, the permits, the id


def all_of(setup: Setup, parts: Sequence[Part]) -> Steps[Decision]:
    """ask_all, as one decision: the denial with the longest wait, or the grant with the fewest permits left."""
    decisions = [decision for _, decision in (yield from ask_all(setup, parts))]
    denied = [decision for decision in decisions if not decision.granted]
    said = max(denied, key=lambda d: d.wait) if denied else min(decisions, key=lambda d: d.remaining)
    degraded = next((decision for decision in decisions if decision.degraded), said)
    return replace(
        said, permits=0, key="", rings=(), id="", parts=() if denied else tuple(decisions),
        degraded=degraded.degraded, cause=degraded.cause,
    )  # fmt: skip


def ask_all(setup: Setup, parts: Sequence[Part]) -> Steps[List[Tuple[str, Decision]]]:
    """Asks all of them at once. Decisions are by the names of their limiters. If one denies or fails, what the others
    were granted, or may have been, goes back in the background."""
    asked = _checked(setup, parts)
    asked = [one for one in asked if not one[0].capacity()] or asked  # nothing is charged for a denial that is certain
    outcomes: List[Any] = [None] * len(asked)
    granted = False
    try:
        yield from together([limiter._ask("all", subject, n, id=id) for limiter, subject, n, id in asked], outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        granted = all(decision.granted for decision in outcomes)
    finally:
        if not granted:
            _undo(asked, outcomes)
    return [(limiter.name, decision) for (limiter, *_), decision in zip(asked, outcomes)]


def _checked(setup: Setup, parts: Sequence[Part]) -> List[Asked]:
    check_list("", "parts", parts, "(limiter, subject, n)")
    if not parts:
        raise ArgumentError("", "parts", "[]", "at least one (limiter, subject, n)")
    asked: List[Asked] = []
    keys: Set[str] = set()
    for part in parts:
        face, subject, n = (*part, 1)[:3] if isinstance(part, (tuple, list)) and len(part) in (2, 3) else (part, "", 1)
        limiter = getattr(face, "_core", None)
        if not isinstance(limiter, Returner):
            want = "one that can give back: list_log, zset_log, slice_ring or quota"
            raise ArgumentError("all", "limiter", shown(face), want)
        if limiter.setup is not setup:
            raise ArgumentError("all", "limiter", limiter.name, "one that these Limits made")
        own = limiter.keys(subject, "")
        if limiter.capacity():
            limiter._check_amount("all", n)
        if not keys.isdisjoint(own):
            raise ArgumentError(limiter.name, "subject", shown(subject), "each limiter once about it, with the sum")
        keys.update(own)
        asked.append((limiter, subject, n, limiter._new_id()))
    return asked


def _undo(asked: Sequence[Asked], outcomes: Sequence[Any]) -> None:
    """Gives back what was granted. What has no reply only an id can name."""
    returns = []
    for (limiter, subject, n, id), outcome in zip(asked, outcomes):
        cause = outcome.cause if isinstance(outcome, Decision) else outcome
        if id and (outcome is None or isinstance(cause, OutcomeUnknownError)):
            outcome = Decision(True, limiter.limit, permits=n, id=id)
        if isinstance(outcome, Decision) and (outcome.key or outcome.id):
            returns.append(give_back_later(limiter, subject, outcome, n))
    if returns:
        asked[0][0].setup.later(together(returns, [None] * len(returns)))


def together(calls: Sequence[Steps[Any]], outcomes: List[Any]) -> Steps[None]:
    """Drives calls side by side, and sends at once what they send to one node. An outcome is what a call returns, or
    the error that it raises; None as long as there is neither."""
    answers: Dict[int, Any] = dict.fromkeys(range(len(calls)))
    try:
        while answers:
            steps: Dict[int, Union[Send, Sleep]] = {}
            for i, answer in answers.items():
                try:
                    steps[i] = calls[i].throw(answer) if isinstance(answer, Exception) else calls[i].send(answer)
                except StopIteration as end:
                    outcomes[i] = end.value
                except Exception as error:
                    outcomes[i] = error
            sends = {i: step for i, step in steps.items() if isinstance(step, Send)}
            pauses = {i: step.seconds for i, step in steps.items() if isinstance(step, Sleep)}
            answers = yield from _sent(sends)
            if pauses:
                yield Sleep(max(pauses.values()))
                answers.update(dict.fromkeys(pauses))
    finally:
        for call in calls:
            call.close()


def _sent(sends: Dict[int, Send]) -> Steps[Dict[int, Any]]:
    """Sends to one node after another. What one of them takes is taken from the time of all."""
    answers: Dict[int, Any] = {}
    for node in dict.fromkeys(send.node for send in sends.values()):
        group = {i: send for i, send in sends.items() if send.node == node}
        longest = max(group.values(), key=lambda send: send.clock.left())
        before = longest.clock.budget
        try:
            if longest.clock.left() <= 0:
                raise NotSent("no time is left")
            commands = tuple(words for send in group.values() for words in send.commands)
            replies = yield Send(node, commands, longest.timeout, longest.clock)
            for i, send in group.items():
                answers[i], replies = replies[: len(send.commands)], replies[len(send.commands) :]
        except Exception as error:
            answers.update(dict.fromkeys(group, error))
        spent = before - longest.clock.budget
        for send in sends.values():
            send.clock.waited = True
            if send is not longest:
                send.clock.spend(spent)
    return answers
