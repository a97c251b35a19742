-- Faulty on purpose. S4: expired entries are read into Lua and removed with unpack, which ends near 8000 of them.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
local expired = redis.call("ZRANGEBYSCORE", entries, "-inf", now - interval)
if #expired > 0 then redis.call("ZREM", entries, unpack(expired)) end
local used = redis.call("ZCARD", entries)
if used + permits > rate then return {0, rate - used, interval, interval, now, rate, interval} end
redis.call("ZADD", entries, now, struct.pack(">I8I4", redis.call("INCR", counter), 1))
return {permits, rate - used - permits, 0, interval, now, rate, interval}
