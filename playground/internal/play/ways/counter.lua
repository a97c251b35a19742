-- Faulty on purpose. A counter of the holders at work: up when one begins, down when it ends, as many wrappers have it.
-- Who dies never counts down, so its slot is lost until the key expires. When the key expires, the slots of holders at
-- work are free as well.
local limit, ttl, change = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if change < 0 then
  if redis.call("EXISTS", KEYS[1]) == 1 then redis.call("DECR", KEYS[1]) end
  return 1
end
local held = redis.call("INCR", KEYS[1])
if held > limit then
  redis.call("DECR", KEYS[1])
  return 0
end
redis.call("PEXPIRE", KEYS[1], math.ceil(ttl / 1000))
return {1, limit - held, 0}
