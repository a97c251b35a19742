-- Faulty on purpose. S4: a counter beside the entries. Where one of them is lost, a full rate is granted again, or
-- nothing ever.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
local free = tonumber(redis.call("GET", counter) or rate)
local expired = redis.call("ZRANGEBYSCORE", entries, "-inf", now - interval)
for _, member in ipairs(expired) do
  local _, count = struct.unpack(">I8I4", member)
  free = free + count
  redis.call("ZREM", entries, member)
end
local oldest = redis.call("ZRANGE", entries, 0, 0, "WITHSCORES")
local newest = redis.call("ZRANGE", entries, -1, -1, "WITHSCORES")
if free < permits then
  return {0, free, (oldest[2] or now) + interval - now, (newest[2] or now) + interval - now, now, rate, interval}
end
redis.call("ZADD", entries, now, struct.pack(">I8I4", now, permits))
redis.call("SET", counter, free - permits)
return {permits, free - permits, 0, interval, now, rate, interval}
