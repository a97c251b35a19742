-- Faulty on purpose. The sliding window counter: this window's counter, and of the last one's the share that the
-- sliding window still covers. It takes the calls of the last window for evenly spread. Where they came late in it,
-- it lets up to nearly twice the limit through.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local start = now - now % window
local current = KEYS[1] .. string.format(":%.0f", start)
local last = KEYS[1] .. string.format(":%.0f", start - window)
local used = tonumber(redis.call("GET", current) or "0")
local before = tonumber(redis.call("GET", last) or "0")
local estimate = before * (start + window - now) / window + used
if estimate + permits > limit then
  -- When the share of the last window has fallen far enough, or else with the next window.
  local wait = start + window - now
  if used + permits <= limit then
    wait = math.ceil(wait - (limit - permits - used) * window / before)
  end
  return {0, math.max(math.floor(limit - estimate), 0), math.max(wait, 1)}
end
redis.call("INCRBY", current, permits)
redis.call("PEXPIRE", current, math.ceil(2 * window / 1000))
return {permits, math.floor(limit - estimate - permits), 0}
