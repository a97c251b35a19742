import hashlib, json, os, pathlib, sys, threading
import redis
from sluice_redis import Limits, OutcomeUnknownError, SluiceError

scripts = pathlib.Path(os.environ["SLUICE_SCRIPTS"])
if "SLUICE_CLUSTER" in os.environ:
    nodes = [redis.cluster.ClusterNode(*node.split(":")) for node in os.environ["SLUICE_CLUSTER"].split(",")]
    limits = Limits(redis.RedisCluster(startup_nodes=nodes))
else:
    limits = Limits(redis.Redis.from_url(os.environ["SLUICE_REDIS"]))
caller = limits._setup.caller  # the package's own call of a script, below its limiters


def answer(call):
    file = scripts / f"{call['script']}.lua"
    script = caller.scripts[call["script"]]._replace(path=file, sha1=hashlib.sha1(file.read_bytes()).hexdigest())
    keys, args = ([bytes.fromhex(word) for word in call[words]] for words in ("keys", "args"))
    try:
        reply = limits._driver.drive(caller.call(script, keys, args, 1))
        said = {"granted": reply[0] > 0, "reply": reply}
    except OutcomeUnknownError as error:
        said = {"error": str(error), "kind": "unknown"}
    except SluiceError as error:
        cause = error.__cause__ or error
        said = {"error": str(cause), "kind": "refused" if isinstance(cause, (redis.ResponseError, redis.exceptions.BusyLoadingError)) else "not sent"}
    sys.stdout.write(json.dumps({"id": call["id"], **said}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=answer, args=[json.loads(line)], daemon=True).start()
