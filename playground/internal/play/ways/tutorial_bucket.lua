-- Faulty on purpose. The token bucket as many tutorials have it: tokens and a time in a hash, as floats. The client's
-- clock decides, and the time is stored even where it goes back: after a client whose clock is behind, one whose clock
-- is right fills the bucket once more.
local limit, window, permits, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = KEYS[1]
local stored = redis.call("HMGET", bucket, "tokens", "time")
local tokens = tonumber(stored[1] or limit)
local elapsed = math.max(now - (stored[2] or now), 0)
tokens = math.min(limit, tokens + elapsed * limit / window)
local granted, wait = 0, math.ceil((permits - tokens) * window / limit)
if tokens >= permits then granted, wait, tokens = permits, 0, tokens - permits end
redis.call("HSET", bucket, "tokens", tokens, "time", now)
redis.call("EXPIRE", bucket, math.ceil(2 * window / 1000000))
return {granted, math.floor(tokens), wait}
