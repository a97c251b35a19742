import json, os, pathlib, sys, threading, urllib.parse
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

at = urllib.parse.urlsplit(os.environ["SLUICE_REDIS"])
second = {"socket_timeout": 1, "socket_connect_timeout": 1}
client = redis.Redis(at.hostname, at.port, **second, retry=Retry(NoBackoff(), 0))


def answer(call):
    keys, args = ([bytes.fromhex(word) for word in call[words]] for words in ("keys", "args"))
    try:
        try:
            reply = client.evalsha(call["sha1"], len(keys), *keys, *args)
        except redis.exceptions.NoScriptError:
            client.script_load(pathlib.Path(call["file"]).read_bytes())
            reply = client.evalsha(call["sha1"], len(keys), *keys, *args)
        said = {"granted": reply[0] > 0, "reply": reply}
    except (redis.ResponseError, redis.exceptions.BusyLoadingError) as error:
        said = {"error": str(error), "kind": "refused"}
    except redis.RedisError as error:
        said = {"error": str(error), "kind": "unknown"}
    sys.stdout.write(json.dumps({"id": call["id"], **said}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=answer, args=[json.loads(line)], daemon=True).start()
