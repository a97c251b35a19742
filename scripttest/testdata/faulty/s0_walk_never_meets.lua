-- Faulty on purpose. S0: the walk over skipped slices ends only where it meets the current index, and hangs when the
-- stored one lies outside the ring: after a change of size, for one.
local slice, permits, slices, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local size = 2 * slices + 1
local current = math.floor(now / slice) % size
local counters = KEYS[1] .. ":counters"
local last = tonumber(redis.call("GET", KEYS[1]) or current)
while last ~= current do
  last = last + 1
  if last == size then last = 0 end
  redis.call("HSET", counters, last, 0)
end
local count = 0
for i = 0, slices - 1 do
  count = count + tonumber(redis.call("HGET", counters, (current - i) % size) or "0")
end
if count + permits > limit then
  return {0, limit - count, 0, 0, now, count}
end
redis.call("HINCRBY", counters, current, permits)
redis.call("SET", KEYS[1], current)
return {permits, limit - count - permits, 0, slices * slice - now % slice, now, count + permits}
