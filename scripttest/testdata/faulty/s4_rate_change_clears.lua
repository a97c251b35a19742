-- Faulty on purpose. S4: a changed rate begins with nothing in use.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
local stored = redis.call("HGET", KEYS[1], "rate") or rate
local seen = redis.call("HGET", KEYS[1], "seen") or stored
if seen ~= stored then redis.call("DEL", entries) end
rate = tonumber(stored)
redis.call("HSET", KEYS[1], "rate", stored, "seen", stored)
local used = redis.call("ZCARD", entries)
local oldest = redis.call("ZRANGE", entries, 0, 0, "WITHSCORES")
local newest = redis.call("ZRANGE", entries, -1, -1, "WITHSCORES")
if used + permits > rate then
  return {0, math.max(rate - used, 0), (oldest[2] or now) + interval - now,
    (newest[2] or now) + interval - now, now, rate, interval}
end
for k = 1, permits do redis.call("ZADD", entries, now, string.format("%.0f|%d", now, used + k)) end
return {permits, rate - used - permits, 0, interval, now, rate, interval}
