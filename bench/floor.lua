-- The floor of a stateful decision: read the clock, read the state, write the moment with its TTL. Every time in the
-- results is a multiple of this script's, so its bytes do not change: its SHA1 stands beside them.
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("GET", KEYS[1])
redis.call("SET", KEYS[1], now, "PX", 60000)
return 1
