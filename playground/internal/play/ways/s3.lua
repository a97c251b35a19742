-- Faulty on purpose. S3: members are the millisecond, so that calls within one count as one.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log = KEYS[1]
redis.call("ZREMRANGEBYSCORE", log, "-inf", now - window)
local live = redis.call("ZCARD", log)
if live + permits > limit then
  local oldest = redis.call("ZRANGE", log, 0, 0, "WITHSCORES")
  local newest = redis.call("ZRANGE", log, -1, -1, "WITHSCORES")
  return {0, limit - live, oldest[2] + window - now, newest[2] + window - now, now}
end
redis.call("ZADD", log, now, string.format("%.0f", math.floor(now / 1000)))
redis.call("PEXPIREAT", log, math.ceil((now + window) / 1000))
return {permits, limit - live - permits, 0, window, now}
