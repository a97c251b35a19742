-- Faulty on purpose. S1 and S3: adds before it counts, so that a steady over-caller is never let in again. The member
-- is the time, so calls of one microsecond count as one.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log = KEYS[1]
redis.call("ZREMRANGEBYSCORE", log, "-inf", now - window)
redis.call("ZADD", log, now, string.format("%.0f", now))
redis.call("PEXPIREAT", log, math.ceil((now + window) / 1000))
local live = redis.call("ZCARD", log)
if live > limit then
  local oldest = redis.call("ZRANGE", log, 0, 0, "WITHSCORES")
  return {0, 0, oldest[2] + window - now, window, now}
end
return {1, limit - live, 0, window, now}
