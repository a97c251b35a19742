-- S0's way: a ring of counters in a LIST, twice the window and one long, and the index of the last slice in a second key.
-- The walk over skipped slices clears one counter a step, and the sum reads every counter of the window.
-- KEYS ring, last    ARGV limit, window, slices
local limit, window, slices = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local size = 2 * slices + 1
local current = math.floor(now / (window / slices)) % size
if redis.call("EXISTS", KEYS[1]) == 0 then
  for _ = 1, size do redis.call("RPUSH", KEYS[1], 0) end
end
local last = tonumber(redis.call("GET", KEYS[2]) or current)
while last ~= current do
  last = (last + 1) % size
  redis.call("LSET", KEYS[1], last, 0)
end
local count = 0
for i = 0, slices - 1 do
  count = count + redis.call("LINDEX", KEYS[1], (current - i) % size)
end
if count >= limit then return 0 end
redis.call("LSET", KEYS[1], current, redis.call("LINDEX", KEYS[1], current) + 1)
redis.call("SET", KEYS[2], current)
return 1
