-- Faulty on purpose. S2: one permit a call, however many were asked for.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log = KEYS[1]
redis.call("ZREMRANGEBYSCORE", log, "-inf", now - window)
local live = redis.call("ZCARD", log)
if live + 1 > limit then
  local oldest = redis.call("ZRANGE", log, 0, 0, "WITHSCORES")
  local newest = redis.call("ZRANGE", log, -1, -1, "WITHSCORES")
  return {0, limit - live, oldest[2] + window - now, newest[2] + window - now, now}
end
redis.call("ZADD", log, now, string.format("%.0f|%.0f", now, live))
redis.call("PEXPIREAT", log, math.ceil((now + window) / 1000))
return {1, limit - live - 1, 0, window, now}
