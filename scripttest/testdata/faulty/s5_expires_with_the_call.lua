-- Faulty on purpose. S5: the key expires with this call's ttl. A short one frees the slots of everybody.
local limit, ttl, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", string.format("%.0f", now))
local held = redis.call("ZCARD", KEYS[1])
if held >= limit then return {0, 0, ttl, ttl, now} end
redis.call("ZADD", KEYS[1], string.format("%.0f", now + ttl), id)
redis.call("PEXPIRE", KEYS[1], math.ceil(ttl / 1000))
return {1, limit - held - 1, 0, ttl, now}
