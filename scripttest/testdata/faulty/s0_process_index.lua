-- Faulty on purpose. S0: each process keeps the last index itself, so that one that was quiet clears what
-- others have filled since.
-- ARGV slices, current, the caller's last index -> count
local slices, current, last = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for i = last + 1, current do redis.call("HSET", KEYS[1], i % slices, 0) end
redis.call("HINCRBY", KEYS[1], current % slices, 1)
local count = 0
for _, n in ipairs(redis.call("HVALS", KEYS[1])) do count = count + n end
return count
