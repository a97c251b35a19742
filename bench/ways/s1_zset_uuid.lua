-- S1's improved way: a ZSET with a UUID for each permit; what has expired goes at every call, denied ones too; the key
-- lives for two windows.
-- KEYS log    ARGV limit, window, uuid
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], 0, now - window)
if redis.call("ZCOUNT", KEYS[1], now - window, now) >= limit then return 0 end
redis.call("ZADD", KEYS[1], now, ARGV[3])
redis.call("EXPIRE", KEYS[1], math.max(1, math.ceil(2 * window / 1000000)))
return 1
