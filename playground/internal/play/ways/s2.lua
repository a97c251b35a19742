-- S2: an exact log with the server's clock, which answers only yes or no: false comes back as nil. It says no time to
-- wait, so its callers poll: they take turns by chance, ask many times for each permit, and leave permits unused.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local log, id = KEYS[1], ARGV[5]
if redis.call("ZCOUNT", log, "(" .. string.format("%.0f", now - window), "+inf") + permits > limit then return false end
for i = 1, permits do redis.call("ZADD", log, string.format("%.0f", now), id .. ":" .. i) end
redis.call("ZREMRANGEBYSCORE", log, "-inf", string.format("%.0f", now - window - 1000000))
redis.call("PEXPIRE", log, math.ceil(window / 1000) + 1000)
return 1
