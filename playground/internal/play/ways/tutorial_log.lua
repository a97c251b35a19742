-- Faulty on purpose. The sliding window log as many tutorials have it. The client's clock decides: one that is ahead
-- removes what still counts. It adds before it counts, so denied calls count as well, and who keeps asking is not let
-- in again.
local limit, window, permits, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local log, id = KEYS[1], ARGV[5]
redis.call("ZREMRANGEBYSCORE", log, 0, now - window)
for i = 1, permits do redis.call("ZADD", log, now, id .. ":" .. i) end
redis.call("EXPIRE", log, math.ceil(window / 1000000))
local count = redis.call("ZCARD", log)
if count > limit then return {0, 0} end
return {permits, limit - count, 0}
