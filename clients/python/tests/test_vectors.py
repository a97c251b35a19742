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


def holds(client, key):
    kind = client.type(key).decode()
    if kind == "string":
        value = client.get(key)
        return {"sha1": hashlib.sha1(value).hexdigest(), "bytes": len(value)} if len(value) > 512 else {"string": value}
    if kind == "zset":
        return {kind: [(member, float(score)) for member, score in client.zrange(key, 0, -1, withscores=True)]}
    return {"list": lambda: {kind: client.lrange(key, 0, -1)}, "hash": lambda: {kind: client.hgetall(key)},
            "none": lambda: None}[kind]()  # fmt: skip


def wanted(value):
    read = {"string": lambda text: raw([text])[0], "list": raw, "sha1": str, "bytes": int,
            "hash": lambda pairs: dict(zip(raw(pairs), raw(pairs.values()))),
            "zset": lambda pairs: [(raw([member])[0], float(score)) for member, score in pairs]}  # fmt: skip
    return value and {kind: make(value[kind]) for kind, make in read.items() if kind in value}


def with_test_clock(limits):
    """Calls of these limits run the scripts that read the time from a key."""
    scripts = limits._setup.caller.scripts
    limits._setup.caller.scripts = {
        name: script._replace(path=path, sha1=hashlib.sha1(path.read_bytes()).hexdigest())
        for name, script in scripts.items()
        for path in [VECTORS / "testclock" / f"{name}.lua"]
    }
    return limits


def answer(limits, step, script):
    try:
        caller = limits._setup.caller
        script = caller.scripts[step.get("script", script)]
        return "reply", limits._driver.drive(caller.call(script, raw(step["keys"]), tuple(raw(step["args"])), 1))
    except ArgumentError as error:
        return "error", f"BADARG {error.argument}: want {error.want}"
    except StateError as error:
        return "error", f"{error.code} {error.text}"


def test_vectors(server, row):
    client, limits = server.client, with_test_clock(Limits(server.client))
    steps = passed = 0
    wrong = []
    for path in sorted(VECTORS.glob("*.json")):
        file = json.loads(path.read_text())
        for timeline in file["timelines"]:
            client.flushall()
            state = {}
            for step in timeline["steps"]:
                client.hset("sluice:test:clock", mapping={"s": step["at"] // 1000000, "us": step["at"] % 1000000})
                steps += 1
                state.update(step.get("state", {}))
                if "command" in step:
                    client.execute_command(*raw(step["command"]))
                else:
                    kind, got = answer(limits, step, file["script"])
                    if got != step.get(kind):
                        wrong.append(f"{path.name}, {timeline['name']}: {kind} {got}, want {step}")
                        continue
                stored = {key: (holds(client, raw([key])[0]), wanted(state[key])) for key in state}
                unlike = {key: pair for key, pair in stored.items() if pair[0] != pair[1]}
                passed += not unlike
                wrong += [f"{path.name}, {timeline['name']}: {unlike}"] if unlike else []
    limits.close()
    row["vectors"] = f"{passed} of {steps}"
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
    name, limits = vector["name"], [Limit(one["permits"], us(one["window"]), one.get("burst", 0))
                                    for one in vector.get("limits", ())]  # fmt: skip
    options = {}
    if "slice" in vector:
        options["slice"] = us(vector["slice"])
    if "settle_within" in vector:
        options["settle_within"] = us(vector["settle_within"])
    if vector["limiter"] in ("slice_ring", "budget"):
        return getattr(factory, vector["limiter"])(name, limits, **options)
    if vector["limiter"] == "quota":
        period = tuple(datetime.fromtimestamp(0, timezone.utc) + us(vector[end]) for end in ("begin", "end"))
        return factory.quota(name, limits[0].permits, period)
    if vector["limiter"] == "concurrency":
        return factory.concurrency(name, vector["slots"], us(vector["ttl"]))
    for option in ("client_id", "per_client"):
        if option in vector:
            options[option] = vector[option]
    if vector["limiter"] == "gcra":
        options["burst"] = limits[0].burst
    return getattr(factory, vector["limiter"])(name, limits[0].permits, limits[0].window, **options)


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

