-- S2's way: a ZSET with a UUID for each permit, counted up to 10 s ahead, trimmed with a second's margin. A denial is
-- false, which arrives as a nil reply.
-- KEYS log    ARGV limit, window, uuid
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
if redis.call("ZCOUNT", KEYS[1], "(" .. string.format("%.0f", now - window), now + 10000000) >= limit then return false end
redis.call("ZADD", KEYS[1], now, ARGV[3])
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now - window - 1000000)
redis.call("EXPIRE", KEYS[1], math.ceil(window / 1000000) + 1)
return true
