-- Faulty on purpose. S4: the wait of the oldest entry is given as the wait for n permits.
local rate, interval, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local entries, counter = KEYS[2], KEYS[3]
local used, oldest, newest = 0, now, now
for _, member in ipairs(redis.call("ZRANGEBYSCORE", entries, now - interval + 1, "+inf")) do
  local _, count = struct.unpack(">I8I4", member)
  newest = tonumber(redis.call("ZSCORE", entries, member))
  if used == 0 then oldest = newest end
  used = used + count
end
if used + permits > rate then
  return {0, rate - used, oldest + interval - now, newest + interval - now, now, rate, interval}
end
redis.call("ZADD", entries, now, struct.pack(">I8I4", now, permits))
return {permits, rate - used - permits, 0, interval, now, rate, interval}
