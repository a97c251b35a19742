-- rueidislimiter's way: a counter, and in a second key the moment at which its window ends, by the client's clock in
-- milliseconds. Denied calls count as well.
-- KEYS counter, ends_at    ARGV permits, next end, now
local ends_at = tonumber(redis.call("GET", KEYS[2]))
if not ends_at or ends_at < tonumber(ARGV[3]) then
  ends_at = tonumber(ARGV[2])
  redis.call("SET", KEYS[1], 0, "PXAT", ends_at + 1000)
  redis.call("SET", KEYS[2], ends_at, "PXAT", ends_at + 1000)
end
return {redis.call("INCRBY", KEYS[1], ARGV[1]), ends_at}
