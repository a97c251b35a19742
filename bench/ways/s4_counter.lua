-- S4's way: a hash with the rate, a counter of the permits left, and a ZSET whose members are a random number and a
-- count of permits. What has come back is read into Lua, added to the counter and removed; nil means granted, a number
-- how long until the oldest entry comes back.
-- KEYS config, left, permits    ARGV rate, interval, random, permits
redis.call("HSETNX", KEYS[1], "rate", ARGV[1])
redis.call("HSETNX", KEYS[1], "interval", ARGV[2])
local rate = tonumber(redis.call("HGET", KEYS[1], "rate"))
local interval = tonumber(redis.call("HGET", KEYS[1], "interval"))
local permits = tonumber(ARGV[4])
assert(rate >= permits, "more permits than the rate")
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local left = redis.call("GET", KEYS[2])
if not left then
  left = rate
  redis.call("SET", KEYS[2], rate)
end
left = tonumber(left)
local released = 0
for _, member in ipairs(redis.call("ZRANGEBYSCORE", KEYS[3], 0, now - interval)) do
  local _, count = struct.unpack("<Bc0I", member)
  released = released + count
end
if released > 0 then
  redis.call("ZREMRANGEBYSCORE", KEYS[3], 0, now - interval)
  left = math.min(left + released, rate)
  redis.call("SET", KEYS[2], left)
end
if left < permits then
  local oldest = redis.call("ZRANGE", KEYS[3], 0, 0, "WITHSCORES")
  return interval - (now - oldest[2])
end
redis.call("ZADD", KEYS[3], now, struct.pack("<Bc0I", #ARGV[3], ARGV[3], permits))
redis.call("DECRBY", KEYS[2], permits)
return nil
