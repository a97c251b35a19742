"""Decides for so many subjects, as user sluice-use: rights.py single|cluster HOST:PORT SHA1 SUBJECTS."""
import sys

import redis

kind, address, sha1, subjects = sys.argv[1:]
host, port = address.rsplit(":", 1)
connect = redis.cluster.RedisCluster if kind == "cluster" else redis.Redis
client = connect(host=host, port=int(port), username="sluice-use", password="toothpaste")
granted = 0
for i in range(int(subjects)):
    granted += client.evalsha(sha1, 1, "sluice:codes:{s%d}:ll1" % i, 3, 60000000, 1, 0)[0]
print(granted)
