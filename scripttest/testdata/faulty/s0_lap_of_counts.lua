-- Faulty on purpose. S0: only the index in the ring is kept, so that after exactly one lap the counts of a lap ago are
-- taken for the current ones.
local slice, permits, slices, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local size = 2 * slices + 1
local current = math.floor(now / slice) % size
local counters = KEYS[1] .. ":counters"
local last = tonumber(redis.call("GET", KEYS[1]) or current)
local skipped = (current - last) % size
for i = 1, skipped do redis.call("HSET", counters, (last + i) % size, 0) end
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
