-- Faulty on purpose. S4: as Redisson's RRateLimiter works. A counter of free permits stands beside a log of those that
-- come back, by the client's clock: a client whose clock is ahead frees the permits of others. The wait is that of the
-- oldest entry, however many are wanted.
local limit, window, permits, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local counter, log, id = KEYS[1] .. ":value", KEYS[1] .. ":permits", ARGV[5]
local free = tonumber(redis.call("GET", counter) or limit)
for _, member in ipairs(redis.call("ZRANGEBYSCORE", log, 0, now - window)) do
  free = free + tonumber(member:match("%d+$"))
  redis.call("ZREM", log, member)
end
local granted, wait = 0, 0
if free >= permits then
  redis.call("ZADD", log, now, id .. ":" .. permits)
  granted, free = permits, free - permits
else
  local oldest = redis.call("ZRANGE", log, 0, 0, "WITHSCORES")
  wait = math.max((oldest[2] or now) + window - now, 1)
end
redis.call("SET", counter, free)
return {granted, free, wait}
