-- Faulty on purpose. S5: a list of the slots that are free. When the last is taken the list is gone, and is taken for
-- one that was never made.
local limit, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
if redis.call("EXISTS", KEYS[1]) == 0 then
  for i = 1, limit do redis.call("RPUSH", KEYS[1], i) end
end
local slot = redis.call("LPOP", KEYS[1])
if not slot then return {0, 0, ttl, ttl, now} end
return {1, redis.call("LLEN", KEYS[1]), 0, ttl, now}
