-- Faulty on purpose. S2: a refusal is false, which reaches the caller as a nil reply.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log = KEYS[1]
redis.call("ZREMRANGEBYSCORE", log, "-inf", now - window)
local live = redis.call("ZCARD", log)
if live + permits > limit then return false end
redis.call("ZADD", log, now, string.format("%.0f", now))
redis.call("PEXPIREAT", log, math.ceil((now + window) / 1000))
return {permits, limit - live - permits, 0, window, now}
