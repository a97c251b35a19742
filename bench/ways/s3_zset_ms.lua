-- S3's way: a ZSET in which the millisecond is the member, so that permits of one millisecond are one.
-- KEYS log    ARGV limit, window
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) / 1000
local clock = redis.call("TIME")
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local count = redis.call("ZCARD", KEYS[1])
redis.call("ZREMRANGEBYSCORE", KEYS[1], 0, now - window)
if count >= limit then return 0 end
redis.call("ZADD", KEYS[1], now, now)
redis.call("EXPIRE", KEYS[1], math.ceil(window / 1000))
return 1
