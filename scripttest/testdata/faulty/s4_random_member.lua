-- Faulty on purpose. S4: an entry is told apart by a random number, here drawn alike twice: two equal entries are one
-- member, and the permits of one are never given back.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
local random = 0.5
local free = tonumber(redis.call("GET", counter) or rate)
local expired = redis.call("ZRANGEBYSCORE", entries, "-inf", now - interval)
for _, member in ipairs(expired) do
  local _, count = struct.unpack(">fI4", member)
  free = free + count
  redis.call("ZREM", entries, member)
end
if free < permits then
  local oldest = redis.call("ZRANGE", entries, 0, 0, "WITHSCORES")
  return {0, free, (oldest[2] or now) + interval - now, interval, now, rate, interval}
end
redis.call("ZADD", entries, now, struct.pack(">fI4", random, permits))
redis.call("SET", counter, free - permits)
return {permits, free - permits, 0, interval, now, rate, interval}
