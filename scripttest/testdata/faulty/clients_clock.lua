-- Faulty on purpose. S0, S1, S2, S4: the clock is the client's, so that a fast client frees the permits of
-- others, and a slow one waits too long.
-- ARGV limit, window, permits, now -> granted, wait
local limit, window, permits, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local log = KEYS[1]
redis.call("ZREMRANGEBYSCORE", log, "-inf", now - window)
if redis.call("ZCARD", log) + permits > limit then
  return {0, redis.call("ZRANGE", log, 0, 0, "WITHSCORES")[2] + window - now}
end
redis.call("ZADD", log, now, string.format("%.0f", now))
return {permits, 0}
