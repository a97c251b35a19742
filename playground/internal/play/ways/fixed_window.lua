-- Faulty on purpose. A counter for each window that begins at a whole multiple of itself, as most rate limiters have
-- it. Across an edge of two windows it lets twice the limit through. (S3 begins with this way.)
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local start = now - now % window
local counter = KEYS[1] .. string.format(":%.0f", start)
local used = redis.call("INCRBY", counter, permits)
if used == permits then redis.call("PEXPIRE", counter, math.ceil(window / 1000)) end
if used > limit then return {0, 0, start + window - now, start + window - now, now} end
return {permits, limit - used, 0, window, now}
