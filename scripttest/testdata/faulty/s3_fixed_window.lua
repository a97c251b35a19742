-- Faulty on purpose. S3: a window that begins at whole multiples of itself lets twice the limit
-- through across its edge.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log = KEYS[1]
local start = now - now % window
local counter = log .. string.format(":%.0f", start)
local used = tonumber(redis.call("GET", counter) or "0")
if used + permits > limit then return {0, limit - used, start + window - now, start + window - now, now} end
redis.call("SET", counter, used + permits, "PX", math.ceil(window / 1000))
return {permits, limit - used - permits, 0, window, now}
