-- Faulty on purpose. What gateways have as a sync rate: each process counts in its memory, adds its count to the total
-- in Redis at intervals, and decides by the total that it read then and by what it has counted since. Until the next
-- time no process knows what the others have let through, so each may let the whole limit through.
local limit, window, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local counter = KEYS[1] .. string.format(":%.0f", now - now % window)
local total = redis.call("INCRBY", counter, count)
if total == count then redis.call("PEXPIRE", counter, math.ceil(window / 1000)) end
return {count, limit - total, 0}
