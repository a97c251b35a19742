-- Faulty on purpose. S5: a counter of what is held, which only a release lowers. What a holder that died had taken is
-- held for ever.
local limit, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local held = tonumber(redis.call("GET", KEYS[1]) or 0)
if held >= limit then return {0, 0, ttl, ttl, now} end
redis.call("INCR", KEYS[1])
return {1, limit - held - 1, 0, ttl, now}
