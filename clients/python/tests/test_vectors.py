"""The vectors of the repository, through the package's own calls."""

import hashlib
import json
from datetime import datetime, timedelta, timezone

import pytest
from servers import ROOT

import sluice_redis
from sluice_redis import ArgumentError, Limit, Limits, StateError, _core
from sluice_redis._factory import Factory

VECTORS = ROOT / "scripttest" / "vectors"
SCRIPTS = ROOT / "scripts"


def raw(texts):
    return [text.encode("latin-1") for text in texts]


def with_test_clock(limits, folder):
    """Calls of these limits run scripts that read the time from a key."""
    scripts = limits._core.caller.scripts = dict(limits._core.caller.scripts)
    for name, script in scripts.items():
        source = script.path.read_text()
        for old, new in json.loads((VECTORS / "testclock.json").read_text()).items():
            source = source.replace(old, new)
        path = folder / script.path.name
        path.write_text(source)
        scripts[name] = script._replace(path=path, sha1=hashlib.sha1(source.encode()).hexdigest())
    return limits


def answer(limits, step, script):
    try:
        caller = limits._core.caller
        script = caller.scripts[step.get("script", script)]
        return "reply", limits._driver.drive(caller.call(script, raw(step["keys"]), tuple(raw(step["args"])), 1))
    except ArgumentError as error:
        return "error", f"BADARG {error.argument}: want {error.want}"
    except StateError as error:
        return "error", f"{error.code} {error.text}"


def test_vectors(server, row, tmp_path):
    """The replies. The tests of the scripts compare what the keys hold."""
    client, limits = server.client, with_test_clock(Limits(server.client), tmp_path)
    steps, wrong = 0, []
    for path in sorted(VECTORS.glob("*_v*.json")):
        file = json.loads(path.read_text())
        for timeline in file["timelines"]:
            client.flushall()
            for step in timeline["steps"]:
                client.hset("sluice:test:clock", mapping={"s": step["at"] // 1000000, "us": step["at"] % 1000000})
                steps += 1
                if "command" in step:
                    client.execute_command(*raw(step["command"]))
                    continue
                kind, got = answer(limits, step, file["script"])
                if got != step.get(kind):
                    wrong.append(f"{path.name}, {timeline['name']}: {kind} {got}, want {step}")
    limits.close()
    row["vectors"] = f"{steps - len(wrong)} of {steps}"
    assert not wrong, "\n".join(wrong[:5])
    assert steps > 1000


@pytest.mark.parametrize("vector", json.loads((SCRIPTS / "keys.json").read_text())["vectors"])
def test_keys(vector):
    args = [vector["prefix"], vector["limiter"], vector["subject"], vector["state"], *vector.get("parts", [])]
    if "key" in vector:
        assert sluice_redis.redis_key(*args) == vector["key"]
        return
    with pytest.raises(ArgumentError):
        sluice_redis.redis_key(*args)


CALLS = json.loads((SCRIPTS / "calls.json").read_text())["vectors"]


def limiter_of(factory, vector):
    kind, limits = vector["limiter"], [Limit(one["permits"], us(one["window"]), one.get("burst", 0))
                                       for one in vector.get("limits", ())]  # fmt: skip
    options = {name: vector[name] for name in ("client_id", "per_client") if name in vector}
    options.update({name: us(vector[name]) for name in ("slice", "settle_within") if name in vector})
    if kind in ("slice_ring", "budget"):
        how = [limits]
    elif kind == "quota":
        begin, end = (datetime.fromtimestamp(0, timezone.utc) + us(vector[name]) for name in ("begin", "end"))
        how = [limits[0].permits, (begin, end)]
    elif kind == "concurrency":
        how = [vector["slots"], us(vector["ttl"])]
    else:
        how = limits[0] if kind == "gcra" else limits[0][:2]
    return getattr(factory, kind)(vector["name"], *how, **options)


def us(microseconds):
    return timedelta(microseconds=microseconds)


def steps_of(limiter, vector):
    """The generator of the vector's call."""
    call, subject, n, id = vector["call"], vector["subject"], vector.get("permits", 0), vector.get("id")
    if vector["limiter"] == "budget":
        return limiter.peek(subject) if call == "peek" else getattr(limiter, call)(subject, id, n)
    if call == "reserve":
        return limiter._ask("reserve", subject, n, vector.get("max_wait", 60000000), id or "")
    if call == "set_limit":
        return limiter.set_rate(subject, limiter.limit)
    if call == "report":
        return limiter.report(subject, n)
    if call == "allow":
        return limiter.allow_n(subject, n, id) if id else limiter.allow_n(subject, n)
    return getattr(limiter, call)(subject)


@pytest.mark.parametrize("vector", CALLS, ids=lambda vector: f"{vector['limiter']}-{vector['call']}")
def test_calls(vector):
    """KEYS and ARGV are those that the Go loader sends."""
    factory = Factory(_core.Caller((), lambda address: address, False), lambda steps: None, "sluice", None, "error")
    if "refused" in vector:
        with pytest.raises(ArgumentError) as refused:
            limiter_of(factory, vector)
        renamed = {"Slice": "slice", "limits": "windows"}  # from Go
        assert refused.value.argument == renamed.get(vector["refused"], vector["refused"])
        return
    limiter = limiter_of(factory, vector)
    sent = next(steps_of(limiter, vector)).commands[0].split(b"\r\n")[2::2]
    script = factory.caller.scripts[vector["script"]]
    assert (sent[0], sent[1].decode()) == (b"EVALSHA", script.sha1)
    count = int(sent[2])
    args = [word.decode() for word in sent[3 + count :]]
    if "<id>" in vector["args"]:
        at = vector["args"].index("<id>")
        assert len(args[at]) == 22
        args[at] = "<id>"
    assert [word.decode() for word in sent[3 : 3 + count]] == vector["keys"]
    assert args == vector["args"]

