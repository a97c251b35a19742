-- Faulty on purpose. S5: a renewal sets the lease whether it is there or not. A slot that was lost, and is another's
-- now, is held twice.
local limit, ttl, renew, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", string.format("%.0f", now))
local held = redis.call("ZCARD", KEYS[1])
if renew == "0" and held >= limit then return {0, 0, ttl, ttl, now} end
redis.call("ZADD", KEYS[1], string.format("%.0f", now + ttl), id)
return {1, limit - redis.call("ZCARD", KEYS[1]), 0, ttl, now}
