-- The floor of a stateful decision: read the clock, read the state, write the state with its TTL. Every time in the
-- results is a multiple of this script's, so its bytes do not change: its SHA1 stands beside them.
local clock = redis.call("TIME")
redis.call("GET", KEYS[1])
redis.call("SET", KEYS[1], clock[1], "PX", 60000)
return 1
